from typing import Any, ClassVar

import jax.numpy as jnp
from simkit_solvers import parameter

from simkit_physics.particles.potentials.lennard_jones import (
    lennard_jones_energy,
    lennard_jones_slope,
    lennard_jones_tail,
)
from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential


class WCA(AbstractPotential):
    r"""Repulsion alone, $u(r) = 4\varepsilon\,[(\sigma/r)^{12} - (\sigma/r)^6] + \varepsilon$.

    The repulsive part of Lennard-Jones. It ends at $2^{1/6}\sigma$, where energy and force are 0; the second
    derivative jumps there.
    Reference: Weeks, Chandler & Andersen (1971), Role of repulsive forces in determining the equilibrium
    structure of simple liquids, doi:10.1063/1.1674820.

    >>> from simkit_physics import WCA
    >>> float(WCA(epsilon=1.0, sigma=1.0).energy(1.0))  # at r = sigma
    1.0
    """

    example: ClassVar[dict[str, float]] = {"epsilon": 1.0, "sigma": 1.0}

    epsilon: PairParameter = parameter("energy", "energy at the distance sigma", at_least=0)
    sigma: PairParameter = parameter("length", "diameter", above=0)

    @property
    def natural_cutoff(self) -> PairParameter:
        return 2 ** (1 / 6) * self.sigma

    def energy(self, r2: Any) -> Any:
        near, r2 = self._near(r2)
        return jnp.where(near, lennard_jones_energy(self.epsilon, self.sigma, r2) + self.epsilon, 0)

    def slope(self, r2: Any) -> Any:
        near, r2 = self._near(r2)
        return jnp.where(near, lennard_jones_slope(self.epsilon, self.sigma, r2), 0)

    def tail_integral(self, cutoff: PairParameter) -> Any:
        end = self.natural_cutoff
        start = jnp.minimum(cutoff, end)
        to_end = lennard_jones_tail(self.epsilon, self.sigma, start)
        to_end = to_end - lennard_jones_tail(self.epsilon, self.sigma, end)
        return to_end + self.epsilon * (end**3 - start**3) / 3

    def _near(self, r2):
        end = 2 ** (1 / 3) * self.sigma * self.sigma
        near = r2 < end
        return near, jnp.where(near, r2, end)
