from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractExactTransition,
    AbstractSDE,
    Quantity,
    Scalar,
    StepWords,
    mean_decay,
    parameter,
)


class HullWhiteState(NamedTuple):
    r: Annotated[Scalar, Quantity("1/time", "short rate")]


class HullWhiteNoise(NamedTuple):
    W: Scalar


class HullWhite(AbstractSDE, AbstractExactMoments, AbstractExactTransition):
    r"""Hull and White's short rate with constant drift, $dr = (\theta - a r)\,dt + \sigma\,dW$.

    Additive noise, so Itô = Stratonovich. $r_t$ is normal with mean $r_0 e^{-at} + \theta (1 - e^{-at})/a$
    and variance $\sigma^2 (1 - e^{-2at}) / 2a$, and may be negative. At $a = 0$ it is the Ho–Lee model, a
    Brownian motion with the drift $\theta$; for $a > 0$ it is `Vasicek` with the level $\theta/a$.
    Reference: Hull & White (1990), Pricing interest-rate-derivative securities, doi:10.1093/rfs/3.4.573.
    """

    State = HullWhiteState
    Noise = HullWhiteNoise
    calculus = "any"
    noise_kind = "additive"
    example: ClassVar[dict[str, float]] = {"theta": 0.004, "a": 0.1, "sigma": 0.01}
    example_initial: ClassVar[dict[str, float]] = {"r": 0.02}
    example_time: ClassVar[dict[str, float]] = {"t1": 10.0, "steps": 500}

    theta: Scalar = parameter("1/time^2", "drift at a rate of zero")
    a: Scalar = parameter("1/time", "reversion rate", at_least=0)
    sigma: Scalar = parameter("1/time^1.5", "volatility", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> HullWhiteState:
        return HullWhiteState(r=self.theta - self.a * y.r)

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> HullWhiteState:
        return HullWhiteState(r=self.sigma * dW.W)

    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> HullWhiteState:
        spread = self.sigma * jnp.sqrt(mean_decay(2 * self.a * h))
        return HullWhiteState(r=self.exact_mean(h, y).r + spread * dW.W)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return HullWhiteState(r=y0.r + (self.theta - self.a * y0.r) * t * mean_decay(self.a * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return HullWhiteState(r=self.sigma**2 * t * mean_decay(2 * self.a * t))
