"""A minimum of the energy of particles, found by FIRE."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from simkit_solvers.loops.simulate_particles import Enlarge, ParticleRun, simulate_particles
from simkit_solvers.loops.two_level import ParticleDynamics, ParticleState
from simkit_solvers.methods.particles.fire import FIRE
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.motion import REDUCED, MotionUnits
from simkit_solvers.problems.particles import AbstractForces, Particles

BETWEEN_CHECKS = 50


class UnconvergedMinimumError(ArithmeticError):
    """A force is not small enough after the most steps allowed: `force`, in the state of `run`."""

    def __init__(self, run: ParticleRun, steps: int, force: float, tolerance: float):
        self.run, self.force = run, force
        super().__init__(
            f"the largest force is {force:.3g} after {steps} steps of FIRE and should be at most "
            f"{tolerance:.3g}: allow more steps or a larger tolerance; a truncated potential with a jump may "
            "have no minimum"
        )


def minimise_particles(
    forces: AbstractForces,
    particles: Particles,
    dt: Scalar,
    tolerance: float,
    *,
    method: FIRE = FIRE(),  # noqa: B008
    most_steps: int = 10_000,
    units: MotionUnits = REDUCED,
    enlarge: Enlarge | None = None,
) -> ParticleRun:
    """Move particles to a minimum of the energy, at rest, where no force is larger than `tolerance`.

    `dt` is the step length of a simulation; FIRE takes up to ten times that. Raises
    `UnconvergedMinimumError` after `most_steps`, and what `simulate_particles` raises.
    """
    dynamics = ParticleDynamics(forces, method, dt, units=units)
    run = simulate_particles(dynamics, dynamics.start(particles), 0, enlarge=enlarge)
    while not (largest := float(largest_force(run.state))) <= tolerance:
        steps = int(run.state.step)
        if steps >= most_steps:
            raise UnconvergedMinimumError(run, steps, largest, tolerance)
        more = min(BETWEEN_CHECKS, most_steps - steps)
        run = simulate_particles(run.dynamics, run.state, more, enlarge=enlarge, donate=True)
    resting = run.state.particles.pushed(run.state.particles.momentum.times(0.0))
    return run._replace(state=dataclasses.replace(run.state, particles=resting))


def largest_force(state: ParticleState) -> Float[Array, ""]:
    """The largest force on a particle, at a whole step."""
    return jnp.sqrt(jnp.max(state.force.dot(state.force)))
