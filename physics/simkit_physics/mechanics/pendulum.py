from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from simkit_solvers import AbstractHamiltonian, Quantity, Scalar, parameter

from simkit_physics.mechanics.energies import kinetic_energy, weight_energy


class PendulumState(NamedTuple):
    theta: Annotated[Scalar, Quantity("rad", "angle from the vertical")]
    p: Annotated[Scalar, Quantity("mass*length^2/time", "angular momentum")]


class Pendulum(AbstractHamiltonian):
    r"""Mass on a rod, $\dot\theta = p/ml^2$, $\dot p = -mgl\sin\theta$.

    The energy is $p^2/2ml^2 - mgl\cos\theta$. Let go at rest at the angle $\theta_0$ its period is
    $4\sqrt{l/g}\,K(\sin^2\frac{\theta_0}2)$, with K the complete elliptic integral of the first kind of a
    parameter.
    Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8.
    """

    State = PendulumState
    example: ClassVar[dict[str, float]] = {"m": 1.0, "l": 1.0, "g": 9.81}
    example_initial: ClassVar[dict[str, float]] = {"theta": 2.5, "p": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 10.0, "steps": 1000}
    example_solver: ClassVar[str] = "Leapfrog"

    m: Scalar = parameter("mass", "mass", above=0)
    l: Scalar = parameter("length", "length of the rod", above=0)
    g: Scalar = parameter("length/time^2", "acceleration of gravity", at_least=0)

    def kinetic(self, p: tuple) -> Scalar:
        return kinetic_energy(self.m * self.l**2, *p)

    def potential(self, q: tuple) -> Scalar:
        (theta,) = q
        return weight_energy(self.m, self.g, -self.l * jnp.cos(theta))
