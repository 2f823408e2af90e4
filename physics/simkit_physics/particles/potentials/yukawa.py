from typing import Any, ClassVar

import jax.numpy as jnp
from jax import lax
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential


class Yukawa(AbstractPotential):
    r"""$u(r) = A\,e^{-\kappa r}/r$: screened charges, of colloids and of dusty plasmas.

    **Collapses** if A is negative.
    Reference: Robbins, Kremer & Grest (1988), Phase diagram and dynamics of Yukawa systems,
    doi:10.1063/1.453924.

    >>> from simkit_physics import Yukawa
    >>> round(float(Yukawa(A=1.0, kappa=1.0).energy(1.0)), 4)  # at r = 1
    0.3679
    """

    example: ClassVar[dict[str, float]] = {"A": 10.0, "kappa": 2.0}

    A: PairParameter = parameter("energy*length", "strength, > 0 where particles repel each other")
    kappa: PairParameter = parameter("1/length", "inverse of the screening length", above=0)

    def energy(self, r2: Any) -> Any:
        return self.A * jnp.exp(-self.kappa * jnp.sqrt(r2)) * lax.rsqrt(r2)

    def tail_integral(self, cutoff: PairParameter) -> Any:
        k = self.kappa
        return self.A * jnp.exp(-k * cutoff) * (cutoff + 1 / k) / k
