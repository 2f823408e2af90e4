r"""The mean of an exponential decay, for reversion rates down to zero."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from simkit_solvers.numerics.scalar import Scalar

# Below 0.25 twelve terms of the series leave less than 1e-16; above it neither (1 - exp(-x))/x nor its first
# two derivatives lose more than three digits to cancellation.
SERIES_BELOW = 0.25
TERMS = 12


def mean_decay(x: Scalar) -> Float[Array, "..."]:
    r"""$\phi(x) = (1 - e^{-x}) / x = \frac1x \int_0^x e^{-s}\,ds$, smooth through $\phi(0) = 1$.

    >>> from simkit_solvers import mean_decay
    >>> float(mean_decay(0.0)), round(float(mean_decay(1.0)), 4)
    (1.0, 0.6321)
    """
    small = jnp.abs(x) < SERIES_BELOW
    away = jnp.where(small, 1.0, x)
    near = jnp.where(small, x, 0.0)
    series = 0.0
    for n in reversed(range(TERMS)):
        series = 1.0 / math.factorial(n + 1) - near * series
    return jnp.where(small, series, -jnp.expm1(-away) / away)
