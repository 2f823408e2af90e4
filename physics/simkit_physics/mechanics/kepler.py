from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from simkit_solvers import AbstractHamiltonian, Quantity, Scalar, parameter

from simkit_physics.mechanics.energies import gravitational_energy, kinetic_energy


class KeplerState(NamedTuple):
    x: Annotated[Scalar, Quantity("length", "position")]
    y: Annotated[Scalar, Quantity("length", "position across")]
    px: Annotated[Scalar, Quantity("mass*length/time", "momentum")]
    py: Annotated[Scalar, Quantity("mass*length/time", "momentum across")]


class Kepler(AbstractHamiltonian):
    r"""Planet around a fixed sun, $\dot q = p/m$, $\dot p = -G M m\,q/|q|^3$.

    The energy is $|p|^2/2m - GMm/|q|$.     Orbits of negative energy are ellipses. From $(1 - e, 0)\,a$ with
    the velocity $\sqrt{\frac{GM}a\,\frac{1 + e}{1 - e}}$ across, the eccentricity is e, the half axis a and
    the period $2\pi\sqrt{a^3/GM}$. Energy and angular momentum are conserved. Infinite at the origin.
    Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8.
    """

    State = KeplerState
    example: ClassVar[dict[str, float]] = {"m": 1.0, "GM": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"x": 0.4, "y": 0.0, "px": 0.0, "py": 2.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 20.0, "steps": 2000}
    example_solver: ClassVar[str] = "Yoshida4"

    m: Scalar = parameter("mass", "mass of the planet", above=0)
    GM: Scalar = parameter("length^3/time^2", "gravitational parameter of the sun", above=0)

    def kinetic(self, p: tuple) -> Scalar:
        return kinetic_energy(self.m, *p)

    def potential(self, q: tuple) -> Scalar:
        x, y = q
        return gravitational_energy(self.GM, 1.0, self.m, jnp.sqrt(x * x + y * y))
