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
    parameter,
)


class GBMState(NamedTuple):
    S: Annotated[Scalar, Quantity("currency", "asset price", at_least=0)]


class GBMNoise(NamedTuple):
    W: Scalar


class GBM(AbstractSDE, AbstractExactMoments, AbstractExactTransition):
    r"""Geometric Brownian motion, $dS = \mu S\,dt + \sigma S\,dW$.

    Itô. Solution $S_t = S_0 \exp((\mu - \sigma^2/2)\,t + \sigma W_t)$, mean $S_0 e^{\mu t}$, variance
    $S_0^2 e^{2\mu t} (e^{\sigma^2 t} - 1)$. Time is in years if rates are annual.
    Reference: Black & Scholes (1973), doi:10.1086/260062.
    """

    State = GBMState
    Noise = GBMNoise
    calculus = "ito"
    noise_kind = "scalar"
    example: ClassVar[dict[str, float]] = {"mu": 0.05, "sigma": 0.2}
    example_initial: ClassVar[dict[str, float]] = {"S": 100.0}

    mu: Scalar = parameter("1/time", "drift rate")
    sigma: Scalar = parameter("1/time^0.5", "volatility", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> GBMState:
        return GBMState(S=self.mu * y.S)

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> GBMState:
        return GBMState(S=self.sigma * y.S * dW.W)

    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> GBMState:
        return GBMState(S=y.S * jnp.exp((self.mu - 0.5 * self.sigma**2) * h + self.sigma * dW.W))

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return GBMState(S=y0.S * jnp.exp(self.mu * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return GBMState(S=y0.S**2 * jnp.exp(2 * self.mu * t) * jnp.expm1(self.sigma**2 * t))
