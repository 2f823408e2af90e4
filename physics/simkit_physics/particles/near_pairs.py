"""A loop over all pairs nearer than a distance of any length, without a list that could overflow.

Particles are sorted into compact blocks of 64. For each block, those near it are found by their bounding
boxes, and each pair of blocks is a tile of 64 x 64 distances. This is for what is measured now and then, with
a range of its own; forces, needed at every step, have lists.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from simkit_solvers import Particles, Vector, over_shared_parts

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import BLOCK, ClusterGrid, by_cluster, cluster_grid, sorted_places

PARTS = 64  # whose sums are added up


class Tile(NamedTuple):
    """64 x 64 pairs: squared distances, infinite where there is no pair, and the species of both."""

    r2: Float[Array, "64 64"]
    first: Int[Array, "64 1"]
    second: Int[Array, "1 64"]


class _Blocks(NamedTuple):
    position: Vector  # arrays (block, 64)
    species: Int[Array, "blocks 64"]
    real: Bool[Array, "blocks 64"]
    centre: Vector  # of bounding boxes in search coordinates
    half: Vector


def block_grid(box: AbstractBox, particles: Particles) -> ClusterGrid:
    """The blocks for particles that may be anywhere in a periodic box, whose sides must be known numbers.

    >>> from simkit_physics import block_grid, lattice
    >>> particles, box = lattice("fcc", (6, 6, 6), density=0.85)
    >>> block_grid(box, particles)
    ClusterGrid(x=2, y=2, z=4)
    """
    return cluster_grid(particles.count, _floats(box.widths))


def over_near_pairs(
    grid: ClusterGrid,
    box: AbstractBox,
    particles: Particles,
    reach: jax.Array | float,
    add: Callable[[Any, Tile], Any],
    zero: Any,
) -> Any:
    """The sum over tiles, by `add(sum, tile)`: they hold each pair nearer than `reach` once, and others too.

    Blocks are added up in parts, which processors share and an accelerator takes at once. The distance is
    that of the nearest images, so the reach must be at most half the least width of the box.
    """
    blocks = _in_blocks(grid, box, particles)
    count = grid.blocks
    number = jnp.arange(count, dtype=jnp.int32)
    upper = jnp.triu(jnp.ones((BLOCK, BLOCK), bool), 1)  # of a block with itself: each pair once
    largest = jnp.max(jnp.where(blocks.real, jnp.sqrt(blocks.position.dot(blocks.position)), 0))
    reach = jnp.asarray(reach, largest.dtype)
    margin = 16 * jnp.finfo(largest.dtype).eps * (largest + reach)
    reach2 = (reach + margin) ** 2  # no less by the rounding of a coordinate

    def of_block(i, carry):
        own, species, real, centre, half = _at(blocks, i)
        gap = box.nearest_gap(blocks.centre.plus(-1, centre))
        pieces = zip(gap, blocks.half, half, strict=True)
        gap = Vector(*(jnp.maximum(jnp.abs(d) - (h + k), 0) for d, h, k in pieces))
        near = (box.least_square(gap) <= reach2) & (number >= i)
        place = jnp.where(near, jnp.cumsum(near, dtype=jnp.int32) - 1, count)
        table = jnp.zeros(count, jnp.int32).at[place].set(number, mode="drop")

        def of_pair(k, carry):
            j = table[k]
            other, other_species, other_real, _, _ = _at(blocks, j)
            d = box.nearest(Vector(*(a[:, None] - b[None] for a, b in zip(own, other, strict=True))))
            pairs = real[:, None] & other_real[None] & (upper | (j > i))
            r2 = jnp.where(pairs, d.dot(d), jnp.inf)
            return add(carry, Tile(r2, species[:, None], other_species[None]))

        return lax.fori_loop(0, jnp.sum(near, dtype=jnp.int32), of_pair, carry)

    parts = min(PARTS, count)

    def of_part(part):
        """The blocks part, part + parts, …: those with higher numbers have fewer partners left."""
        blocks_of_part = (count - part + parts - 1) // parts
        return lax.fori_loop(0, blocks_of_part, lambda n, s: of_block(part + n * parts, s), zero)

    sums = over_shared_parts(of_part, jnp.arange(parts, dtype=jnp.int32))
    return jax.tree.map(lambda each: jnp.sum(each, 0, dtype=each.dtype), sums)


def _at(blocks: _Blocks, i: jax.Array) -> _Blocks:
    return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, i, keepdims=False), blocks)


def _in_blocks(grid: ClusterGrid, box: AbstractBox, particles: Particles) -> _Blocks:
    """The particles in their blocks."""
    # Without their empty places, of which there may be more than the blocks have.
    particles = particles.by_identity().padded(grid.places)
    position, real = particles.position, particles.real
    search = box.search_coordinates(position)
    order = sorted_places(grid, search, real)

    def blocked(a: jax.Array) -> jax.Array:
        return by_cluster(a[order]).reshape(-1, BLOCK)

    inside = blocked(real)
    low = Vector(*(jnp.where(inside, blocked(c), jnp.inf).min(1) for c in search))
    high = Vector(*(jnp.where(inside, blocked(c), -jnp.inf).max(1) for c in search))
    some = low.x <= high.x  # a block without particles has a half width of minus infinity: near nothing
    centre = Vector(*(jnp.where(some, (l + h) / 2, 0) for l, h in zip(low, high, strict=True)))
    half = Vector(*(jnp.where(some, (h - l) / 2, -jnp.inf) for l, h in zip(low, high, strict=True)))
    return _Blocks(Vector(*map(blocked, position)), blocked(particles.species), inside, centre, half)


def _floats(vector: Vector) -> tuple[float, float, float]:
    return float(vector.x), float(vector.y), float(vector.z)
