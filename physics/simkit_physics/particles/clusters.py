"""Compact clusters of eight particles: a balanced k-d grid, so that each has its neighbours near it.

Particles are sorted into columns along x, those into columns along y, and those along z, each of equal
numbers. A block is 2 x 2 x 2 clusters; eight blocks make a chunk, whose 64 clusters are the lanes of a vector
loop. Places are numbered in the order (chunk, member of the cluster, cluster of the chunk), in which lanes
are contiguous.

Reference for lists of clusters: Páll & Hess (2013), A flexible algorithm for calculating pair interactions on
SIMD architectures, doi:10.1016/j.cpc.2013.06.003.
"""

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int
from simkit_solvers import Vector

MEMBERS, LANES = 8, 64  # particles of a cluster, clusters of a chunk
BLOCK = 64  # particles of a block
BLOCKS = LANES // 8  # blocks of a chunk
SCATTER = 0x9E3779B1  # 2^32 over the golden ratio: its multiples are spread evenly over 32 bits
GATHER = pow(SCATTER, -1, 2**32)


class ClusterGrid(NamedTuple):
    """How many blocks there are along x, y and z; the product is a multiple of the blocks of a chunk.

    >>> from simkit_physics import ClusterGrid, block_grid, lattice
    >>> particles, box = lattice("fcc", (6, 6, 6), density=0.85)
    >>> isinstance(block_grid(box, particles), ClusterGrid)
    True
    """

    x: int
    y: int
    z: int

    @property
    def blocks(self) -> int:
        return self.x * self.y * self.z

    @property
    def places(self) -> int:
        return self.blocks * BLOCK

    @property
    def chunks(self) -> int:
        return self.blocks // BLOCKS


def cluster_grid(count: int, extents: tuple[float, float, float], parts: int = 1) -> ClusterGrid:
    """Blocks that hold `count` particles spread over a region of these extents, as cubic as they can be.

    The number of chunks is a multiple of `parts`.
    """
    needed = math.ceil(count / BLOCK)
    widths = [max(extent, 1e-3 * max(extents)) or 1.0 for extent in extents]
    side = (math.prod(widths) / needed) ** (1 / 3)
    ranges = [range(max(1, round(w / side) - 2), max(1, round(w / side)) + 4) for w in widths]

    def badness(grid: tuple[int, int, int]) -> float:
        lengths = [w / g for w, g in zip(widths, grid, strict=True)]
        return math.prod(grid) * (max(lengths) / min(lengths)) ** 0.5

    x, y, z = ranges
    fits = [
        grid
        for grid in itertools.product(x, y, z)
        if math.prod(grid) >= needed and math.prod(grid) % (BLOCKS * parts) == 0
    ]
    if fits:
        return ClusterGrid(*min(fits, key=badness))
    step = BLOCKS * parts  # few blocks: a row of them
    return ClusterGrid(1, 1, math.ceil(needed / step) * step)


def sorted_places(grid: ClusterGrid, coordinates: Vector, real: Array) -> Int[Array, " places"]:
    """The order that sorts particles into the clusters of a grid."""
    order = jnp.arange(grid.places, dtype=jnp.int32)
    # Empty places are spread evenly over the columns and stand at their ends.
    dummy = (jnp.cumsum(~real) - 1).astype(coordinates.x.dtype)
    spread = (
        (dummy + 0.5) / jnp.maximum(jnp.sum(~real), 1).astype(dummy.dtype),
        dummy * 0.6180339887498949 % 1,
        jnp.full_like(dummy, 1.5),
    )
    for coordinate, empty, columns in zip(
        coordinates, spread, (1, 2 * grid.x, 4 * grid.x * grid.y), strict=True
    ):
        key = jnp.where(real, _fraction(coordinate, real), empty)
        words = (key * 2**30).astype(jnp.int32)
        order = _sorted_in_rows(words[order].reshape(columns, -1), order.reshape(columns, -1)).ravel()
    return _in_lanes(order.reshape(grid.x, 2, grid.y, 2, grid.z, 2, MEMBERS).transpose(0, 2, 4, 1, 3, 5, 6))


def _sorted_in_rows(keys: jax.Array, values: jax.Array) -> jax.Array:
    """The values in the order of their keys, row by row.

    Equal keys stand in an order in which neighbouring values are far from each other. A perfect lattice has
    rows of particles with equal keys, and where one is cut both parts must be spread over all of it: else
    columns side by side are filled differently, and their clusters shifted by a part of the box.
    """
    scattered = values.astype(jnp.uint32) * jnp.uint32(SCATTER)
    if jnp.asarray(0).dtype == jnp.int32:  # 64-bit numbers are off
        ordered = lax.sort((keys, scattered), num_keys=2)[1]
    else:  # one number to compare is sorted several times faster than a pair of arrays
        words = (keys.astype(jnp.int64) << 32) | scattered.astype(jnp.int64)
        ordered = (jnp.sort(words, axis=1) & (2**32 - 1)).astype(jnp.uint32)
    return (ordered * jnp.uint32(GATHER)).astype(jnp.int32)


def _fraction(coordinate: Float[Array, " places"], real: Array) -> Float[Array, " places"]:
    """Where a coordinate lies between the least and the largest one."""
    least = jnp.min(jnp.where(real, coordinate, jnp.inf))
    largest = jnp.max(jnp.where(real, coordinate, -jnp.inf))
    width = largest - least
    return (coordinate - least) / jnp.where(width > 0, width, 1)


def _in_lanes(by_block: jax.Array) -> Int[Array, " places"]:
    """From (block, cluster of the block, member) to (chunk, member, cluster of the chunk)."""
    return by_block.reshape(-1, LANES, MEMBERS).transpose(0, 2, 1).ravel()


def by_cluster(values: jax.Array) -> Array:
    """From places to (cluster, member)."""
    return values.reshape(-1, MEMBERS, LANES).transpose(0, 2, 1).reshape(-1, MEMBERS)
