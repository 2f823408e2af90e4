from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractSDE,
    AbstractSquareRootVariance,
    Discontinuity,
    Quantity,
    Scalar,
    SquareRootCoefficients,
    mean_decay,
    parameter,
    sqrt_positive,
)

from simkit_physics.correlation import degenerate_correlation


class HestonState(NamedTuple):
    S: Annotated[Scalar, Quantity("currency", "asset price", at_least=0)]
    v: Annotated[Scalar, Quantity("1/time", "variance of the return", at_least=0)]


class HestonNoise(NamedTuple):
    W1: Scalar
    W2: Scalar


class Heston(AbstractSDE, AbstractExactMoments, AbstractSquareRootVariance):
    r"""Heston's stochastic volatility, with $v^+ = \max(v, 0)$:

    $$dS = \mu S\,dt + \sqrt{v^+} S\,dW_1, \qquad
      dv = \kappa(\theta - v^+)\,dt + \xi \sqrt{v^+}\,(\rho\,dW_1 + \sqrt{1 - \rho^2}\,dW_2).$$

    Itô; $W_1$ and $W_2$ are independent, and the noise is not commutative. The exact variance stays at or
    above zero, so $v^+ = v$; a discrete step may pass below, where full truncation switches the noise off.
    Derivatives stay finite on such paths. At exactly $|\rho| = 1$ the root $\sqrt{1 - \rho^2}$ has no
    derivative and zero stands in its place: derivatives of a path in $\rho$ are wrong there, all others are
    right, and `simkit sensitivity` takes finite differences.

    The mean of S is $S_0 e^{\mu t}$; $E[S^2]$ follows from a Riccati equation and may become infinite in
    finite time (Andersen & Piterbarg 2007, doi:10.1007/s00780-006-0011-7); the variance is infinite then.
    Mean and variance of v are those of `CIR`; all need $v_0 \ge 0$.
    References: Heston (1993), doi:10.1093/rfs/6.2.327; Lord, Koekkoek & Van Dijk (2010),
    doi:10.1080/14697680802392496 (full truncation).
    """

    State = HestonState
    Noise = HestonNoise
    calculus = "ito"
    smooth = False
    noise_kind = "general"
    example: ClassVar[dict[str, float]] = {"mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.7}
    example_initial: ClassVar[dict[str, float]] = {"S": 100.0, "v": 0.04}

    mu: Scalar = parameter("1/time", "drift rate of the price")
    kappa: Scalar = parameter("1/time", "reversion rate of the variance", at_least=0)
    theta: Scalar = parameter("1/time", "long-run variance", at_least=0)
    xi: Scalar = parameter("1/time", "volatility of the variance", at_least=0)
    rho: Scalar = parameter("1", "correlation of price and variance", at_least=-1, at_most=1)

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        return Discontinuity(frozenset({"v"}), kink=True, noise=True), *degenerate_correlation(self.rho)

    def drift(self, t: Scalar, y: PyTree) -> HestonState:
        return HestonState(S=self.mu * y.S, v=self.kappa * (self.theta - jnp.maximum(y.v, 0.0)))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> HestonState:
        root = sqrt_positive(y.v)
        across = sqrt_positive(1 - self.rho * self.rho)
        return HestonState(S=root * y.S * dW.W1, v=self.xi * root * (self.rho * dW.W1 + across * dW.W2))

    def square_root(self, t: Scalar) -> SquareRootCoefficients:
        return SquareRootCoefficients(self.kappa, self.theta, self.xi, self.rho, self.mu)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return HestonState(
            S=y0.S * jnp.exp(self.mu * t), v=y0.v - (y0.v - self.theta) * -jnp.expm1(-self.kappa * t)
        )

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        span = t * mean_decay(self.kappa * t)
        remaining = y0.v * jnp.exp(-self.kappa * t)
        return HestonState(
            S=y0.S**2 * jnp.exp(2 * self.mu * t) * jnp.expm1(self.log_second_moment(t, y0.v)),
            v=self.xi**2 * span * (remaining + self.kappa * self.theta * span / 2),
        )

    def log_second_moment(self, t: Scalar, v0: Scalar) -> Scalar:
        r"""$\ln E[S_t^2]/E[S_t]^2 = A + B v_0$ where $B' = \xi^2 B^2/2 - bB + 1$ and $A' = \kappa\theta B$.

        Here $b = \kappa - 2\rho\xi$, and with $d^2 = b^2 - 2\xi^2$ the solution is hyperbolic for
        $d^2 \ge 0$ and trigonometric below: $B = -2u'/\xi^2 u$ with
        $u = e^{-bt/2}(\cosh\frac{dt}2 + \frac bd \sinh\frac{dt}2)$. The moment is
        infinite once u reaches zero.
        """
        b = self.kappa - 2 * self.rho * self.xi
        square = b * b - 2 * self.xi * self.xi
        hyperbolic = square >= 0
        d = sqrt_positive(jnp.abs(square))
        half = d * t / 2

        # sinh(dt/2)/d and cosh(dt/2), both divided by exp(dt/2) in the hyperbolic case: neither overflows.
        wave = jnp.where(hyperbolic, 1.0, half)
        away = jnp.where(d > 0, d, 1.0)
        sinh = jnp.where(hyperbolic, t / 2 * mean_decay(2 * half), jnp.sin(wave) / away)
        cosh = jnp.where(hyperbolic, (1 + jnp.exp(-2 * half)) / 2, jnp.cos(wave))
        scaled = cosh + b * sinh
        finite = (scaled > 0) & (hyperbolic | (half < jnp.arctan2(d, -b)))
        scaled = jnp.where(finite, scaled, 1.0)
        slope = 2 * sinh / scaled

        # For b > 0 and real d the terms of -2 ln(u)/xi^2 that cancel as xi goes to 0 are cancelled by hand.
        # Elsewhere kappa is at most 4 xi, so that dividing by xi^2 loses no more than a factor theta/xi.
        tame = hyperbolic & (b > 0)
        total = jnp.where(tame, b + d, 1.0)
        q = t * mean_decay(2 * half) / total
        x = self.xi * self.xi * q
        split = t / total - q * _log1p_ratio(x)
        moving = self.xi > 1e-15
        xi = jnp.where(moving, self.xi, 1.0)
        growth = jnp.where(hyperbolic, half, 0.0)
        direct = jnp.where(moving, (b * t / 2 - growth - jnp.log(scaled)) / (xi * xi), 0.0)
        level = 2 * self.kappa * self.theta * jnp.where(tame, split, direct)
        return jnp.where(finite, level + slope * v0, jnp.inf)


def _log1p_ratio(x):
    r"""$\ln(1 + x)/x$ for x ≥ 0, with its limit 1 and slope −1/2 at zero."""
    small = x < 1e-8
    away = jnp.where(small, 1.0, x)
    return jnp.where(small, 1 - x / 2, jnp.log1p(away) / away)
