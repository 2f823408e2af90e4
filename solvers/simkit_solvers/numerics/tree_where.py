"""`jnp.where`, leaf by leaf."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar


def tree_where(condition: Scalar, one: PyTree, other: PyTree) -> PyTree:
    """The leaves of `one` where the condition holds, else those of `other`, a tree of the same structure."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), one, other)
