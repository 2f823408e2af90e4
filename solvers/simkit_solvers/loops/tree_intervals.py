"""The order in which adaptive steps try the intervals of a Brownian tree."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simkit_solvers.random.draws import Draw


class TreeInterval(NamedTuple):
    """Number `index` of the $2^{level}$ equal parts of coarse interval number `coarse`, with its normals.

    `pending` are the normals of the right halves that wait, one at most at each level.
    """

    coarse: jax.Array
    level: jax.Array
    index: jax.Array
    whole: Draw
    pending: Draw

    @staticmethod
    def first(whole: Draw, levels: int) -> "TreeInterval":
        """The first coarse interval, on a tree of `levels` levels."""
        zero = jnp.uint32(0)
        return TreeInterval(
            zero, zero, zero, whole, jax.tree.map(lambda z: jnp.zeros(levels, z.dtype), whole)
        )

    def after(self) -> tuple["TreeInterval", jax.Array]:
        """The interval after an accepted one, and whether it is the next coarse one, whose normals it lacks.

        To the right of number i on level l begins number $(i + 1)/2^k$ on level $l - k$, for the largest k
        that divides; it is the right half that waits there.
        """
        after = self.index + jnp.uint32(1)
        up = jax.lax.population_count((after & (~after + jnp.uint32(1))) - jnp.uint32(1))
        level, index = self.level - up, after >> up
        done = level == 0
        whole = jax.tree.map(lambda slots: _slot(slots, level), self.pending)
        coarse = self.coarse + done.astype(jnp.uint32)
        index = jnp.where(done, jnp.uint32(0), index)
        return TreeInterval(coarse, level, index, whole, self.pending), done

    def left_half(self, left: Draw, right: Draw) -> "TreeInterval":
        """The interval's left half, given the normals of both; the right one waits."""
        level = self.level + jnp.uint32(1)

        def keep(slots, z):
            return jnp.where(_at(slots, level), z, slots)

        pending = jax.tree.map(keep, self.pending, right)
        return TreeInterval(self.coarse, level, self.index * jnp.uint32(2), left, pending)


def _at(slots, level):
    """Which slot belongs to a level: a comparison, since under `vmap` an index would become a scatter."""
    return jnp.arange(slots.shape[0], dtype=jnp.uint32) == level


def _slot(slots, level):
    return jnp.sum(jnp.where(_at(slots, level), slots, 0))
