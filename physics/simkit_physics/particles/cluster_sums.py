"""Sums over the pairs of a neighbour list, in loops that vector units can run.

Lanes are the 64 clusters of a chunk. A neighbour is fetched once for the eight members of its cluster and moved to the
image nearest the first member; then each load is contiguous, nothing is scattered and nothing crosses lanes. Pairs
inside a cluster come first, where a particle is excluded from its own sum by its place, not by its distance.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from simkit_solvers import Tensor, Vector

from simkit_physics.particles.clusters import LANES, MEMBERS

# jax 0.10's XLA ignores optimization barriers on CPUs: there, a buffer must be part of the loop's carry.
BARRIERS = jax.__version_info__ >= (0, 11)


class Cluster(NamedTuple):
    """The members of 64 clusters or a group of their neighbours: arrays (8, 64)."""

    position: Vector  # from the cluster's first member
    species: jax.Array


class PairSums(NamedTuple):
    """Sums over the neighbours of each particle, in its place: the force, and if asked for energy and virial.

    The energy is that of half of each pair. So is the virial, of which each chunk has one number a lane.
    """

    force: Vector
    energy: jax.Array | None = None
    virial: Tensor | None = None


class Pairs(NamedTuple):
    """What pairs do: `strengths(r2, species, other species)` are their energy and their force over distance.

    `far2` is the square of a distance at which both are 0. `nearest` moves a difference to its nearest image, where
    that of the first member of a cluster is not that of the others.
    """

    strengths: Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    far2: jax.Array
    nearest: Callable[[Vector], Vector] | None = None


def sum_chunk(
    pairs: Pairs, own: Cluster, fetch: Callable[[jax.Array], Cluster], groups: jax.Array, totals: bool
) -> PairSums:
    """The sums of the 64 clusters of a chunk over the groups 0, ..., groups - 1 that `fetch` fetches."""

    def add(sums: PairSums, other: Cluster, excluded: jax.Array | None = None) -> PairSums:
        return jax.tree.map(jnp.add, sums, _of_group(pairs, own, other, excluded, totals))

    itself = jnp.eye(MEMBERS, dtype=bool)[:, :, None]
    sums = _of_group(pairs, own, own, itself, totals)
    if BARRIERS:
        return lax.fori_loop(0, groups, lambda k, sums: add(sums, lax.optimization_barrier(fetch(k))), sums)

    def ahead(k, carry):
        sums, other = carry
        return add(sums, other), fetch(k + 1)

    return lax.fori_loop(0, groups, ahead, (sums, fetch(jnp.int32(0))))[0]


def _of_group(pairs: Pairs, own: Cluster, other: Cluster, excluded: jax.Array | None, totals: bool) -> PairSums:
    """Sums over one group of neighbours: pairs are (neighbour, member, cluster)."""
    d = Vector(*(a[None] - b[:, None] for a, b in zip(own.position, other.position, strict=True)))
    d = d if pairs.nearest is None else pairs.nearest(d)
    r2 = d.dot(d)
    if excluded is not None:
        r2 = jnp.where(excluded, pairs.far2, r2)
    energy, strength = pairs.strengths(r2, own.species[None], other.species[:, None])
    force = d.times(strength)
    if not totals:
        return PairSums(Vector(*_sums((*force,), 0)))
    *summed, energy = _sums((*force, energy), 0)
    # W = sum of d_a f_b / 2 with d = own - other: the own part needs the forces on members alone, and the other
    # part those that the members together exert on a neighbour.
    onto = Vector(*(jnp.sum(f, axis=1) for f in force))
    mine, theirs = own.position, other.position

    def component(a: int, b: int) -> jax.Array:
        return 0.5 * (jnp.sum(mine[a] * summed[b], 0) - jnp.sum(theirs[a] * onto[b], 0))

    virial = Tensor(*(component(a, b) for a, b in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))))
    return PairSums(Vector(*summed), 0.5 * energy, virial)


def _sums(terms: tuple[jax.Array, ...], axis: int) -> tuple[jax.Array, ...]:
    """The sums of several arrays over an axis, in one loop over them."""
    zero = jnp.zeros((), terms[0].dtype)

    def add(a, b):
        return tuple(x + y for x, y in zip(a, b, strict=True))

    return lax.reduce(terms, (zero,) * len(terms), add, (axis,))
