from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tails import check_exponents


class Mie(AbstractPotential):
    r"""$u(r) = c\,\varepsilon\,[(\sigma/r)^n - (\sigma/r)^m]$ with $c = \frac{n}{n-m} (n/m)^{m/(n-m)}$.

    The depth is $\varepsilon$, and n > m; n = 12 and m = 6 is Lennard-Jones. Quickest with exponents that are
    even whole numbers. There is a tail correction for m > 3.
    Reference: Mie (1903), Zur kinetischen Theorie der einatomigen Körper, doi:10.1002/andp.19033160802.

    Raises `ValueError` unless n > m.

    >>> from simkit_physics import Mie
    >>> potential = Mie(epsilon=1.0, sigma=1.0, n=12.0, m=6.0)  # Lennard-Jones
    >>> round(float(potential.energy(2.0 ** (1 / 3))), 5)
    -1.0
    """

    example: ClassVar[dict[str, float]] = {"epsilon": 1.0, "sigma": 1.0, "n": 14.0, "m": 6.5}

    epsilon: PairParameter = parameter("energy", "depth of the well", at_least=0)
    sigma: PairParameter = parameter("length", "distance at which the energy is 0", above=0)
    n: PairParameter = parameter("1", "exponent of the repulsion, > m", above=0)
    m: PairParameter = parameter("1", "exponent of the attraction", above=0)

    def energy(self, r2: Any) -> Any:
        s2 = self.sigma * self.sigma / r2
        return self._strength() * (power_of_squared(s2, self.n) - power_of_squared(s2, self.m))

    def tail_integral(self, cutoff: PairParameter) -> Any:
        check_exponents("Mie", self.m)
        n, m, s = self.n, self.m, self.sigma / cutoff
        return self._strength() * cutoff**3 * (s**n / (n - 3) - s**m / (m - 3))

    def _strength(self):
        n, m = self.n, self.m
        return self.epsilon * n / (n - m) * (n / m) ** (m / (n - m))

    def __check_init__(self) -> None:
        if isinstance(self.n, Tracer) or isinstance(self.m, Tracer):
            return
        if np.any(np.asarray(self.n) <= np.asarray(self.m)):
            raise ValueError(f"Mie.n: must be larger than m, got n = {self.n} and m = {self.m}")


def power_of_squared(s2: Any, n: PairParameter) -> Any:
    """$s^n$ from $s^2$; by multiplications for even numbers that are known when the program is made.

    Elsewhere by exponential and logarithm, which are vector code on a CPU; `power` is not.
    """
    if isinstance(n, int | float) and n % 2 == 0:
        return lax.integer_pow(s2, int(n) // 2)
    return jnp.exp(0.5 * n * jnp.log(s2))
