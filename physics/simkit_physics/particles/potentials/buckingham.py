from typing import Any, ClassVar

import jax.numpy as jnp
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tails import exponential_tail


class Buckingham(AbstractPotential):
    r"""$u(r) = A\,e^{-r/\rho} - C/r^6$, the exponential-6 potential.

    **Collapses:** below a maximum at a short distance the energy falls to $-\infty$ as r goes to 0. Particles
    that cross it, at high temperature or from a bad start, fuse and the run fails.
    Reference: Buckingham (1938), The classical equation of state of gaseous helium, neon and argon,
    doi:10.1098/rspa.1938.0173.

    >>> from simkit_physics import Buckingham
    >>> round(float(Buckingham(A=1000.0, rho=0.3, C=10.0).energy(4.0)), 4)  # at r = 2
    1.1164
    """

    example: ClassVar[dict[str, float]] = {"A": 2e5, "rho": 0.08, "C": 2.0}

    A: PairParameter = parameter("energy", "strength of the repulsion", at_least=0)
    rho: PairParameter = parameter("length", "range of the repulsion", above=0)
    C: PairParameter = parameter("energy*length^6", "strength of the attraction", at_least=0)

    def energy(self, r2: Any) -> Any:
        inverse = 1 / r2
        return self.A * jnp.exp(-jnp.sqrt(r2) / self.rho) - self.C * inverse * inverse * inverse

    def tail_integral(self, cutoff: PairParameter) -> Any:
        repulsion = self.A * jnp.exp(-cutoff / self.rho) * exponential_tail(1 / self.rho, cutoff)
        return repulsion - self.C / (3 * cutoff**3)
