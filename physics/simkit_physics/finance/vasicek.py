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


class VasicekState(NamedTuple):
    r: Annotated[Scalar, Quantity("1/time", "short rate")]


class VasicekNoise(NamedTuple):
    W: Scalar


class Vasicek(AbstractSDE, AbstractExactMoments, AbstractExactTransition):
    r"""Vasicek's short rate, $dr = \kappa(\theta - r)\,dt + \sigma\,dW$.

    Additive noise, so Itô = Stratonovich. $r_t$ is normal with mean $\theta + (r_0 - \theta)\,e^{-\kappa t}$
    and variance $\sigma^2 (1 - e^{-2\kappa t}) / 2\kappa$, and may be negative; Brownian motion at $\kappa =
    0$.
    Reference: Vasicek (1977), An equilibrium characterization of the term structure,
    doi:10.1016/0304-405X(77)90016-2.
    """

    State = VasicekState
    Noise = VasicekNoise
    calculus = "any"
    noise_kind = "additive"
    example: ClassVar[dict[str, float]] = {"kappa": 0.5, "theta": 0.04, "sigma": 0.015}
    example_initial: ClassVar[dict[str, float]] = {"r": 0.01}
    example_time: ClassVar[dict[str, float]] = {"t1": 10.0, "steps": 500}

    kappa: Scalar = parameter("1/time", "reversion rate", at_least=0)
    theta: Scalar = parameter("1/time", "long-run mean")
    sigma: Scalar = parameter("1/time^1.5", "volatility", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> VasicekState:
        return VasicekState(r=self.kappa * (self.theta - y.r))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> VasicekState:
        return VasicekState(r=self.sigma * dW.W)

    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> VasicekState:
        spread = self.sigma * jnp.sqrt(mean_decay(2 * self.kappa * h))
        return VasicekState(r=self.exact_mean(h, y).r + spread * dW.W)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return VasicekState(r=y0.r - (y0.r - self.theta) * -jnp.expm1(-self.kappa * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return VasicekState(r=self.sigma**2 * t * mean_decay(2 * self.kappa * t))
