"""Lists of the particles near each cluster, made without a scatter of forces, a hash or a cell grid.

The search descends: chunks near a chunk, blocks near a block, clusters near a block, clusters near a cluster,
particles near a cluster. All but the last compare bounding boxes in the search coordinates of the box; the
last compares distances. Every level writes into a table of fixed capacity and counts what it found, so that a
table that is too small is noticed.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int
from simkit_solvers import Vector, on_accelerator, over_shares

from simkit_physics.particles.bounding_boxes import Bounds, gap2, of_blocks, of_clusters
from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import LANES, MEMBERS, ClusterGrid

GROUP = 8  # neighbours that a pair kernel takes at a time
FOUR = 4  # members of a cluster that a search takes at a time, as bits below the place of the first
PARTS, BITS = MEMBERS // FOUR, (1 << FOUR) - 1
AT_ONCE = 64  # candidates that an accelerator takes at a time


class Capacities(NamedTuple):
    """The lengths of the tables of a search."""

    chunks: int  # near a chunk
    blocks: int  # near a block
    block_clusters: int  # near a block
    clusters: int  # near a cluster
    particles: int  # near a cluster: a multiple of GROUP


class NeighbourList(eqx.Module):
    """For each cluster the particles of other clusters that are near one of its members, as numbers of
    places.

    `members` has the shape (chunk, group, neighbour of the group, cluster of the chunk); places past the last
    are empty. `groups` says how many groups a chunk uses. `counts` are the largest numbers that each level of
    the search found, and `extent` is the largest distance of a particle from the centre of its cluster.
    """

    members: Int[Array, "chunks groups 8 64"]
    groups: Int[Array, " chunks"]
    counts: Int[Array, "5"]
    extent: Float[Array, ""]
    origin: Vector


class NeighbourSearch(NamedTuple):
    """A search for the particles within `reach` of a member of each cluster.

    If `each_pair` is false, the image of a particle that is nearest to the centre of a cluster must be the
    nearest one to all its members.
    """

    grid: ClusterGrid
    capacities: Capacities
    box: AbstractBox
    each_pair: bool = False

    def near(self, position: Vector, real: Bool[Array, " places"], reach: jax.Array) -> NeighbourList:
        """The list of a configuration in the places of the grid."""
        position32 = Vector(*(c.astype(jnp.float32) for c in position))
        box = jax.tree.map(lambda a: jnp.asarray(a).astype(jnp.float32), self.box)
        search = box.search_coordinates(position32)
        clusters = of_clusters(search, real)
        blocks = of_blocks(clusters)
        chunks = of_blocks(blocks)
        reach2 = _with_rounding(reach, position, real)

        def in_chunks(own: _Chunks) -> tuple:
            own_blocks = jax.tree.map(jnp.ravel, own.blocks)
            n0, near = self._chunks(box, of_blocks(own_blocks), chunks, reach2)
            n1, near = self._blocks(box, own_blocks, blocks, reach2, n0, near)
            n2, near = self._block_clusters(box, own_blocks, clusters, reach2, n1, near)
            n3, near = self._clusters(box, own, clusters, reach2, n2, near)
            n4, extent, rows = self._particles(box, own, position32, real, reach2, n3, near)
            here = len(own.number)
            members = rows.reshape(-1, GROUP, here, LANES).transpose(2, 0, 1, 3)
            counts = jnp.stack([n.reshape(here, -1).max(1) for n in (n0, n1, n2, n3, n4)], 1)
            return members, counts, extent.reshape(here, LANES).max(1)

        def by_chunk(values: jax.Array) -> jax.Array:
            return values.reshape(self.grid.chunks, -1)

        number = jnp.arange(8 * self.grid.blocks, dtype=jnp.int32)
        everything = _Chunks(position32, real, clusters, blocks, number)
        members, counts, extent = over_shares(in_chunks, jax.tree.map(by_chunk, everything))
        groups = jnp.minimum(-(-counts[:, 4] // GROUP), members.shape[1])
        return NeighbourList(members, groups, counts.max(0), extent.max(), position)

    def _chunks(self, box, own: Bounds, chunks: Bounds, reach2):
        count = self.grid.chunks

        def test(j):
            near = gap2(box, own, chunks.at(jnp.minimum(j, count - 1))) < reach2
            return jnp.where(near, j, count)

        return compact(count, len(own.half.x), self.capacities.chunks, count, test)

    def _blocks(self, box, own: Bounds, blocks: Bounds, reach2, counts, near):
        count = self.grid.blocks

        def test(k):
            j = _for_each_of_eight(near[k // 8]) * 8 + k % 8
            there = gap2(box, own, blocks.at(jnp.minimum(j, count - 1))) < reach2
            return jnp.where((j < count) & there, j, count)

        most = 8 * jnp.minimum(counts.max(), self.capacities.chunks)
        return compact(most, len(own.half.x), self.capacities.blocks, count, test)

    def _block_clusters(self, box, own: Bounds, clusters: Bounds, reach2, counts, near):
        count = self.grid.blocks

        def test(k):
            block = near[k // 8]
            j = jnp.minimum(block * 8 + k % 8, 8 * count - 1)
            return jnp.where((block < count) & (gap2(box, own, clusters.at(j)) < reach2), j, 8 * count)

        most = 8 * jnp.minimum(counts.max(), self.capacities.blocks)
        return compact(most, len(counts), self.capacities.block_clusters, 8 * count, test)

    def _clusters(self, box, own: "_Chunks", clusters: Bounds, reach2, counts, near):
        count = 8 * self.grid.blocks
        number, bounds = own.number.ravel(), jax.tree.map(jnp.ravel, own.clusters)

        def test(k):
            j = _for_each_of_eight(near[k])
            other = clusters.at(jnp.minimum(j, count - 1))
            # A cluster's own pairs have a kernel of their own.
            return jnp.where((j != number) & (gap2(box, bounds, other) < reach2), j, count)

        most = jnp.minimum(counts.max(), self.capacities.block_clusters)
        return compact(most, len(number), self.capacities.clusters, count, test)

    def _particles(self, box, own: "_Chunks", position, real, reach2, counts, near):
        count = 8 * self.grid.blocks
        position_of = [Vector(*(_member(c, m) for c in own.position)) for m in range(MEMBERS)]
        inside = [_member(own.real, m) for m in range(MEMBERS)]
        around = [box.nearest(each.plus(-1, position_of[0])) for each in position_of]
        count_inside = jnp.maximum(sum(each.astype(jnp.float32) for each in inside), 1)
        mean = Vector(
            *(
                sum(jnp.where(there, c, 0) for there, c in zip(inside, each, strict=True)) / count_inside
                for each in zip(*around, strict=True)
            )
        )
        centre = position_of[0].plus(1, mean)
        members = [  # empty places stand with the first member, which is there if any is
            Vector(*(jnp.where(there, c, 0) - d for c, d in zip(each, mean, strict=True)))
            for there, each in zip(inside, around, strict=True)
        ]
        furthest = functools.reduce(jnp.maximum, [each.dot(each) for each in members])
        extent = jnp.sqrt(jnp.where(inside[0], furthest, 0))

        # Nothing is near an empty place, and no third table says so.
        everyone = Vector(*(jnp.where(real, c, jnp.nan) for c in position))

        def square(one, other):
            difference = one.plus(-1, other)
            difference = box.nearest(difference) if self.each_pair else difference
            return difference.dot(difference)

        def test(k):
            """Which of four members of a cluster are near, as bits below the place of the first."""
            cluster = near[k // PARTS]
            first_of_four = _first_place(cluster) + k % PARTS * (FOUR * LANES)
            near_bits = jnp.zeros(len(counts), jnp.uint8)  # as wide as a comparison's result
            for member in range(FOUR):
                j = jnp.minimum(first_of_four + member * LANES, self.grid.places - 1)
                there = Vector(*(c.at[j].get(mode="promise_in_bounds") for c in everyone))
                other = box.nearest(there.plus(-1, centre))
                near_one = square(members[0], other) < reach2
                for each in members[1:]:
                    near_one |= square(each, other) < reach2
                near_bits |= near_one.astype(jnp.uint8) << member
            four = first_of_four << FOUR | near_bits.astype(jnp.int32)
            return jnp.where((cluster < count) & (near_bits != 0), four, 0)

        capacity = self.capacities.clusters
        most = PARTS * jnp.minimum(counts.max(), capacity)
        _, fours = compact(most, len(counts), PARTS * capacity, 0, test)
        near_counts = lax.population_count(fours & BITS).sum(0, dtype=jnp.int32)
        capacity = self.capacities.particles
        return near_counts, extent, _members_of_fours(fours, near_counts.max(), capacity, self.grid.places)


class _Chunks(NamedTuple):
    """Particles, clusters and blocks of some chunks; the first axis is the chunk."""

    position: Vector
    real: Bool[Array, "chunks 512"]
    clusters: Bounds
    blocks: Bounds
    number: Int[Array, "chunks 64"]  # of each cluster


def _members_of_fours(fours: jax.Array, most: jax.Array, capacity: int, fill: int) -> jax.Array:
    """The places of the bits in each lane, in order, as rows of a table of the shape (capacity, lanes).

    A row is written where it stands, without a scatter of each place; on an accelerator that is quick.
    """
    if on_accelerator():
        members = (fours >> FOUR)[:, None] + LANES * jnp.arange(FOUR, dtype=jnp.int32)[:, None]
        inside = (fours[:, None] >> jnp.arange(FOUR, dtype=jnp.int32)[:, None]) & 1 != 0
        places = jnp.where(inside, members, fill).reshape(-1, fours.shape[1])
        return compact(len(places), fours.shape[1], capacity, fill, lambda k: places[k])[1]
    lane = jnp.arange(fours.shape[1], dtype=jnp.int32)
    last = len(fours)
    fours = jnp.pad(fours, ((0, 1), (0, 0)))

    def body(row, carry):
        at, four, rows = carry
        lowest = four & -four
        place = (four >> FOUR) + LANES * lax.population_count(lowest - 1)
        rows = lax.dynamic_update_index_in_dim(rows, jnp.where(four & BITS != 0, place, fill), row, 0)
        left = four - lowest
        done = left & BITS == 0
        at = jnp.minimum(at + done.astype(at.dtype), last)
        return at, jnp.where(done, fours[at, lane], left), rows

    rows = jnp.full((capacity, len(lane)), fill, jnp.int32)
    return lax.fori_loop(0, jnp.minimum(most, capacity), body, (jnp.zeros_like(lane), fours[0], rows))[2]


def compact(
    count: jax.Array | int, lanes: int, capacity: int, fill: int, test: Callable
) -> tuple[jax.Array, jax.Array]:
    """In each lane, the values of the candidates 0, …, count - 1 that pass, in order, and how many they are.

    `test(k)` returns the values in all lanes, `fill` where the candidate does not pass. The table has the
    shape (capacity, lanes).
    """
    lane, stride = jnp.arange(lanes, dtype=jnp.int32), lanes + 16  # not a power of two, or the cache thrashes

    def body(k, carry):
        # The values of a test wait one iteration, or XLA fuses the test into the scatter and repeats it.
        passed, table, value = carry
        where = jnp.where((value != fill) & (passed < capacity), passed * stride + lane, capacity * stride)
        table = table.at[where].set(value, mode="promise_in_bounds")
        return passed + (value != fill).astype(passed.dtype), table, test(jnp.int32(k) + 1)

    def many(n, carry):
        """`body` for `AT_ONCE` candidates."""
        passed, table = carry
        k = n * AT_ONCE + jnp.arange(AT_ONCE, dtype=jnp.int32)
        value = jnp.where((k < count)[:, None], jax.vmap(test)(k), fill)
        new = value != fill
        up_to = passed + jnp.cumsum(new, 0, dtype=jnp.int32)
        place = jnp.where(new & (up_to <= capacity), (up_to - 1) * stride + lane, capacity * stride)
        return up_to[-1], table.at[place].set(value, mode="promise_in_bounds")

    start = jnp.zeros(lanes, jnp.int32), jnp.full(capacity * stride + 1, fill, jnp.int32)
    if on_accelerator():
        passed, table = lax.fori_loop(0, -(-count // AT_ONCE), many, start)
    else:
        passed, table, _ = lax.fori_loop(0, count, body, (*start, test(jnp.int32(0))))
    return passed, table[:-1].reshape(capacity, stride)[:, :lanes]


def _for_each_of_eight(values: jax.Array) -> jax.Array:
    """The values of chunks for their blocks, or those of blocks for their clusters."""
    return jnp.broadcast_to(values[:, None], (len(values), 8)).ravel()


def _first_place(cluster: jax.Array) -> jax.Array:
    """The place of the first member of a cluster."""
    return cluster // LANES * (LANES * MEMBERS) + cluster % LANES


def _member(chunks: jax.Array, m: int) -> jax.Array:
    """Member m of each cluster."""
    return chunks[:, m * LANES : (m + 1) * LANES].ravel()


def _with_rounding(reach: jax.Array, position: Vector, real: jax.Array) -> jax.Array:
    """The squared reach in float32, with what rounding of coordinates can take from a distance."""
    largest = jnp.max(jnp.where(real, jnp.sqrt(position.dot(position)), 0))
    margin = 16 * float(jnp.finfo(jnp.float32).eps) * (largest + reach)
    return ((reach + margin) ** 2).astype(jnp.float32)
