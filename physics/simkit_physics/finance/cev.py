from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractExactMoments, AbstractSDE, Discontinuity, Quantity, Scalar, parameter

from simkit_physics.power import power_positive


class CEVState(NamedTuple):
    S: Annotated[Scalar, Quantity("currency", "asset price", at_least=0)]


class CEVNoise(NamedTuple):
    W: Scalar


class CEV(AbstractSDE, AbstractExactMoments):
    r"""Constant elasticity of variance, $dS = \mu S\,dt + \sigma \max(S, 0)^\beta\,dW$.

    Itô. At $\beta = 1$ this is `GBM`, at $\beta = 1/2$ a square root diffusion, and at $\beta = 0$ a normal
    price. For $\beta < 1$ the price reaches zero with some probability and stays there: at or below zero the
    noise is off, for $\beta = 0$ too. A discrete step may pass below, and the price then stays where it is
    but for its drift; derivatives stay finite on such paths. The mean is $S_0 e^{\mu t}$ for $S_0 \ge 0$.
    References: Cox (1996), The constant elasticity of variance option pricing model,
    doi:10.3905/jpm.1996.015; Schroder (1989), Computing the constant elasticity of variance option pricing
    formula, doi:10.1111/j.1540-6261.1989.tb02414.x.
    """

    State = CEVState
    Noise = CEVNoise
    calculus = "ito"
    smooth = False
    noise_kind = "scalar"
    example: ClassVar[dict[str, float]] = {"mu": 0.05, "sigma": 2.0, "beta": 0.5}
    example_initial: ClassVar[dict[str, float]] = {"S": 100.0}

    mu: Scalar = parameter("1/time", "drift rate")
    sigma: Scalar = parameter("currency^(1-beta)/time^0.5", "volatility", at_least=0)
    beta: Scalar = parameter("1", "elasticity", at_least=0, at_most=1)

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        return (Discontinuity(frozenset({"S"}), kink=bool(self.beta > 0), noise=True),)

    def drift(self, t: Scalar, y: PyTree) -> CEVState:
        return CEVState(S=self.mu * y.S)

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> CEVState:
        return CEVState(S=self.sigma * power_positive(y.S, self.beta) * dW.W)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return CEVState(S=y0.S * jnp.exp(self.mu * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return CEVState._make((None,))
