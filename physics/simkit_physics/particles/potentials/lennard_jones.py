from typing import ClassVar

import jax
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential


class LennardJones(AbstractPotential):
    r"""$u(r) = 4\varepsilon\,[(\sigma/r)^{12} - (\sigma/r)^6]$, of depth $\varepsilon$ at $2^{1/6}\sigma$.

    Reference: Lennard-Jones (1931), Cohesion, doi:10.1088/0959-5309/43/5/301.
    """

    example: ClassVar[dict[str, float]] = {"epsilon": 1.0, "sigma": 1.0}

    epsilon: PairParameter = parameter("energy", "depth of the well", at_least=0)
    sigma: PairParameter = parameter("length", "distance at which the energy is 0", above=0)

    def energy(self, r2: jax.Array) -> jax.Array:
        x = self._sixth_power(1 / r2)
        return 4 * self.epsilon * (x * x - x)

    def slope(self, r2: jax.Array) -> jax.Array:
        inverse = 1 / r2
        x = self._sixth_power(inverse)
        return 12 * self.epsilon * inverse * (x - 2 * x * x)

    def _sixth_power(self, inverse):
        s = self.sigma * self.sigma * inverse
        return s * s * s
