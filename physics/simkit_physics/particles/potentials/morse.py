from typing import Any, ClassVar

import jax.numpy as jnp
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tails import exponential_tail


class Morse(AbstractPotential):
    r"""$u(r) = D\,[e^{-2a(r - r_0)} - 2e^{-a(r - r_0)}]$, of depth D at $r_0$.

    The energy is finite at r = 0: with small $a r_0$ particles can sit on each other.
    Reference: Morse (1929), Diatomic molecules according to the wave mechanics II, doi:10.1103/PhysRev.34.57.

    >>> from simkit_physics import Morse
    >>> float(Morse(D=1.0, a=2.0, r0=1.0).energy(1.0))  # at r = r0
    -1.0
    """

    example: ClassVar[dict[str, float]] = {"D": 1.0, "a": 6.0, "r0": 1.1}

    D: PairParameter = parameter("energy", "depth of the well", at_least=0)
    a: PairParameter = parameter("1/length", "steepness", above=0)
    r0: PairParameter = parameter("length", "distance of the minimum", above=0)

    def energy(self, r2: Any) -> Any:
        x = jnp.exp(-self.a * (jnp.sqrt(r2) - self.r0))
        return self.D * (x - 2) * x

    def tail_integral(self, cutoff: PairParameter) -> Any:
        x = jnp.exp(-self.a * (cutoff - self.r0))
        return self.D * x * (x * exponential_tail(2 * self.a, cutoff) - 2 * exponential_tail(self.a, cutoff))
