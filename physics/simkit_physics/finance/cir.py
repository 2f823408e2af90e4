from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from simkit_solvers.problem import AbstractExactMoments, AbstractSDE, Quantity, Scalar, parameter

from simkit_physics.decay import mean_decay
from simkit_physics.square_root import sqrt_positive


class CIRState(NamedTuple):
    r: Annotated[Scalar, Quantity("1/time", "short rate")]


class CIRNoise(NamedTuple):
    W: Scalar


class CIR(AbstractSDE, AbstractExactMoments):
    r"""Cox–Ingersoll–Ross process, $dr = \kappa(\theta - r^+)\,dt + \sigma \sqrt{r^+}\,dW$.

    Itô; $r^+ = \max(r, 0)$. The exact process stays at or above zero (strictly above where
    $2\kappa\theta \ge \sigma^2$), so $r^+ = r$; a discrete step may pass below, and there full truncation
    switches the noise off and lets the drift bring the path back. Derivatives stay finite on such paths.
    With $e = e^{-\kappa t}$ the mean is $\theta + (r_0 - \theta)\,e$ and the variance
    $r_0 \sigma^2 (e - e^2)/\kappa + \theta\sigma^2 (1 - e)^2 / 2\kappa$; they need $r_0 \ge 0$.
    References: Cox, Ingersoll & Ross (1985), doi:10.2307/1911242; Lord, Koekkoek & Van Dijk (2010),
    doi:10.1080/14697680802392496 (full truncation).
    """

    State = CIRState
    Noise = CIRNoise
    calculus = "ito"
    smooth = False
    noise_kind = "scalar"
    example: ClassVar[dict[str, float]] = {"kappa": 1.5, "theta": 0.04, "sigma": 0.3}
    example_initial: ClassVar[dict[str, float]] = {"r": 0.09}

    kappa: Scalar = parameter("1/time", "reversion rate", at_least=0)
    theta: Scalar = parameter("1/time", "long-run mean", at_least=0)
    sigma: Scalar = parameter("1/time", "volatility", at_least=0)

    def drift(self, t, y):
        return CIRState(r=self.kappa * (self.theta - jnp.maximum(y.r, 0.0)))

    def noise(self, t, y, dW):
        return CIRState(r=self.sigma * sqrt_positive(y.r) * dW.W)

    def exact_mean(self, t, y0):
        return CIRState(r=y0.r - (y0.r - self.theta) * -jnp.expm1(-self.kappa * t))

    def exact_variance(self, t, y0):
        span = t * mean_decay(self.kappa * t)  # (1 - e)/kappa
        kept = y0.r * jnp.exp(-self.kappa * t)
        return CIRState(r=self.sigma**2 * span * (kept + self.kappa * self.theta * span / 2))
