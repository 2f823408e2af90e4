"""The BAOAB splitting of Langevin dynamics, for particles."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from simkit_solvers.methods.particles.particle_method import (
    AbstractParticleMethod,
    ParticleStep,
    drift,
    kick,
    option,
)
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.square_root import sqrt_positive
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.motion import MotionUnits, kinetic_energy, newtonian_course
from simkit_solvers.problems.particles import Course, Particles, Vector


class ParticleBAOAB(AbstractParticleMethod):
    r"""BAOAB splitting of Langevin dynamics, with R standard normal in each coordinate:

    $$p' = p_n + \tfrac h2 F(q_n),\quad q' = q_n + \tfrac h2\,p'/m,\quad
    p'' = e^{-\gamma h} p' + \sqrt{m k_B T\,(1 - e^{-2\gamma h})}\,R,$$
    $$q_{n+1} = q' + \tfrac h2\,p''/m,\quad p_{n+1} = p'' + \tfrac h2 F(q_{n+1}).$$

    `BAOAB` in YAML, like the solver of the same splitting for Langevin equations of a few variables. Samples
    NVT with $3N$ degrees of freedom: averages over positions are of order 2, with a small constant, and exact
    on springs; those over momenta are of order 2. One force a step. Conserves, up to the error of the steps,
    the energy less what friction and noise have given. Stable on a spring of frequency $\omega$ for
    $h\omega < 2$. Without friction it would be `VelocityVerlet`, which samples NVE.
    Reference: Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for
    molecular sampling, doi:10.1093/amrx/abs010.

    >>> from simkit_solvers import ParticleBAOAB
    >>> thermostat = ParticleBAOAB(temperature=1.0, friction=0.5)
    >>> thermostat.ensemble, thermostat.degrees_of_freedom(100)
    ('NVT', 300)
    """

    ensemble: ClassVar = "NVT"
    random: ClassVar = True

    temperature: Scalar | AbstractTimeFunction = option(
        "temperature", "temperature of the heat bath", above=0
    )
    friction: Scalar = option("1/time", "rate at which velocities are forgotten", above=0)

    def init(self, particles: Particles, units: MotionUnits) -> Float[Array, ""]:
        """The energy that the heat bath has given."""
        return jnp.zeros((), particles.position.x.dtype)

    def first(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        particles = kick(particles, force, 0.5 * step.dt, step.units)
        particles = drift(particles, 0.5 * step.dt)
        before = kinetic_energy(particles, step.units)
        particles = self._friction_and_noise(particles, step)
        given = kinetic_energy(particles, step.units) - before
        return drift(particles, 0.5 * step.dt), memory + given

    def second(
        self, particles: Particles, force: Vector, memory: PyTree, step: ParticleStep
    ) -> tuple[Particles, PyTree]:
        return kick(particles, force, 0.5 * step.dt, step.units), memory

    def _friction_and_noise(self, particles: Particles, step: ParticleStep) -> Particles:
        """O, an exact step of the Ornstein–Uhlenbeck process of the momenta."""
        decay = step.middle(self.friction) * step.dt
        mass = jnp.where(particles.real, particles.mass, 1)
        variance = mass * (step.thermal_energy(self.temperature) / step.units.kinetic)
        width = sqrt_positive(-jnp.expm1(-2 * decay) * variance)
        noise = step.normals(particles)
        kept = particles.momentum.times(jnp.exp(-decay))
        return particles.pushed(Vector(*(p + width * z for p, z in zip(kept, noise, strict=True))))

    def degrees_of_freedom(self, count: int) -> int:
        return 3 * count

    def course(self, particles: Particles, force: Vector, step: ParticleStep) -> Course:
        """That of Newton's equations until friction has stopped the particles."""
        course = newtonian_course(particles, force, step.units)
        return course._replace(lasts=jnp.minimum(course.lasts, 1 / step.middle(self.friction)))

    def given_energy(self, particles: Particles, memory: PyTree, step: ParticleStep) -> Float[Array, ""]:
        return -memory
