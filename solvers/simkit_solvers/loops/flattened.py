"""An ordinary problem whose state is one vector.

A solver's loop does everything once for each array of the state: error norms, selections, buffers. With one
array it is compiled in half the time, whatever the number of variables.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.terms import as_arrays


@dataclasses.dataclass(frozen=True)
class VectorLayout:
    """Where the numbers of a state lie in its vector; equal for states of equal structure."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(y: PyTree) -> "VectorLayout":
        """The layout of a state of arrays or numbers."""
        leaves, structure = jax.tree.flatten(y)
        return VectorLayout(structure, tuple(jnp.shape(leaf) for leaf in leaves))

    def vector(self, y: PyTree) -> jax.Array:
        """The numbers of a state, (n,)."""
        return jnp.concatenate([jnp.reshape(leaf, -1) for leaf in jax.tree.leaves(y)])

    def state(self, vector: Float[Array, " n"]) -> PyTree:
        """The state of a vector, (n,)."""
        leaves, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            leaves.append(vector[start : start + size].reshape(shape))
            start += size
        return jax.tree.unflatten(self.structure, leaves)


class Flattened(AbstractODE):
    """The problem `original`, whose states have `layout`, with vectors in their place."""

    State = jax.Array

    original: AbstractODE
    layout: VectorLayout = eqx.field(static=True)

    def drift(self, t, y):
        state = self.layout.state(y)
        return self.layout.vector(as_arrays(self.original.drift(t, state), state))
