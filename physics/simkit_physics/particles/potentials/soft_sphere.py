from typing import Any, ClassVar

from simkit_solvers import parameter

from simkit_physics.particles.potentials.mie import power_of_squared
from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tails import check_exponents


class SoftSphere(AbstractPotential):
    r"""$u(r) = \varepsilon\,(\sigma/r)^n$, an inverse power.

    Quickest with an even whole number n. There is a tail correction for n > 3.
    Reference: Hoover & others (1970), Soft-sphere equation of state, doi:10.1063/1.1672728.

    >>> from simkit_physics import SoftSphere
    >>> float(SoftSphere(epsilon=1.0, sigma=1.0, n=12.0).energy(1.0))  # at r = sigma
    1.0
    """

    example: ClassVar[dict[str, float]] = {"epsilon": 1.0, "sigma": 1.0, "n": 12.0}

    epsilon: PairParameter = parameter("energy", "energy at the distance sigma", at_least=0)
    sigma: PairParameter = parameter("length", "diameter", above=0)
    n: PairParameter = parameter("1", "exponent", above=0)

    def energy(self, r2: Any) -> Any:
        return self.epsilon * power_of_squared(self.sigma * self.sigma / r2, self.n)

    def tail_integral(self, cutoff: PairParameter) -> Any:
        check_exponents("SoftSphere", self.n)
        return self.epsilon * cutoff**3 * (self.sigma / cutoff) ** self.n / (self.n - 3)
