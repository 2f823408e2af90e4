from typing import Annotated, ClassVar, NamedTuple

from simkit_solvers import NormalMarks, Quantity, Scalar, parameter

from simkit_physics.finance.jumping_price import AbstractJumpingPrice


class MertonState(NamedTuple):
    S: Annotated[Scalar, Quantity("currency", "asset price", at_least=0)]


class MertonNoise(NamedTuple):
    W: Scalar


class Merton(AbstractJumpingPrice):
    r"""Merton's jump diffusion, $dS = (\mu - \lambda k) S\,dt + \sigma S\,dW + (e^z - 1) S_-\,dN$.

    Itô. N counts jumps that come at the rate $\lambda$, and the mark z, the jump of $\ln S$, is normal with
    mean m and standard deviation $\delta$. The compensator $k = E[e^z] - 1 = e^{m + \delta^2/2} - 1$ makes
    the mean $S_0 e^{\mu t}$, so that $\mu = r - q$ prices options; the variance is
    $S_0^2 e^{2\mu t} (e^{(\sigma^2 + \lambda E[(e^z - 1)^2])\,t} - 1)$. In a step N is drawn from its
    distribution and the sum of its N marks as one normal, so nothing is lost in the jumps; with
    `ExactSampling` one step is exact. Derivatives in $\lambda$ miss the change of N.
    Reference: Merton (1976), Option pricing when underlying stock returns are discontinuous,
    doi:10.1016/0304-405X(76)90022-2.
    """

    State = MertonState
    Noise = MertonNoise
    example: ClassVar[dict[str, float]] = {"mu": 0.05, "sigma": 0.2, "lam": 0.5, "m": -0.1, "delta": 0.15}
    example_initial: ClassVar[dict[str, float]] = {"S": 100.0}

    mu: Scalar = parameter("1/time", "drift rate of the mean")
    sigma: Scalar = parameter("1/time^0.5", "volatility between jumps", at_least=0)
    lam: Scalar = parameter("1/time", "rate of jumps", at_least=0)
    m: Scalar = parameter("1", "mean jump of the logarithm")
    delta: Scalar = parameter("1", "standard deviation of that jump", at_least=0)

    def marks(self, t: Scalar) -> NormalMarks:
        return NormalMarks(self.m, self.delta)
