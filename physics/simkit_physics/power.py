r"""Powers of the positive part, $\max(x, 0)^\beta$, with gradients that stay finite."""

import jax
import jax.numpy as jnp
from simkit_solvers import Scalar


def power_positive(x: Scalar, beta: Scalar) -> jax.Array:
    r"""$\max(x, 0)^\beta$, and zero with derivative zero where x ≤ 0, for $\beta = 0$ too.

    The inner `where` keeps the power away from zero, where its infinite derivative times the zero of the
    outer one would be NaN.
    """
    positive = x > 0
    return jnp.where(positive, jnp.power(jnp.where(positive, x, 1.0), beta), 0.0)
