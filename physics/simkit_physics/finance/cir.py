from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractExactTransition,
    AbstractSDE,
    AbstractSquareRootVariance,
    Discontinuity,
    Quantity,
    Scalar,
    SquareRootCoefficients,
    StepWords,
    gamma,
    mean_decay,
    parameter,
    poisson,
    sqrt_positive,
)

TINY = 1e-30
LARGEST_MEAN = 1e9


class CIRState(NamedTuple):
    r: Annotated[Scalar, Quantity("1/time", "short rate", at_least=0)]


class CIRNoise(NamedTuple):
    W: Scalar


class CIR(AbstractSDE, AbstractExactMoments, AbstractExactTransition, AbstractSquareRootVariance):
    r"""Cox–Ingersoll–Ross process, $dr = \kappa(\theta - r^+)\,dt + \sigma \sqrt{r^+}\,dW$.

    Itô; $r^+ = \max(r, 0)$. The exact process stays at or above zero (strictly above where
    $2\kappa\theta \ge \sigma^2$), so $r^+ = r$; a discrete step may pass below, and there full truncation
    switches the noise off and lets the drift bring the path back. Derivatives stay finite on such paths.
    With $e = e^{-\kappa t}$ the mean is $\theta + (r_0 - \theta)\,e$ and the variance
    $r_0 \sigma^2 (e - e^2)/\kappa + \theta\sigma^2 (1 - e)^2 / 2\kappa$; they need $r_0 \ge 0$. The
    distribution of $r_t$ is that of $c\,\chi'^2(d, l)$, non-central with $d = 4\kappa\theta/\sigma^2$ degrees
    of freedom, $l = r_0 e/c$ and $c = \sigma^2 (1 - e)/4\kappa$; `ExactSampling` draws from it. Its
    derivatives are NaN for $d \le 1$, where a Poisson number is drawn.
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

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        return (Discontinuity(frozenset({"r"}), kink=True, noise=True),)

    def drift(self, t: Scalar, y: PyTree) -> CIRState:
        return CIRState(r=self.kappa * (self.theta - jnp.maximum(y.r, 0.0)))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> CIRState:
        return CIRState(r=self.sigma * sqrt_positive(y.r) * dW.W)

    def square_root(self, t: Scalar) -> SquareRootCoefficients:
        return SquareRootCoefficients(self.kappa, self.theta, self.sigma)

    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> CIRState:
        r"""$c\,\chi'^2(d, l)$, for d > 1 as $c\,(Z + \sqrt l)^2 + c\,\chi^2(d - 1)$, else with $d + 2N$
        degrees of freedom, N Poisson with mean $l/2$."""
        span = h * mean_decay(self.kappa * h)
        remaining = jnp.maximum(y.r, 0.0) * jnp.exp(-self.kappa * h)  # c l
        pull = self.kappa * self.theta * span  # c d
        moving = self.sigma > 0
        c = jnp.where(moving, 0.25 * self.sigma**2 * span, 1.0)
        d = pull / c

        # A chi-square variate with d - 1 degrees of freedom plus a squared normal, or one with d + 2N.
        enough = d > 1
        root = sqrt_positive(remaining) + 0.5 * self.sigma * jnp.sqrt(span / h) * dW.W
        half = jnp.where(enough, 0.0, jnp.minimum(0.5 * remaining / c, LARGEST_MEAN))
        half = jax.lax.stop_gradient(half)
        n = jax.lax.cond(  # a Poisson variate takes as long as the rest
            enough, lambda: jnp.zeros_like(half, jnp.int32), lambda: poisson(words.block(1), half)
        )
        shape = 0.5 * jnp.where(enough, d - 1, d + 2.0 * n.astype(d.dtype))
        drawn = jnp.where(shape > 0, 2 * c * gamma(words.block(0), jnp.maximum(shape, TINY)), 0.0)
        normal = jnp.where(enough, root * root, 0.0 * remaining)  # on which N depends too
        sampled = _without_derivative(normal + drawn, ~enough)
        return CIRState(r=jnp.where(moving, sampled, remaining + pull))

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return CIRState(r=y0.r - (y0.r - self.theta) * -jnp.expm1(-self.kappa * t))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        span = t * mean_decay(self.kappa * t)  # (1 - e)/kappa
        remaining = y0.r * jnp.exp(-self.kappa * t)
        return CIRState(r=self.sigma**2 * span * (remaining + self.kappa * self.theta * span / 2))


@jax.custom_jvp
def _without_derivative(x, where):
    """x, with derivatives that are NaN `where` they would be wrong, and ordinary elsewhere."""
    return x


@_without_derivative.defjvp
def _(primals, tangents):
    x, where = primals
    return x, tangents[0] * jnp.where(where, jnp.nan, 1.0)
