from typing import Any, ClassVar

from jax import lax
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential


class Coulomb(AbstractPotential):
    r"""$u(r) = k\,q_a q_b/r$ up to a cutoff.

    Nothing replaces what lies beyond the cutoff. The shifted force is the simplest truncation that describes
    dense ionic systems; a plain one does not. There is no tail correction, since the integral diverges.
    Unlike charges attract each other without bound: a repulsion must keep them apart.
    Reference: Fennell & Gezelter (2006), Is the Ewald summation still necessary?, doi:10.1063/1.2206581.

    >>> from simkit_physics import Coulomb
    >>> float(Coulomb(charge_product=-1.0, constant=1.0).energy(4.0))  # at r = 2
    -0.5
    """

    example: ClassVar[dict[str, float]] = {"charge_product": 1.0, "constant": 1.0}

    charge_product: PairParameter = parameter("charge^2", "product of the two charges")
    constant: PairParameter = parameter("energy*length/charge^2", "Coulomb's constant k", above=0)

    def energy(self, r2: Any) -> Any:
        return self.constant * self.charge_product * lax.rsqrt(r2)

    def slope(self, r2: Any) -> Any:
        inverse = lax.rsqrt(r2)
        return -0.5 * self.constant * self.charge_product * inverse * inverse * inverse

    def tail_integral(self, cutoff: PairParameter) -> Any:
        raise ValueError("Coulomb: has no tail correction, since the integral of 1/r diverges; leave it out")
