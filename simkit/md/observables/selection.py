"""Which particles are followed, and averages over those of each species."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from simkit_solvers import Particles

from simkit.time_series.correlator import Relation


class ParticleSelection(eqx.Module):
    """Particles by number, those of a species one after another: every s-th of each, about `most` in all.

    Numbers are often in the order of a lattice, so that every s-th is spread evenly over the system.
    """

    identity: Int[Array, " selected"]
    of_species: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, particles: Particles, most: int) -> "ParticleSelection":
        own = particles.by_identity()
        species = np.asarray(own.species)
        stride = -(-len(species) // most)
        numbers = [np.flatnonzero(species == kind)[::stride] for kind in range(species.max() + 1)]
        return cls(jnp.asarray(np.concatenate(numbers)), tuple(map(len, numbers)))

    def take(self, by_identity: Float[Array, "3 particles"]) -> Float[Array, "3 selected"]:
        return by_identity[:, self.identity]

    def means(self, values: Float[Array, " selected"]) -> Float[Array, " species"]:
        """The mean over the particles of each species; NaN where there are none."""
        ends = np.cumsum(self.of_species)
        return jnp.stack(
            [jnp.mean(values[end - n : end]) for n, end in zip(self.of_species, ends, strict=True)]
        )


def product_of(selection: ParticleSelection) -> Relation:
    """The scalar product of two samples, on average over each species."""

    def relation(now: jax.Array, then: jax.Array) -> jax.Array:
        return selection.means(jnp.sum(now * then, axis=0))

    return relation


def squared_distance_of(selection: ParticleSelection) -> Relation:
    """The squared distance of two samples, on average over each species."""

    def relation(now: jax.Array, then: jax.Array) -> jax.Array:
        return selection.means(jnp.sum(jnp.square(now - then), axis=0))

    return relation
