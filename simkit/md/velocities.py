"""The velocities with which a stage begins."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from simkit_physics.particles.configurations import with_velocities
from simkit_solvers import AbstractParticleMethod, Particles, Vector
from simkit_solvers.problems.motion import MotionUnits
from simkit_solvers.random.generator import Words

from simkit.md.programs import Programs
from simkit.md.simulation import ParticleSimulation
from simkit.md.system_plan import SystemPlan

ROUNDING = 1e-9  # of the speed of particles: a smaller drift is that of rounded numbers


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


def without_drift_of_file(plan: SystemPlan, method: AbstractParticleMethod) -> SystemPlan:
    """The plan without the drift of velocities that a file gives, where a method begins that would keep it.

    Degrees of freedom of such a method leave it out. A drift that comes from rounding stays, and so does that
    of a run which is continued and conserved momentum.
    """
    earlier, count = plan.earlier, plan.particles.count
    conserved = earlier is not None and earlier.momentum_is_conserved
    if plan.temperature is not None or conserved or not 0 < method.degrees_of_freedom(count) < 3 * count:
        return plan
    speeds = [drift_speed(each) for each in (earlier.particles if earlier else (plan.particles,))]
    drift = max((speed for speed, rms in speeds if speed > ROUNDING * rms), default=0.0)
    if not drift:
        return plan
    if earlier is not None:
        rest = tuple(map(without_drift, earlier.particles))
        earlier = dataclasses.replace(earlier, particles=rest, states=(), changed="its drift was removed")
    return dataclasses.replace(plan, particles=without_drift(plan.particles), earlier=earlier, drift=drift)


def drift_speed(particles: Particles) -> tuple[float, float]:
    """The speed of the centre of mass, and the root-mean-square velocity weighted with mass."""
    total = jnp.sum(particles.mass)
    drift = jnp.stack([jnp.sum(p) for p in particles.momentum]) / total
    square = jnp.sum(particles.momentum.dot(particles.momentum) / particles.mass) / total
    return float(jnp.linalg.norm(drift)), float(jnp.sqrt(square))


def without_drift(particles: Particles) -> Particles:
    """The particles in the frame in which their total momentum is zero."""
    mass = jnp.where(particles.real, particles.mass, 0)
    fraction = mass / jnp.sum(mass)
    return particles.pushed(Vector(*(p - fraction * jnp.sum(p) for p in particles.momentum)))
