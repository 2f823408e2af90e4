from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractSDE,
    Discontinuity,
    Quantity,
    Scalar,
    parameter,
    sqrt_positive,
)

from simkit_physics.correlation import degenerate_correlation
from simkit_physics.power import power_positive


class SABRState(NamedTuple):
    F: Annotated[Scalar, Quantity("currency", "forward price", at_least=0)]
    alpha: Annotated[Scalar, Quantity("currency^(1-beta)/time^0.5", "volatility", at_least=0)]


class SABRNoise(NamedTuple):
    W1: Scalar
    W2: Scalar


class SABR(AbstractSDE, AbstractExactMoments):
    r"""Stochastic volatility with elasticity β:

    $$dF = \alpha \max(F, 0)^\beta\,dW_1, \qquad
      d\alpha = \nu\alpha\,(\rho\,dW_1 + \sqrt{1 - \rho^2}\,dW_2).$$

    Itô; $W_1$ and $W_2$ are independent, and the noise is not commutative. For $\beta < 1$ the forward may
    reach zero, where it stays: at or below zero its noise is off, for $\beta = 0$ too. Derivatives stay
    finite on such paths; at exactly $|\rho| = 1$ those of a path in $\rho$ are wrong, as in `Heston`.

    The mean of F is $F_0$, unless $\beta = 1$ and $\rho > 0$, where F is no martingale and the mean is given
    as NaN. The volatility is lognormal with mean $\alpha_0$ and variance $\alpha_0^2 (e^{\nu^2 t} - 1)$.
    References: Hagan, Kumar, Lesniewski & Woodward (2002), Managing smile risk, Wilmott Magazine, September,
    84–108; Andersen & Piterbarg (2007), Moment explosions in stochastic volatility models,
    doi:10.1007/s00780-006-0011-7 (martingales and moments).
    """

    State = SABRState
    Noise = SABRNoise
    calculus = "ito"
    smooth = False
    noise_kind = "general"
    example: ClassVar[dict[str, float]] = {"beta": 0.5, "nu": 0.4, "rho": -0.3}
    example_initial: ClassVar[dict[str, float]] = {"F": 100.0, "alpha": 2.0}

    beta: Scalar = parameter("1", "elasticity", at_least=0, at_most=1)
    nu: Scalar = parameter("1/time^0.5", "volatility of the volatility", at_least=0)
    rho: Scalar = parameter("1", "correlation of forward and volatility", at_least=-1, at_most=1)

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        return Discontinuity(frozenset({"F"}), kink=bool(self.beta > 0), noise=True), *degenerate_correlation(
            self.rho
        )

    def drift(self, t: Scalar, y: PyTree) -> SABRState:
        return SABRState(F=jnp.zeros_like(y.F), alpha=jnp.zeros_like(y.alpha))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> SABRState:
        across = sqrt_positive(1 - self.rho * self.rho)
        return SABRState(
            F=y.alpha * power_positive(y.F, self.beta) * dW.W1,
            alpha=self.nu * y.alpha * (self.rho * dW.W1 + across * dW.W2),
        )

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        martingale = (self.beta < 1) | (self.rho <= 0)
        return SABRState(F=jnp.where(martingale, y0.F, jnp.nan), alpha=1.0 * y0.alpha)

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        return SABRState._make((None, y0.alpha**2 * jnp.expm1(self.nu**2 * t)))
