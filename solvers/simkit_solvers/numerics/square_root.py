r"""The square root of full truncation, $\sqrt{\max(x, 0)}$, with gradients that stay finite."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from simkit_solvers.numerics.scalar import Scalar


def sqrt_positive(x: Scalar) -> Float[Array, "..."]:
    r"""$\sqrt{\max(x, 0)}$, with derivative zero where x ≤ 0.

    The inner `where` keeps the root away from zero, where its infinite derivative times the zero of the outer
    one would be NaN.

    >>> import jax
    >>> from simkit_solvers import sqrt_positive
    >>> float(sqrt_positive(-1.0)), float(jax.grad(sqrt_positive)(0.0))
    (0.0, 0.0)
    """
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)
