"""Forces of pairs within a cutoff, over lists of neighbours that are made anew when particles have moved."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool
from simkit_solvers import Course, PairTotals, Particles, Vector, over_shared_parts

from simkit_physics.particles.boxes import AbstractBox, AbstractPeriodicBox
from simkit_physics.particles.clusters import LANES, MEMBERS, ClusterGrid, sorted_places
from simkit_physics.particles.neighbours import Capacities, NeighbourList, NeighbourSearch
from simkit_physics.particles.pair_rules import AbstractPairForces, Places
from simkit_physics.particles.pair_sums import Group, Pairs, PairSums, sum_groups

FAR = 1e4  # in cutoffs: where an empty place is
# In half skins: how far a list may be ahead of a particle. With 0.95, lists of a melt serve hardly longer,
# and one of a skin of 0.6 served two steps.
AHEAD = 0.85

Precision = Literal["float64", "mixed", "float32"]


class ListedForces(AbstractPairForces):
    r"""Forces $F_i = -\sum_j \nabla_i u(|x_i - x_j|)$ over the neighbours of each particle.

    `potential` acts below `cutoff`, which is less than half the least width of the box. A list is made for
    positions near the present ones, where particles are going, and holds the pairs nearer there than cutoff +
    `skin`. It serves while no particle is further than half the skin from where it is listed, so that no pair
    is ever missed. `grid` and `capacities` are shapes; `enlarged` makes larger ones where a list is not
    complete. `forces_for` chooses all.

    Pair arithmetic is in float32 if `precision` is "mixed"; positions, sums over groups of eight neighbours,
    and energies are in float64. Then `fixed_point` says whether positions are 32-bit fractions of the
    periodic box, whose differences wrap into the nearest image by themselves; else differences are taken in
    float64, and then rounded. `cutoff` and `skin` are scalars.

    >>> from simkit_physics import LennardJones, ListedForces, Shifted, forces_for, lattice
    >>> particles, box = lattice("fcc", (6, 6, 6), density=0.85)
    >>> potential = Shifted(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> isinstance(forces, ListedForces), float(forces.cutoff)
    (True, 2.0)
    """

    potential: Any
    box: AbstractBox
    cutoff: jax.Array
    skin: jax.Array
    grid: ClusterGrid = eqx.field(static=True)
    capacities: Capacities = eqx.field(static=True)
    precision: Precision = eqx.field(static=True, default="float64")
    fixed_point: bool = eqx.field(static=True, default=False)
    each_pair: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.fixed_point and not (self.box.periodic and self.precision == "mixed"):
            raise ValueError("fixed_point: serves mixed precision in a periodic box only; set it to False")

    def summary(self) -> dict[str, int | float | str]:
        """What was chosen, in words and numbers."""
        chunks, blocks, block_clusters, clusters, particles = self.capacities
        return {
            "forces": "neighbour lists",
            "cutoff": float(self.cutoff),
            "skin": float(self.skin),
            "grid": " x ".join(map(str, self.grid)),
            "chunks_near_chunk": chunks,
            "blocks_near_block": blocks,
            "clusters_near_block": block_clusters,
            "clusters_near_cluster": clusters,
            "particles_near_cluster": particles,
            "precision": self.precision,
            "positions": "fixed point" if self.fixed_point else "floating point",
            "nearest_image": "of each pair" if self.each_pair else "of each cluster",
        }

    def arranged(self, particles: Particles, course: Course | None = None) -> tuple[Particles, NeighbourList]:
        """The particles in the order of the clusters, wrapped into the box, with empty places, and their
        list."""
        particles = particles.padded(self.grid.places)
        position, turns = self.box.wrapped(particles.position)
        image = Vector(*(a + b for a, b in zip(particles.image, turns, strict=True)))
        particles = eqx.tree_at(lambda p: (p.position, p.image), particles, (position, image))
        box, skin, position, course = lax.stop_gradient((self.box, self.skin, position, course))
        origin = position if course is None else position.plus(1, _way_ahead(course, AHEAD * skin / 2))
        order = sorted_places(self.grid, box.search_coordinates(origin), particles.real)
        particles, origin = particles.in_order(order), Vector(*(c[order] for c in origin))
        search = NeighbourSearch(self.grid, self.capacities, box, self.each_pair)
        return particles, search.near(origin, particles.real, lax.stop_gradient(self.cutoff) + skin)

    def serves(self, listed: NeighbourList, position: Vector) -> Bool[Array, ""]:
        moved = position.plus(-1, listed.origin)
        # A position that is not a number needs no new list, which would not help.
        return ~(jnp.max(moved.dot(moved)) > (self.skin / 2) ** 2)

    def complete(self, listed: NeighbourList) -> Bool[Array, ""]:
        return jnp.all(listed.counts <= jnp.asarray(self.capacities, jnp.int32)) & self.fits(listed)

    def fits(self, listed: NeighbourList) -> Bool[Array, ""]:
        """Whether the box is so large that the nearest image of a neighbour is the only one."""
        reach = self.cutoff + self.skin
        if not self.each_pair:  # around the centre of a cluster, and of a member around the first one
            extent = listed.extent.astype(reach.dtype)
            reach = jnp.maximum(reach + extent, 2 * extent + self.skin)
        return reach < self.box.least_width.astype(reach.dtype) / 2

    def sum_forces(self, position: Vector, places: Places, listed: NeighbourList) -> Vector:
        return self._sums(position, places, listed, totals=False).force

    def sum_totals(
        self, position: Vector, places: Places, listed: NeighbourList
    ) -> tuple[Vector, PairTotals]:
        sums = self._sums(position, places, listed, totals=True)
        return sums.force, sums.totals()

    def differentiable(self) -> "ListedForces":
        return dataclasses.replace(self, fixed_point=False)

    def _sums(self, position: Vector, places: Places, listed: NeighbourList, totals: bool) -> PairSums:
        whole = position.x.dtype
        everyone = self._coordinates(position)

        def chunk(arguments):
            pairs, own, mirror, fetch = self._chunk(everyone, places, *arguments[:-1])
            groups = arguments[-1]
            first = pairs.sums(own, mirror, totals, itself())
            first = jax.tree.map(lambda a: a.astype(whole), first)
            add = functools.partial(pairs.sums, own, totals=totals)
            return sum_groups(first, fetch, add, groups, listed.members.shape[1])

        sums = over_shared_parts(chunk, (*self._chunks(everyone, places, listed), listed.groups))
        return sums._replace(force=_in_places(sums.force))

    def gradient(
        self, position: Vector, places: Places, listed: NeighbourList, weights: PairTotals
    ) -> tuple[Vector, Any, PairTotals]:
        whole = position.x.dtype
        everyone = self._coordinates(position)
        numbers, rest = eqx.partition(self, eqx.is_inexact_array)
        unmoved = Vector(*(jnp.zeros((MEMBERS, LANES), whole),) * 3)

        def chunk(arguments):
            *arguments, groups = arguments

            def of_group(numbers, moved, weights, k):
                model = eqx.combine(numbers, rest)
                pairs, own, mirror, fetch = model._chunk(everyone, places, *arguments)
                moved, weights = jax.tree.map(lambda a: a.astype(own.position.x.dtype), (moved, weights))
                other, excluded = (mirror, itself()) if k is None else (fetch(k), None)
                return pairs.weighted(own.moved(moved), other, weights, excluded).astype(whole)

            slope = jax.grad(of_group, (0, 1, 2))
            first = slope(numbers, unmoved, weights, None)
            return lax.fori_loop(
                0, groups, lambda k, s: jax.tree.map(jnp.add, s, slope(numbers, unmoved, weights, k)), first
            )

        of_numbers, of_moved, of_weights = over_shared_parts(
            chunk, (*self._chunks(everyone, places, listed), listed.groups)
        )
        of_numbers, of_weights = jax.tree.map(lambda a: jnp.sum(a, 0), (of_numbers, of_weights))
        return (
            _in_places(of_moved).times(2),
            of_numbers,
            of_weights,
        )  # each pair is listed at both of its ends

    def _coordinates(self, position: Vector) -> Vector:
        return self._periodic_box.fixed_point(position) if self.fixed_point else position

    @property
    def _periodic_box(self) -> AbstractPeriodicBox:
        assert isinstance(self.box, AbstractPeriodicBox)
        return self.box

    def _chunks(self, everyone: Vector, places: Places, listed: NeighbourList) -> tuple:
        """What `_chunk` takes, for all chunks."""
        shape = (self.grid.chunks, MEMBERS, LANES)
        position = Vector(*(c.reshape(shape) for c in everyone))
        real = jnp.ones(self.grid.places, bool) if places.real is None else places.real
        return position, places.species.reshape(shape), real.reshape(shape), listed.members

    def _chunk(
        self,
        everyone: Vector,
        places: Places,
        position: Vector,
        species: jax.Array,
        real: jax.Array,
        members: jax.Array,
    ) -> tuple[Pairs, Group, Group, Callable[[jax.Array], Group]]:
        """The pairs of a chunk, its particles as own ones and as neighbours, and what fetches other
        neighbours.

        Positions are relative to the centre of each cluster, so that they are small numbers in float32.
        """
        dtype = jnp.dtype("float32" if self.precision == "mixed" else self.cutoff.dtype)
        relative = self._relative(dtype)
        far = (FAR * self.cutoff).astype(dtype)
        centre = self._centre(position, real, dtype)

        def group(position: Vector, species: jax.Array, real: jax.Array, distance: jax.Array) -> Group:
            placed = relative(position, centre)
            if self.each_pair:  # which would move what is far away into the box
                return Group(placed, species, real)
            return Group(Vector(*(jnp.where(real, c, distance) for c in placed)), species)

        def fetch(k: jax.Array) -> Group:
            j = lax.dynamic_index_in_dim(members, k, keepdims=False)
            fetched = Vector(*(jnp.take(c, j, mode="clip") for c in everyone))
            kinds = jnp.take(places.species, j, mode="clip") if self.potential.species > 1 else species
            return group(fetched, kinds, j < self.grid.places, -far)

        potential, box = jax.tree.map(
            lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, (self.potential, self.box)
        )
        pairs = Pairs(potential, far**2, self.cutoff.dtype, box.nearest if self.each_pair else None)
        return pairs, group(position, species, real, far), group(position, species, real, -far), fetch

    def _centre(self, position: Vector, real: jax.Array, dtype: DTypeLike) -> Vector:
        """The mean position of the members of each cluster, which stand around the first one."""
        first = Vector(*(c[:1] for c in position))
        count = jnp.maximum(jnp.sum(real, 0, keepdims=True), 1).astype(dtype)
        if self.fixed_point:
            around = (c.astype(dtype) for c in position.plus(-1, first))
        else:
            around = self._relative(dtype)(position, first)
        means = (jnp.sum(jnp.where(real, c, 0), 0, keepdims=True) / count for c in around)
        return Vector(*(c + m.astype(c.dtype) for c, m in zip(first, means, strict=True)))

    def _relative(self, dtype: DTypeLike) -> Callable[[Vector, Vector], Vector]:
        """The nearest image of a difference of coordinates, in the type of pair arithmetic."""

        def relative(a: Vector, b: Vector) -> Vector:
            difference = Vector(*(c - d for c, d in zip(a, b, strict=True)))
            if self.fixed_point:
                return self._periodic_box.of_fixed_point(difference, dtype)
            return Vector(*(c.astype(dtype) for c in self.box.nearest(difference)))

        return relative


def _way_ahead(course: Course, furthest: jax.Array) -> Vector:
    """The way to where a list is best made, which is nowhere longer than `furthest`.

    It ends halfway to where a particle will be after twice the time in which the fastest one goes that far.
    So the particles pass from one side of where they are listed to the other, and a list serves longer than
    if they only left where they are. If velocities do not last until then, as in a cold crystal, only
    accelerations count: particles that vibrate with angular frequency 1 / `lasts` do so about the end of that
    way, and may never leave its surroundings.
    """
    v, a, lasts = course
    tiny = jnp.finfo(furthest.dtype).tiny
    until = furthest / jnp.maximum(jnp.sqrt(jnp.max(v.dot(v))), tiny)
    time = jnp.minimum(lasts, until)
    way = v.times(jnp.where(until < lasts, 1.0, 0.0)).plus(time, a).times(time)
    return way.times(jnp.minimum(1, furthest / jnp.maximum(jnp.sqrt(way.dot(way)), tiny)))


def itself() -> Bool[Array, "neighbour member 1"]:
    """In the pairs of a cluster with itself, those of a particle with itself: known by place, not by
    distance."""
    return jnp.eye(MEMBERS, dtype=bool)[:, :, None]


def _in_places(chunks: Vector) -> Vector:
    return Vector(*(c.ravel() for c in chunks))
