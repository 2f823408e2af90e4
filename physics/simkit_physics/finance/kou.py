from typing import Annotated, ClassVar, NamedTuple

from simkit_solvers import DoubleExponentialMarks, Quantity, Scalar, parameter

from simkit_physics.finance.jumping_price import AbstractJumpingPrice


class KouState(NamedTuple):
    S: Annotated[Scalar, Quantity("currency", "asset price", at_least=0)]


class KouNoise(NamedTuple):
    W: Scalar


class Kou(AbstractJumpingPrice):
    r"""Kou's double-exponential jumps, $dS = (\mu - \lambda k) S\,dt + \sigma S\,dW + (e^z - 1) S_-\,dN$.

    Itô. N counts jumps that come at the rate $\lambda$. The mark z, the jump of $\ln S$, is exponential with
    mean $1/\eta_1$ upwards with probability p, and with mean $1/\eta_2$ downwards otherwise. The compensator
    $k = p\,\eta_1/(\eta_1 - 1) + (1 - p)\,\eta_2/(\eta_2 + 1) - 1$ makes the mean $S_0 e^{\mu t}$; the
    variance is $S_0^2 e^{2\mu t} (e^{(\sigma^2 + \lambda E[(e^z - 1)^2])\,t} - 1)$, infinite for
    $\eta_1 \le 2$ where there are upward jumps. Numbers of jumps and their sums are drawn from their
    distributions; with `ExactSampling` one step is exact. Derivatives in $\lambda$ and p miss the change of
    these numbers.
    Reference: Kou (2002), A jump-diffusion model for option pricing, doi:10.1287/mnsc.48.8.1086.166.
    """

    State = KouState
    Noise = KouNoise
    example: ClassVar[dict[str, float]] = {
        "mu": 0.05,
        "sigma": 0.16,
        "lam": 1.0,
        "p": 0.4,
        "eta1": 10.0,
        "eta2": 5.0,
    }
    example_initial: ClassVar[dict[str, float]] = {"S": 100.0}

    mu: Scalar = parameter("1/time", "drift rate of the mean")
    sigma: Scalar = parameter("1/time^0.5", "volatility between jumps", at_least=0)
    lam: Scalar = parameter("1/time", "rate of jumps", at_least=0)
    p: Scalar = parameter("1", "probability of an upward jump", at_least=0, at_most=1)
    eta1: Scalar = parameter("1", "inverse of the mean upward jump of the logarithm", above=1)
    eta2: Scalar = parameter("1", "inverse of the mean downward jump of the logarithm", above=0)

    def marks(self, t: Scalar) -> DoubleExponentialMarks:
        return DoubleExponentialMarks(self.p, self.eta1, self.eta2)
