from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractJumpDiffusion,
    AbstractSquareRootVariance,
    Discontinuity,
    NormalMarks,
    Quantity,
    Scalar,
    SquareRootCoefficients,
    parameter,
)

from simkit_physics.finance.heston import Heston


class BatesState(NamedTuple):
    S: Annotated[Scalar, Quantity("currency", "asset price", at_least=0)]
    v: Annotated[Scalar, Quantity("1/time", "variance of the return between jumps", at_least=0)]


class BatesNoise(NamedTuple):
    W1: Scalar
    W2: Scalar


class Bates(AbstractJumpDiffusion, AbstractExactMoments, AbstractSquareRootVariance):
    r"""Bates's stochastic volatility with jumps, `Heston` with the jumps of `Merton`; with $v^+ = \max(v, 0)$

    $$dS = (\mu - \lambda k) S\,dt + \sqrt{v^+} S\,dW_1 + (e^z - 1) S_-\,dN, \qquad
      dv = \kappa(\theta - v^+)\,dt + \xi \sqrt{v^+}\,(\rho\,dW_1 + \sqrt{1 - \rho^2}\,dW_2).$$

    Itô. N counts jumps that come at the rate $\lambda$, z is normal with mean m and standard deviation
    $\delta$, and $k = e^{m + \delta^2/2} - 1$ makes the mean $S_0 e^{\mu t}$. The second moment of S is
    Heston's times $e^{\lambda E[(e^z - 1)^2]\,t}$, and may become infinite in finite time as there. Jumps are
    drawn from their distribution and nothing is lost in them. Derivatives in $\lambda$ miss the change of N.
    References: Bates (1996), Jumps and stochastic volatility: exchange rate processes implicit in Deutsche
    mark options, doi:10.1093/rfs/9.1.69; Lord, Koekkoek & Van Dijk (2010), doi:10.1080/14697680802392496
    (full truncation).
    """

    State = BatesState
    Noise = BatesNoise
    calculus = "ito"
    smooth = False
    noise_kind = "general"
    jumps_commute = True
    example: ClassVar[dict[str, float]] = {
        "mu": 0.05,
        "kappa": 2.0,
        "theta": 0.04,
        "xi": 0.3,
        "rho": -0.7,
        "lam": 0.5,
        "m": -0.1,
        "delta": 0.15,
    }
    example_initial: ClassVar[dict[str, float]] = {"S": 100.0, "v": 0.04}

    mu: Scalar = parameter("1/time", "drift rate of the mean price")
    kappa: Scalar = parameter("1/time", "reversion rate of the variance", at_least=0)
    theta: Scalar = parameter("1/time", "long-run variance", at_least=0)
    xi: Scalar = parameter("1/time", "volatility of the variance", at_least=0)
    rho: Scalar = parameter("1", "correlation of price and variance", at_least=-1, at_most=1)
    lam: Scalar = parameter("1/time", "rate of jumps", at_least=0)
    m: Scalar = parameter("1", "mean jump of the logarithm of the price")
    delta: Scalar = parameter("1", "standard deviation of that jump", at_least=0)

    def between_jumps(self, t: Scalar) -> Heston:
        """Heston's model of what happens between jumps."""
        mu = self.mu - self.lam * self.marks(t).mean_return()
        return Heston(mu=mu, kappa=self.kappa, theta=self.theta, xi=self.xi, rho=self.rho)

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        return self.between_jumps(0.0).discontinuities()

    def drift(self, t: Scalar, y: PyTree) -> BatesState:
        return BatesState(*self.between_jumps(t).drift(t, y))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> BatesState:
        return BatesState(*self.between_jumps(t).noise(t, y, dW))

    def intensity(self, t: Scalar, y: PyTree) -> Scalar:
        return self.lam

    def marks(self, t: Scalar) -> NormalMarks:
        return NormalMarks(self.m, self.delta)

    def jump(self, t: Scalar, y: PyTree, z: Scalar) -> BatesState:
        return BatesState(S=y.S * jnp.exp(z), v=y.v)

    def square_root(self, t: Scalar) -> SquareRootCoefficients:
        return self.between_jumps(t).square_root(t)

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return BatesState(S=y0.S * jnp.exp(self.mu * t), v=self.between_jumps(t).exact_mean(t, y0).v)

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        diffusion = self.between_jumps(t)
        jumps = self.lam * self.marks(t).squared_return() * t
        spread = diffusion.log_second_moment(t, y0.v) + jumps
        return BatesState(
            S=y0.S**2 * jnp.exp(2 * self.mu * t) * jnp.expm1(spread), v=diffusion.exact_variance(t, y0).v
        )
