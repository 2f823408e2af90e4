"""The velocities with which a stage begins."""

import jax.numpy as jnp
import numpy as np
from simkit_physics.particles.configurations import with_velocities
from simkit_solvers import Particles, Vector
from simkit_solvers.problems.motion import MotionUnits
from simkit_solvers.random.generator import Words

from simkit.md.programs import Programs
from simkit.md.simulation import ParticleSimulation


def in_motion(
    simulation: ParticleSimulation,
    number: int,
    particles: Particles,
    key: Words,
    path: int,
    units: MotionUnits,
    programs: Programs,
) -> Particles:
    """The particles of a replica as stage `number` wants them.

    Velocities are drawn after none or meaningless ones, at the temperature of the system, where it has one.
    Otherwise they stay, without the drift of the whole system where a method begins that keeps it and whose
    degrees of freedom leave it out.
    """
    stage, temperature = simulation.stages[number].method, simulation.system.temperature
    before = simulation.stages[number - 1].method if number else None
    if stage.ensemble == "none":
        return particles
    if before is None or before.ensemble in ("none", "configurations"):
        if temperature is not None:
            drawn = particles, np.float64(temperature), key, np.uint32(path), units
            return programs(particles, with_velocities, *drawn)
        return particles if before is None else particles.pushed(particles.momentum.times(0.0))
    moving, all_of_them = stage.degrees_of_freedom(particles.count), 3 * particles.count
    if before.degrees_of_freedom(particles.count) == all_of_them and 0 < moving < all_of_them:
        return programs(particles, without_drift, particles)
    return particles


def without_drift(particles: Particles) -> Particles:
    """The same particles in the frame in which their total momentum is zero."""
    mass = jnp.where(particles.real, particles.mass, 0)
    fraction = mass / jnp.sum(mass)
    return particles.pushed(Vector(*(p - fraction * jnp.sum(p) for p in particles.momentum)))
