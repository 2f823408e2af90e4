from typing import Any, ClassVar

from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential


class LennardJones(AbstractPotential):
    r"""$u(r) = 4\varepsilon\,[(\sigma/r)^{12} - (\sigma/r)^6]$, of depth $\varepsilon$ at $2^{1/6}\sigma$.

    Reference: Lennard-Jones (1931), Cohesion, doi:10.1088/0959-5309/43/5/301.

    >>> from simkit_physics import LennardJones
    >>> potential = LennardJones(epsilon=1.0, sigma=1.0)
    >>> potential.energy(2.0 ** (1 / 3))  # at r = 2^(1/6)
    -1.0
    """

    example: ClassVar[dict[str, float]] = {"epsilon": 1.0, "sigma": 1.0}

    epsilon: PairParameter = parameter("energy", "depth of the well", at_least=0)
    sigma: PairParameter = parameter("length", "distance at which the energy is 0", above=0)

    def energy(self, r2: Any) -> Any:
        return lennard_jones_energy(self.epsilon, self.sigma, r2)

    def slope(self, r2: Any) -> Any:
        return lennard_jones_slope(self.epsilon, self.sigma, r2)

    def tail_integral(self, cutoff: PairParameter) -> Any:
        return lennard_jones_tail(self.epsilon, self.sigma, cutoff)


def lennard_jones_energy(epsilon: PairParameter, sigma: PairParameter, r2: Any) -> Any:
    x = _sixth_power(sigma, 1 / r2)
    return 4 * epsilon * (x * x - x)


def lennard_jones_slope(epsilon: PairParameter, sigma: PairParameter, r2: Any) -> Any:
    """With one division and no root."""
    inverse = 1 / r2
    x = _sixth_power(sigma, inverse)
    return 12 * epsilon * inverse * (x - 2 * x * x)


def lennard_jones_tail(epsilon: PairParameter, sigma: PairParameter, cutoff: PairParameter) -> Any:
    cube = (sigma / cutoff) ** 3
    return 4 * epsilon * sigma**3 * (cube**3 / 9 - cube / 3)


def _sixth_power(sigma, inverse):
    s = sigma * sigma * inverse
    return s * s * s
