"""Sums over pairs, in loops that vector units can run.

Particles stand in groups of eight members in each of many lanes. Pairs are (neighbour, member, lane): lanes
are contiguous, so that nothing is scattered and nothing crosses lanes. What a lane is, the caller knows: a
cluster of a neighbour list, a system of many, or a particle.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from simkit_solvers import PairTotals, Tensor, Vector, on_accelerator

from simkit_physics.particles.clusters import MEMBERS

# jax 0.10's XLA ignores optimization barriers on CPUs: there, a buffer must be part of the loop's carry.
BARRIERS = jax.__version_info__ >= (0, 11)

AT_ONCE = 64  # groups of neighbours that an accelerator takes in one kernel

COMPONENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # of a Tensor


class Group(NamedTuple):
    """Particles, arrays (member, lane). Where `real` says which places hold one, positions of others are
    ignored.

    Without it those are so far away that they interact with nothing.
    """

    position: Vector
    species: jax.Array
    real: jax.Array | None = None

    def moved(self, change: Vector) -> "Group":
        return self._replace(position=self.position.plus(1, change))

    def mirrored(self) -> "Group":
        """The particles on the other side of the origin."""
        return self._replace(position=Vector(*map(jnp.negative, self.position)))


class PairSums(NamedTuple):
    """Sums over the neighbours of each particle, in its place: the force, and if asked for energy and virial.

    The energy is that of half of each pair. So is the virial, of which there is one number a lane.
    """

    force: Vector
    energy: jax.Array | None = None
    virial: Tensor | None = None

    def totals(self) -> PairTotals:
        """The sums over all particles."""
        assert self.energy is not None
        assert self.virial is not None
        return PairTotals(jnp.sum(self.energy), Tensor(*map(jnp.sum, self.virial)))


class Pairs(NamedTuple):
    """What pairs do: a potential whose energy is 0 at the squared distance `far2`.

    Sums over many neighbours are of the type `whole`. `nearest` moves a difference to its nearest image,
    where positions are not near each other already.
    """

    potential: Any
    far2: jax.Array
    whole: DTypeLike
    nearest: Callable[[Vector], Vector] | None = None

    def interact(
        self, own: Group, other: Group, excluded: jax.Array | None = None, shift: Vector | None = None
    ) -> tuple[Vector, jax.Array, jax.Array]:
        """The differences own - other, energies and forces over distance of pairs (neighbour, member,
        lane)."""
        d = Vector(*(a[None] - b[:, None] for a, b in zip(own.position, other.position, strict=True)))
        d = d if self.nearest is None else self.nearest(d)
        d = d if shift is None else d.plus(1, shift)
        r2 = d.dot(d)
        if own.real is not None and other.real is not None:
            empty = ~(own.real[None] & other.real[:, None])
            excluded = empty if excluded is None else excluded | empty
        if excluded is not None:
            r2 = jnp.where(excluded, self.far2, r2)
        pair = self.potential.of_pair(own.species[None], other.species[:, None])
        return d, pair.energy(r2), -2 * pair.slope(r2)

    def sums(
        self,
        own: Group,
        other: Group,
        totals: bool,
        excluded: jax.Array | None = None,
        shift: Vector | None = None,
    ) -> PairSums:
        """The sums over one group of neighbours."""
        if on_accelerator() and not totals:
            return PairSums(self._forces_at_once(own, other, excluded, shift))
        mine, theirs = own.position, other.position
        d, energy, strength = self.interact(own, other, excluded, shift)
        if on_accelerator():  # where the neighbours are many
            parts = d, energy, strength, mine, theirs
            d, energy, strength, mine, theirs = jax.tree.map(lambda a: a.astype(self.whole), parts)
        if totals and BARRIERS:  # or XLA would compute a pair again for each of the sums
            energy, strength = lax.optimization_barrier((energy, strength))
        force = d.times(strength)
        onto_me = Vector(*sums_over(0, *force))
        if not totals:
            return PairSums(onto_me)
        if self.nearest is None and shift is None:
            virial = _virial_of_sums(mine, onto_me, theirs, strength)
        else:
            virial = Tensor(*(0.5 * jnp.sum(d[a] * force[b], (0, 1)) for a, b in COMPONENTS))
        return PairSums(onto_me, 0.5 * jnp.sum(energy, 0), virial)

    def _forces_at_once(
        self, own: Group, other: Group, excluded: jax.Array | None, shift: Vector | None
    ) -> Vector:
        """The forces of many neighbours, in kernels that keep no number of a pair in memory.

        XLA keeps the strength of each pair where more than one sum needs it. So x and y are summed as one
        complex number, and z over the opposite differences, of which XLA does not know that they have the
        same strengths.
        """
        d, _, strength = self.interact(own, other, excluded, shift)
        in_plane = lax.complex(d.x, d.y) * lax.complex(strength, jnp.zeros_like(strength))
        x_and_y = jnp.sum(in_plane, 0, dtype=np.result_type(self.whole, np.complex64))
        opposite = None if shift is None else shift.times(-1)
        d, _, strength = self.interact(own.mirrored(), other.mirrored(), excluded, opposite)
        return Vector(x_and_y.real, x_and_y.imag, -jnp.sum(d.z * strength, 0, dtype=self.whole))

    def weighted(
        self,
        own: Group,
        other: Group,
        weights: PairTotals,
        excluded: jax.Array | None = None,
        shift: Vector | None = None,
    ) -> jax.Array:
        """Half the sum of the energies and virials of all pairs, times weights; as a program for
        derivatives."""
        d, energy, strength = self.interact(own, other, excluded, shift)
        bilinear = (w * d[a] * d[b] for (a, b), w in zip(COMPONENTS, weights.virial, strict=True))
        return 0.5 * jnp.sum(weights.energy * energy + strength * sum(bilinear))


def _virial_of_sums(mine: Vector, onto_me: Vector, theirs: Vector, strength: jax.Array) -> Tensor:
    """W = sum of d_a f_b / 2 with d = own - other and f = strength d, from sums of forces on both sides.

    The force on a neighbour is - sum (own - other) strength, of two sums that share no array with the force
    on a member, since XLA would store that for each pair.
    """
    total, *moments = sums_over(1, strength, *(c[None] * strength for c in mine))
    from_them = Vector(*(moment - c * total for moment, c in zip(moments, theirs, strict=True)))

    def component(a: int, b: int) -> jax.Array:
        return 0.5 * (jnp.sum(mine[a] * onto_me[b], 0) - jnp.sum(theirs[a] * from_them[b], 0))

    return Tensor(*(component(a, b) for a, b in COMPONENTS))


def sum_groups(
    first: PairSums,
    fetch: Callable[[jax.Array], Any],
    add: Callable[[Any], PairSums],
    groups: jax.Array | int,
    most: int | None = None,
) -> PairSums:
    """`first` and the sums `add(fetch(k))` of the groups k = 0, ..., groups - 1, in the precision of
    `first`.

    `most` is how many groups there may be, of which those past `groups` add nothing.
    """

    def plus(sums: PairSums, fetched: Any) -> PairSums:
        return jax.tree.map(lambda a, b: a + b.astype(a.dtype), sums, add(fetched))

    def at(k: jax.Array | int) -> Any:
        return fetch(jnp.asarray(k, jnp.int32))

    if on_accelerator():
        return _sum_at_once(first, plus, at, most if most is not None else int(groups))
    # Without a buffer in between, XLA would fetch a neighbour again for each member.
    if BARRIERS:
        return lax.fori_loop(0, groups, lambda k, sums: plus(sums, lax.optimization_barrier(at(k))), first)

    def ahead(k, carry):
        sums, fetched = carry
        return plus(sums, fetched), at(k + 1)

    return lax.fori_loop(0, groups, ahead, (first, at(0)))[0]


def _sum_at_once(first: PairSums, plus: Callable, fetch: Callable, count: int) -> PairSums:
    """The sums over all groups, many at a time and these one after another, so that memory is bounded."""

    def in_a_row(a: jax.Array) -> jax.Array:
        """What groups have as what their neighbours have."""
        return a.reshape(-1, *a.shape[2:]) if a.ndim > 1 else jnp.repeat(a, MEMBERS)[:, None, None]

    def from_group(start: jax.Array | int, groups: int, sums: PairSums) -> PairSums:
        fetched = lax.optimization_barrier(jax.vmap(fetch)(start + jnp.arange(groups, dtype=jnp.int32)))
        return plus(sums, jax.tree.map(in_a_row, fetched))

    whole, rest = divmod(count, AT_ONCE)
    if whole:
        first = lax.fori_loop(0, whole, lambda n, sums: from_group(n * AT_ONCE, AT_ONCE, sums), first)
    return from_group(whole * AT_ONCE, rest, first) if rest else first


def sums_over(axis: int, *terms: jax.Array) -> tuple[jax.Array, ...]:
    """The sums of several arrays over an axis, in one loop over them."""
    zero = jnp.zeros((), terms[0].dtype)

    def add(a, b):
        return tuple(x + y for x, y in zip(a, b, strict=True))

    return lax.reduce(terms, (zero,) * len(terms), add, (axis,))
