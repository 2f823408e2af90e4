"""All pairs of many systems of equal size: vector lanes are systems, so that each pair is taken once.

What a pair does to its second particle is added to that particle's row of forces, which needs no scatter
here.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from simkit_solvers import PairTotals, Tensor, Vector, on_accelerator

from simkit_physics.particles.clusters import MEMBERS
from simkit_physics.particles.pair_rules import Places
from simkit_physics.particles.pair_sums import COMPONENTS, Group, Pairs, PairSums, sums_over

BUFFER = 16 * 1024  # bytes of one number for each pair of two groups: half of what is nearest to a core
LEAST = 8  # systems: below, lanes are particles


def fills_lanes(potential: Any, size: int, batched: Any, arrays: Any) -> bool:
    """Whether systems can be lanes; on an accelerator all pairs of all systems are.

    What differs between them must be single numbers; where potentials differ, there must be one species.
    """
    single = all(
        not differs or array.ndim == 1
        for differs, array in zip(jax.tree.leaves(batched), jax.tree.leaves(arrays), strict=True)
    )
    alike = not any(jax.tree.leaves(batched.potential))
    return not on_accelerator() and size >= LEAST and single and (potential.species == 1 or alike)


class _OneSpecies(NamedTuple):
    """A potential whose parameters differ between lanes."""

    pair: Any
    species: int = 1

    def of_pair(self, a: Any, b: Any) -> Any:
        return self.pair


def sums_of_systems(
    rest: Any, size: int, batched: Any, position: Vector, places: Places, arrays: Any, totals: bool
) -> tuple[Vector, PairTotals | None]:
    """The forces of `size` systems and, if asked for, their totals.

    `arrays` and `rest` are the parts of an `AllPairs`; `batched` says which arrays have systems along their
    first axis.
    """
    widest = BUFFER // (MEMBERS**2 * rest.pair_dtype(position.x.dtype).itemsize)
    lanes = min(widest, -(-size // LEAST) * LEAST)
    every = (position, places)
    every = jax.tree.map(
        lambda a, b: a if b else jnp.broadcast_to(a, (size, *a.shape)), every, tuple(batched[:2])
    )
    count = every[0].x.shape[1]
    if every[1].real is None and count % MEMBERS:
        every = (every[0], every[1]._replace(real=jnp.ones((size, count), bool)))
    lone = jax.tree.leaves(batched[2])
    arrays_leaves, structure = jax.tree.flatten(arrays)
    numbers = [a for a, b in zip(arrays_leaves, lone, strict=True) if b]

    def chunk(arguments):
        (position, places), numbers = arguments
        numbers = iter(numbers)
        leaves = [next(numbers) if b else a for a, b in zip(arrays_leaves, lone, strict=True)]
        model = eqx.combine(structure.unflatten(leaves), rest)
        if any(jax.tree.leaves(batched[2].potential)):
            none = jnp.int32(0)
            axes = jax.tree.map(lambda b: 0 if b else None, batched[2].potential)
            own, fixed = eqx.partition(model.potential, eqx.is_array)
            pair = jax.vmap(lambda p: eqx.combine(p, fixed).of_pair(none, none), in_axes=(axes,))(own)
            model = eqx.tree_at(lambda m: m.potential, model, _OneSpecies(pair))
        group = Group(model.coordinates(position), places.species, places.real)
        sums = _half_sums(model, group, totals)
        return sums.force, _of_lanes(sums) if totals else None

    in_chunks = jax.tree.map(lambda a: _in_chunks(a, lanes), (every, numbers))
    force, sums = lax.map(chunk, in_chunks)
    force = Vector(*(f.transpose(0, 3, 1, 2).reshape(-1, f.shape[1] * MEMBERS)[:size, :count] for f in force))
    return force, jax.tree.map(lambda a: a.ravel()[:size], sums)


def _in_chunks(leaf: jax.Array, lanes: int) -> jax.Array:
    """From (system, place) to (chunk, group, member, lane), or from (system) to (chunk, lane)."""
    size = leaf.shape[0]
    leaf = jnp.concatenate([leaf, jnp.repeat(leaf[-1:], -size % lanes, axis=0)])
    if leaf.ndim == 1:
        return leaf.reshape(-1, lanes)
    more = jnp.zeros((len(leaf), -leaf.shape[1] % MEMBERS), leaf.dtype)
    leaf = jnp.concatenate([leaf, more], axis=1)
    return leaf.reshape(-1, lanes, leaf.shape[1] // MEMBERS, MEMBERS).transpose(0, 2, 3, 1)


def _of_lanes(sums: PairSums) -> PairTotals:
    """The totals of each lane."""
    assert sums.energy is not None
    assert sums.virial is not None
    return PairTotals(jnp.sum(sums.energy, 0), sums.virial)


def _half_sums(model: Any, every: Group, totals: bool) -> PairSums:
    """The sums of the systems in a chunk, over pairs of groups."""
    pairs, whole = model.pairs(), model.cutoff.dtype
    groups, _, lanes = every.species.shape
    images = jnp.asarray(model.image_numbers).reshape(-1, 3)

    def at(k: jax.Array) -> Group:
        return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, k, keepdims=False), every)

    def plus(a: Any, b: Any) -> Any:
        return jax.tree.map(lambda a, b: a + b.astype(a.dtype), a, b)

    def row(i: jax.Array, carry: tuple[Vector, PairSums]) -> tuple[Vector, PairSums]:
        forces, sums = carry
        own = at(i)

        def with_image(carry: tuple[Vector, PairSums], excluded: Any, shift: Any) -> tuple[Vector, PairSums]:
            forces, sums = carry
            sums = plus(sums, pairs.sums(own, own, totals, excluded, shift))

            def column(j: jax.Array, carry: tuple[Vector, PairSums]) -> tuple[Vector, PairSums]:
                forces, sums = carry
                more, onto = _both_ends(pairs, own, at(j), totals, shift)
                return Vector(
                    *(f.at[j].add(-a.astype(whole)) for f, a in zip(forces, onto, strict=True))
                ), plus(sums, more)

            return lax.fori_loop(i + 1, groups, column, (forces, sums))

        carry = with_image((forces, sums._replace(force=_zeros(whole, MEMBERS, lanes))), itself, None)
        if len(images):
            carry = lax.fori_loop(
                0, len(images), lambda n, carry: with_image(carry, None, model.shift(images[n])), carry
            )
        forces, sums = carry
        return Vector(*(f.at[i].add(a) for f, a in zip(forces, sums.force, strict=True))), sums

    itself = jnp.eye(MEMBERS, dtype=bool)[:, :, None]
    sums = PairSums(_zeros(whole, MEMBERS, lanes))
    if totals:
        zero = jnp.zeros(lanes, whole)
        sums = sums._replace(energy=jnp.zeros((MEMBERS, lanes), whole), virial=Tensor(*(zero,) * 6))
    forces, sums = lax.fori_loop(0, groups, row, (_zeros(whole, groups, MEMBERS, lanes), sums))
    return sums._replace(force=forces)


def _both_ends(
    pairs: Pairs, own: Group, other: Group, totals: bool, shift: Vector | None
) -> tuple[PairSums, Vector]:
    """The sums over the pairs of two groups, each pair once, and the forces that own particles have from
    others'."""
    d, energy, strength = pairs.interact(own, other, shift=shift)
    # Without a buffer, XLA would compute each pair once for either end: 1.4 times as long.
    force = d.times(lax.optimization_barrier(strength))
    onto = Vector(*(jnp.sum(f, 1) for f in force))
    if not totals:
        return PairSums(Vector(*sums_over(0, *force))), onto
    *summed, energy = sums_over(0, *force, energy)
    virial = Tensor(*(jnp.sum(d[a] * force[b], (0, 1)) for a, b in COMPONENTS))
    return PairSums(Vector(*summed), energy, virial), onto


def _zeros(dtype: DTypeLike, *shape: int) -> Vector:
    return Vector(*(jnp.zeros(shape, dtype),) * 3)
