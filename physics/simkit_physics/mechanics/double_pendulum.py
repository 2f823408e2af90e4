from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter

from simkit_physics.mechanics.energies import weight_energy


class DoublePendulumState(NamedTuple):
    theta1: Annotated[Scalar, Quantity("rad", "angle of the upper rod from the vertical")]
    theta2: Annotated[Scalar, Quantity("rad", "angle of the lower rod from the vertical")]
    omega1: Annotated[Scalar, Quantity("rad/time", "angular velocity of the upper rod")]
    omega2: Annotated[Scalar, Quantity("rad/time", "angular velocity of the lower rod")]


class DoublePendulum(AbstractODE):
    r"""A pendulum hanging from a pendulum, chaotic at large angles; with $\delta = \theta_1 - \theta_2$,

    $$\begin{aligned}
    (m_1 + m_2) l_1 \dot\omega_1 + m_2 l_2 \cos\delta\,\dot\omega_2
      &= -m_2 l_2 \omega_2^2 \sin\delta - (m_1 + m_2) g \sin\theta_1, \\
    l_1 \cos\delta\,\dot\omega_1 + l_2 \dot\omega_2 &= l_1 \omega_1^2 \sin\delta - g \sin\theta_2,
    \end{aligned}$$

    and $\dot\theta_i = \omega_i$. The masses $m_1$ (upper) and $m_2$ are points at the ends of weightless
    rods. The energy is conserved but does not separate, so that symplectic solvers do not fit.
    Reference: Shinbrot, Grebogi, Wisdom & Yorke (1992), Chaos in a double pendulum, doi:10.1119/1.16860.
    """

    State = DoublePendulumState
    example: ClassVar[dict[str, float]] = {"m1": 1.0, "m2": 1.0, "l1": 1.0, "l2": 1.0, "g": 9.81}
    example_initial: ClassVar[dict[str, float]] = {"theta1": 2.0, "theta2": 2.5, "omega1": 0.0, "omega2": 0.0}
    example_time: ClassVar[dict[str, float]] = {"t1": 10.0, "steps": 2000}

    m1: Scalar = parameter("mass", "upper mass", above=0)
    m2: Scalar = parameter("mass", "lower mass", above=0)
    l1: Scalar = parameter("length", "length of the upper rod", above=0)
    l2: Scalar = parameter("length", "length of the lower rod", above=0)
    g: Scalar = parameter("length/time^2", "acceleration of gravity", at_least=0)

    def drift(self, t: Scalar, y: PyTree) -> DoublePendulumState:
        total, delta = self.m1 + self.m2, y.theta1 - y.theta2
        cos, sin = jnp.cos(delta), jnp.sin(delta)
        push1 = -self.m2 * self.l2 * y.omega2**2 * sin - total * self.g * jnp.sin(y.theta1)
        push2 = self.l1 * y.omega1**2 * sin - self.g * jnp.sin(y.theta2)
        inertia = self.m1 + self.m2 * sin**2
        return DoublePendulumState(
            theta1=y.omega1,
            theta2=y.omega2,
            omega1=(push1 - self.m2 * cos * push2) / (self.l1 * inertia),
            omega2=(total * push2 - cos * push1) / (self.l2 * inertia),
        )

    def energy(self, y: DoublePendulumState) -> Scalar:
        """Kinetic and potential energy of both masses, in mass·length²/time²."""
        v1, v2 = self.l1 * y.omega1, self.l2 * y.omega2
        square = v1**2 + v2**2 + 2 * v1 * v2 * jnp.cos(y.theta1 - y.theta2)
        height1 = -self.l1 * jnp.cos(y.theta1)
        height2 = height1 - self.l2 * jnp.cos(y.theta2)
        heights = weight_energy(self.m1, self.g, height1) + weight_energy(self.m2, self.g, height2)
        return self.m1 * v1**2 / 2 + self.m2 * square / 2 + heights
