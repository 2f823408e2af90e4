"""How energy and virial change with the parameters of a pair potential, at given positions."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from simkit_solvers import PairTotals, Particles

from simkit_physics.particles.pair_rules import AbstractPairForces, Places


class ParameterChanges(eqx.Module):
    """Changes of the parameters of pair forces; called, it gives the derivatives of the totals along each.

    `numbers` has a leaf for every floating-point array of the forces, with an axis of changes in front. They
    are forward derivatives alone, of the program itself: a fraction of the cost of the rules for any order.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import LennardJones, ParameterChanges, Shifted, complete_list, forces_for, lattice
    >>> particles, box = lattice("fcc", (2, 2, 2), density=0.85)
    >>> def truncated(epsilon):
    ...     return Shifted(LennardJones(epsilon=epsilon, sigma=jnp.float32(1.0)), jnp.float32(2.0))
    >>> forces, particles = forces_for(particles, box, truncated(jnp.float32(1.0)), precision="float32")
    >>> forces, particles, neighbours = complete_list(forces, particles)
    >>> changes = ParameterChanges.of(forces, [truncated(jnp.float32(1.0))])
    >>> changes(forces, particles, neighbours).energy.shape
    (1,)
    """

    numbers: Any

    @classmethod
    def of(cls, forces: AbstractPairForces, potentials: Sequence[Any]) -> "ParameterChanges":
        """Changes of the potential alone, each a pytree like that of the forces."""
        numbers = eqx.filter(forces, eqx.is_inexact_array)
        zeros = jax.tree.map(jnp.zeros_like, numbers)

        def along(potential: Any) -> Any:
            cast = jax.tree.map(lambda x, dx: jnp.asarray(dx, x.dtype), numbers.potential, potential)
            return eqx.tree_at(lambda f: f.potential, zeros, cast)

        return cls(jax.tree.map(lambda *each: jnp.stack(each), *map(along, potentials)))

    def __call__(self, forces: AbstractPairForces, particles: Particles, listed: Any) -> PairTotals:
        """The derivatives of energy and virial along each change, with an axis of changes in front."""
        numbers, rest = eqx.partition(forces.differentiable(), eqx.is_inexact_array)
        position, places = particles.position, Places.of(particles)

        def totals(numbers: Any) -> PairTotals:
            return eqx.combine(numbers, rest).sum_totals(position, places, listed)[1]

        def derivative(leaves: list[jax.Array]) -> PairTotals:
            # Lists may have become larger since the changes were made: the structure is that of the forces.
            tangent = jax.tree.structure(numbers).unflatten(leaves)
            return jax.jvp(totals, (numbers,), (tangent,))[1]

        return lax.map(derivative, jax.tree.leaves(self.numbers))
