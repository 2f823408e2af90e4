"""Forces of pairs within a cutoff, over lists of neighbours that are made anew when particles have moved."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool
from simkit_solvers import AbstractForces, PairTotals, Particles, Tensor, Vector

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.cluster_sums import Cluster, Pairs, PairSums, sum_chunk
from simkit_physics.particles.clusters import LANES, MEMBERS, ClusterGrid, sorted_places
from simkit_physics.particles.neighbours import Capacities, NeighbourList, NeighbourSearch

FAR = 1e4  # in cutoffs: where an empty place is


class ListedForces(AbstractForces):
    r"""Forces $F_i = -\sum_j \nabla_i u(|x_i - x_j|)$ over the neighbours of each particle.

    `potential` gives `energy(r2)` and `slope(r2)`, both 0 from `cutoff` on. A list holds the pairs nearer than
    cutoff + `skin` and serves until a particle has moved half the skin, so that no pair is ever missed. `grid`
    and `capacities` are shapes, to be enlarged where `complete` is false. Pair arithmetic is in float32 if
    `precision` is "mixed"; positions, sums over groups of neighbours and energies then stay in float64.
    """

    potential: Any
    box: AbstractBox
    cutoff: jax.Array
    skin: jax.Array
    grid: ClusterGrid = eqx.field(static=True)
    capacities: Capacities = eqx.field(static=True)
    precision: Literal["float64", "mixed", "float32"] = eqx.field(static=True, default="float64")
    each_pair: bool = eqx.field(static=True, default=False)

    def arranged(self, particles: Particles) -> tuple[Particles, NeighbourList]:
        position, turns = self.box.wrapped(particles.position)
        image = Vector(*(a + b for a, b in zip(particles.image, turns, strict=True)))
        particles = eqx.tree_at(lambda p: (p.position, p.image), particles, (position, image))
        order = sorted_places(self.grid, self.box.search_coordinates(position), particles.real)
        particles = particles.in_order(order)
        search = NeighbourSearch(self.grid, self.capacities, self.box)
        return particles, search.near(particles.position, particles.real, self.cutoff + self.skin)

    def serves(self, listed: NeighbourList, position: Vector) -> Bool[Array, ""]:
        moved = position.plus(-1, listed.origin)
        return ~(jnp.max(moved.dot(moved)) > (self.skin / 2) ** 2)  # so, unless a position is not a number

    def complete(self, listed: NeighbourList) -> Bool[Array, ""]:
        enough = jnp.all(listed.counts <= jnp.asarray(self.capacities))
        reach = self.cutoff + self.skin + (0 if self.each_pair else listed.extent.astype(self.skin.dtype))
        widths = self.box.widths
        return enough & (reach < jnp.minimum(jnp.minimum(widths.x, widths.y), widths.z) / 2)

    def forces(self, particles: Particles, listed: NeighbourList) -> Vector:
        return self._sums(particles, listed, totals=False).force

    def totals(self, particles: Particles, listed: NeighbourList) -> tuple[Vector, PairTotals]:
        sums = self._sums(particles, listed, totals=True)
        assert sums.energy is not None and sums.virial is not None
        return sums.force, PairTotals(jnp.sum(sums.energy), Tensor(*(jnp.sum(w) for w in sums.virial)))

    def _sums(self, particles: Particles, listed: NeighbourList, totals: bool) -> PairSums:
        whole = particles.position.x.dtype
        pair_dtype = jnp.dtype("float32" if self.precision == "mixed" else whole)
        far = (FAR * self.cutoff).astype(pair_dtype)
        potential = jax.tree.map(lambda a: a.astype(pair_dtype) if eqx.is_inexact_array(a) else a, self.potential)
        relative = self._relative(pair_dtype)
        everyone = self._coordinates(particles.position)
        shape = (self.grid.chunks, MEMBERS, LANES)
        in_chunks = Vector(*(c.reshape(shape) for c in everyone))
        species, real = particles.species.reshape(shape), particles.real.reshape(shape)

        def strengths(r2, a, b):
            pair = potential.of_pair(a, b)
            return pair.energy(r2), -2 * pair.slope(r2)

        pairs = Pairs(strengths, far**2, self._nearest(pair_dtype) if self.each_pair else None)

        def chunk(arguments):
            position, species, real, members, groups = arguments
            first = Vector(*(c[:1] for c in position))

            def from_first(position, there, distance):
                return Vector(*(jnp.where(there, c, distance) for c in relative(position, first)))

            own = Cluster(from_first(position, real, far), species)

            def fetch(k):
                j = lax.dynamic_index_in_dim(members, k, keepdims=False)
                fetched = Vector(*(jnp.take(c, j, mode="clip") for c in everyone))
                kind = jnp.take(particles.species, j, mode="clip") if potential.species > 1 else species
                return Cluster(from_first(fetched, j < self.grid.places, -far), kind)

            sums = sum_chunk(pairs, own, fetch, groups, totals)
            return jax.tree.map(lambda a: a.astype(whole), sums)

        sums = lax.map(chunk, (in_chunks, species, real, listed.members, listed.groups))
        return eqx.tree_at(lambda s: s.force, sums, Vector(*(f.ravel() for f in sums.force)))

    def _coordinates(self, position: Vector) -> Vector:
        return position

    def _relative(self, dtype):
        """The nearest image of a difference of coordinates, in the type of pair arithmetic."""
        return lambda a, b: Vector(*(c.astype(dtype) for c in self.box.nearest(a.plus(-1, b))))

    def _nearest(self, dtype):
        return jax.tree.map(lambda a: a.astype(dtype), self.box).nearest
