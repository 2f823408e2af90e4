from typing import Any, ClassVar

import jax.numpy as jnp
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tails import exponential_tail


class BornMayer(AbstractPotential):
    r"""$u(r) = A\,e^{(\sigma - r)/\rho} - C/r^6 - D/r^8$: repulsion of ions and their dispersion.

    With C = D = 0 it is the potential of Born and Mayer, with them that of Huggins and Mayer, and Fumi and
    Tosi. LAMMPS writes the last term with the opposite sign. The charges are not part of it.

    **Collapses** if C or D is positive: below a maximum at a short distance the energy falls to $-\infty$.
    References: Born & Mayer (1932), Zur Gittertheorie der Ionenkristalle, doi:10.1007/BF01340511; Fumi &
    Tosi (1964), Ionic sizes and Born repulsive parameters in the NaCl-type alkali halides,
    doi:10.1016/0022-3697(64)90159-3.

    >>> from simkit_physics import BornMayer
    >>> potential = BornMayer(A=2.0, sigma=1.0, rho=0.3, C=0.0, D=0.0)
    >>> float(potential.energy(1.0))  # at r = sigma
    2.0
    """

    example: ClassVar[dict[str, float]] = {"A": 1.0, "sigma": 1.0, "rho": 0.1, "C": 0.5, "D": 0.2}

    A: PairParameter = parameter("energy", "repulsion at the distance sigma", at_least=0)
    sigma: PairParameter = parameter("length", "sum of the radii", at_least=0)
    rho: PairParameter = parameter("length", "range of the repulsion", above=0)
    C: PairParameter = parameter("energy*length^6", "attraction of dipoles", at_least=0)
    D: PairParameter = parameter("energy*length^8", "attraction of dipole and quadrupole", at_least=0)

    def energy(self, r2: Any) -> Any:
        inverse = 1 / r2
        repulsion = self.A * jnp.exp((self.sigma - jnp.sqrt(r2)) / self.rho)
        return repulsion - inverse * inverse * inverse * (self.C + self.D * inverse)

    def tail_integral(self, cutoff: PairParameter) -> Any:
        at_cutoff = self.A * jnp.exp((self.sigma - cutoff) / self.rho)
        repulsion = at_cutoff * exponential_tail(1 / self.rho, cutoff)
        return repulsion - self.C / (3 * cutoff**3) - self.D / (5 * cutoff**5)
