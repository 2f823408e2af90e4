"""Brownian dynamics: particles so overdamped that momenta do not matter."""

from typing import ClassVar

from jaxtyping import PyTree

from simkit_solvers.methods.particles.particle_method import AbstractParticleMethod, ParticleStep, option
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.square_root import sqrt_positive
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.motion import MotionUnits, inverse_mass
from simkit_solvers.problems.particles import Particles, Vector


class BrownianDynamics(AbstractParticleMethod):
    r"""Brownian dynamics by the Leimkuhler–Matthews method, with R standard normal in each coordinate:

    $$q_{n+1} = q_n + \frac{h}{m\gamma} F(q_n) + \sqrt{2 D h}\;\tfrac12 (R_n + R_{n+1}),\qquad
    D = \frac{k_B T}{m\gamma}.$$

    Samples the configurations of NVT: averages are of order 2, where those with $R_n$ alone would be of order
    1; momenta stay as they are and mean nothing, so that nothing is conserved. One force a step. Stable on a
    spring of constant k for $kh < 2 m\gamma$.
    Reference: Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for
    molecular sampling, doi:10.1093/amrx/abs010.

    >>> from simkit_solvers import BrownianDynamics
    >>> method = BrownianDynamics(temperature=1.0, friction=10.0)
    >>> method.ensemble, method.degrees_of_freedom(100)
    ('configurations', 0)
    """

    ensemble: ClassVar = "configurations"
    random: ClassVar = True

    temperature: Scalar | AbstractTimeFunction = option(
        "temperature", "temperature of the heat bath", above=0
    )
    friction: Scalar = option(
        "1/time", "rate at which velocities would be forgotten, which sets the diffusion", above=0
    )

    def init(self, particles: Particles, units: MotionUnits) -> PyTree:
        return ()

    def first(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        mobility = inverse_mass(particles) / (step.units.kinetic * step.middle(self.friction))
        width = sqrt_positive(2 * step.thermal_energy(self.temperature) * mobility * step.dt)
        noise = step.normals(particles).plus(1, step.next_normals(particles))
        pieces = zip(particles.position, force, noise, strict=True)
        moved = Vector(*(q + step.dt * mobility * f + 0.5 * width * z for q, f, z in pieces))
        return particles.moved(moved), memory

    def second(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        return particles, memory

    def degrees_of_freedom(self, count: int) -> int:
        return 0

    def course(self, particles: Particles, force: Vector, step: ParticleStep) -> None:
        return None  # momenta mean nothing
