"""Forces of all pairs with all images that the cutoff reaches: for small systems and for small boxes."""

import dataclasses
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool
from simkit_solvers import Course, PairTotals, Particles, Tensor, Vector

from simkit_physics.particles.boxes import AbstractBox, AbstractPeriodicBox
from simkit_physics.particles.clusters import MEMBERS
from simkit_physics.particles.listed_forces import FAR, Precision
from simkit_physics.particles.many_systems import fills_lanes, sums_of_systems
from simkit_physics.particles.pair_rules import AbstractPairForces, Places
from simkit_physics.particles.pair_sums import Group, Pairs, PairSums, sum_groups


class EveryPair(NamedTuple):
    """The list of forces that need none."""


class AllPairs(AbstractPairForces):
    """Forces of each particle with all others and with their images, its own images among them.

    `images` along a, b and c count on both sides of the nearest one; with 0, the cutoff is at most half the
    width of the box. A particle makes no pair with itself: its number decides this, not the distance. Under
    `vmap` over eight systems or more, vector lanes are systems.

    `precision` and `fixed_point` are as for `ListedForces`. `cutoff` is a scalar.

    >>> from simkit_physics import AllPairs, LennardJones, Shifted, forces_for, lattice
    >>> particles, box = lattice("fcc", (2, 2, 2), density=0.85)
    >>> potential = Shifted(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> isinstance(forces, AllPairs), forces.images  # the box is small
    (True, (1, 1, 1))
    """

    potential: Any
    box: AbstractBox
    cutoff: jax.Array
    images: tuple[int, int, int] = eqx.field(static=True)
    precision: Precision = eqx.field(static=True, default="float64")
    fixed_point: bool = eqx.field(static=True, default=False)
    in_lanes: bool = eqx.field(static=True, default=True)

    def __check_init__(self) -> None:
        if self.fixed_point and not (self.box.periodic and self.precision == "mixed"):
            raise ValueError("fixed_point: serves mixed precision in a periodic box only; set it to False")
        if any(self.images) and not self.box.periodic:
            raise ValueError(f"images: free space has none, got {self.images}; set them to (0, 0, 0)")

    def summary(self) -> dict[str, int | float | str]:
        """What was chosen, in words and numbers."""
        return {
            "forces": "all pairs",
            "cutoff": float(self.cutoff),
            "images": " x ".join(str(2 * k + 1) for k in self.images),
            "precision": self.precision,
            "positions": "fixed point" if self.fixed_point else "floating point",
        }

    def arranged(self, particles: Particles, course: Course | None = None) -> tuple[Particles, EveryPair]:
        """The particles in the order they have, wrapped into the box."""
        position, turns = self.box.wrapped(particles.position)
        image = Vector(*(a + b for a, b in zip(particles.image, turns, strict=True)))
        return eqx.tree_at(lambda p: (p.position, p.image), particles, (position, image)), EveryPair()

    def unlisted(self, particles: Particles) -> EveryPair:
        return EveryPair()

    def serves(self, listed: EveryPair, position: Vector) -> Bool[Array, ""]:
        return jnp.asarray(True)

    def complete(self, listed: EveryPair) -> Bool[Array, ""]:
        """Whether the images reach as far as the cutoff, which no longer holds where a box has shrunk."""
        widths = [w.astype(self.cutoff.dtype) for w in self.box.widths]
        reach = jnp.stack([(k + 0.5) * w for k, w in zip(self.images, widths, strict=True)])
        return self.cutoff <= jnp.min(reach)

    def sum_forces(self, position: Vector, places: Places, listed: EveryPair) -> Vector:
        return self._sums(position, places, totals=False)[0]

    def sum_totals(self, position: Vector, places: Places, listed: EveryPair) -> tuple[Vector, PairTotals]:
        force, totals = self._sums(position, places, totals=True)
        assert totals is not None
        return force, totals

    def differentiable(self) -> "AllPairs":
        return dataclasses.replace(self, fixed_point=False, in_lanes=False)

    def coordinates(self, position: Vector) -> Vector:
        """The positions as pairs take them."""
        if not self.fixed_point:
            return position
        assert isinstance(self.box, AbstractPeriodicBox)
        return self.box.fixed_point(position)

    def pairs(self) -> Pairs:
        """What pairs of these coordinates do."""
        dtype = self.pair_dtype(self.cutoff.dtype)

        def nearest(difference: Vector) -> Vector:
            if self.fixed_point:
                assert isinstance(self.box, AbstractPeriodicBox)
                return self.box.of_fixed_point(difference, dtype)
            return Vector(*(c.astype(dtype) for c in self.box.nearest(difference)))

        potential = jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, self.potential)
        return Pairs(potential, ((FAR * self.cutoff) ** 2).astype(dtype), self.cutoff.dtype, nearest)

    def pair_dtype(self, whole: Any) -> Any:
        """The type of pair arithmetic where positions are of the type `whole`."""
        return jnp.dtype("float32" if self.precision == "mixed" else whole)

    @property
    def image_numbers(self) -> list[tuple[int, int, int]]:
        """The images other than the nearest one, in units of the box vectors."""
        a, b, c = (range(-k, k + 1) for k in self.images)
        every = itertools.product(a, b, c)
        return [each for each in every if any(each)]

    def shift(self, image: jax.Array) -> Vector:
        """The vector to an image, (0, 0, 0) being the nearest one."""
        dtype = self.pair_dtype(self.cutoff.dtype)
        assert isinstance(self.box, AbstractPeriodicBox)
        return self.box.cartesian(Vector(*image.astype(dtype)))

    def _sums(self, position: Vector, places: Places, totals: bool) -> tuple[Vector, PairTotals | None]:
        if not self.in_lanes:
            return self._sums_of_one(position, places, totals)
        arrays, rest = eqx.partition(self, eqx.is_array)

        def one(position: Vector, places: Places, arrays: Any) -> tuple[Vector, PairTotals | None]:
            return eqx.combine(arrays, rest)._sums_of_one(position, places, totals)

        sums = custom_vmap(one)

        @sums.def_vmap
        def _(size: int, batched: Any, *arguments: Any) -> Any:
            if fills_lanes(self.potential, size, batched[2], arguments[2]):
                out = sums_of_systems(rest, size, batched, *arguments, totals)
            else:
                axes = jax.tree.map(lambda b: 0 if b else None, batched)
                out = jax.vmap(one, in_axes=axes)(*arguments)
            return out, jax.tree.map(lambda _: True, out)

        return sums(position, places, arrays)

    def _sums_of_one(
        self, position: Vector, places: Places, totals: bool
    ) -> tuple[Vector, PairTotals | None]:
        pairs, table = self.pairs(), _Table.of(self.coordinates(position), places)
        numbers = jnp.asarray([(0, 0, 0), *self.image_numbers])

        def add(fetched: tuple) -> PairSums:
            other, excluded, image = fetched
            return pairs.sums(table.own, other, totals, excluded, self._shift(numbers, image))

        zeros = jnp.zeros_like(position.x)
        first = PairSums(Vector(*(zeros[None],) * 3))
        if totals:
            first = first._replace(energy=zeros[None], virial=Tensor(*(zeros,) * 6))
        sums = sum_groups(first, table.fetch, add, table.groups * len(numbers))
        return Vector(*(f[0] for f in sums.force)), sums.totals() if totals else None

    def _shift(self, numbers: jax.Array, image: jax.Array) -> Vector | None:
        return self.shift(numbers.T[:, image]) if len(numbers) > 1 else None

    def gradient(
        self, position: Vector, places: Places, listed: EveryPair, weights: PairTotals
    ) -> tuple[Vector, Any, PairTotals]:
        numbers, rest = eqx.partition(self, eqx.is_inexact_array)
        table = _Table.of(self.coordinates(position), places)
        images = jnp.asarray([(0, 0, 0), *self.image_numbers])
        unmoved = Vector(*(jnp.zeros_like(c)[None] for c in position))

        def of_group(numbers, moved, weights, k):
            model = eqx.combine(numbers, rest)
            other, excluded, image = table.fetch(k)
            pairs, shift = model.pairs(), model._shift(images, image)
            weights = jax.tree.map(lambda w: w.astype(pairs.far2.dtype), weights)
            weighted = pairs.weighted(table.own.moved(moved), other, weights, excluded, shift)
            return weighted.astype(position.x.dtype)

        slope = jax.grad(of_group, (0, 1, 2))
        zero = jax.tree.map(jnp.zeros_like, (numbers, unmoved, weights))
        of_numbers, of_moved, of_weights = lax.fori_loop(
            0,
            table.groups * len(images),
            lambda k, sums: jax.tree.map(jnp.add, sums, slope(numbers, unmoved, weights, k)),
            zero,
        )
        # Each pair is met at both of its ends.
        return Vector(*(2 * c[0] for c in of_moved)), of_numbers, of_weights


class _Table(NamedTuple):
    """A system as a row of lanes, and the same in groups of neighbours."""

    own: Group
    number: jax.Array
    others: Group
    groups: int

    @classmethod
    def of(cls, position: Vector, places: Places) -> "_Table":
        count = position.x.shape[0]
        groups = -(-count // MEMBERS)
        real = jnp.ones(count, bool) if places.real is None and groups * MEMBERS > count else places.real
        own = Group(position, places.species, real)

        def in_groups(leaf: jax.Array) -> jax.Array:
            more = jnp.zeros(groups * MEMBERS - count, leaf.dtype)
            return jnp.concatenate([leaf, more]).reshape(groups, MEMBERS, 1)

        row = jax.tree.map(lambda leaf: leaf[None], own)
        return cls(row, jnp.arange(count, dtype=jnp.int32), jax.tree.map(in_groups, own), groups)

    def fetch(self, k: jax.Array) -> tuple[Group, jax.Array, jax.Array]:
        """The neighbours in an iteration of the loop over images and groups, which pairs are none, and the
        image."""
        k = jnp.asarray(k, jnp.int32)
        group, image = k % self.groups, k // self.groups
        other = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, group, keepdims=False), self.others)
        number = MEMBERS * group + jnp.arange(MEMBERS, dtype=jnp.int32)[:, None, None]
        itself = (number == self.number) & (image == 0)
        return other, itself, image
