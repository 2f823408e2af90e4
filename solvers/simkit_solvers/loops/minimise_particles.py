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
    """A force is not small enough after the most steps allowed: `force`, in the state of `run`.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import Particles, UnconvergedMinimumError, minimise_particles
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.3, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> try:
    ...     minimise_particles(forces, pair, dt=0.01, tolerance=1e-3, most_steps=3)
    ... except UnconvergedMinimumError as error:
    ...     print(int(error.run.state.step))
    3
    """

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

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import Particles, minimise_particles
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.3, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> x = minimise_particles(forces, pair, dt=0.01, tolerance=1e-3).state.particles.position.x
    >>> round(float(abs(x[1] - x[0])), 3)  # 2^(1/6)
    1.122
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
    """The largest force on a particle, at a whole step.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import ParticleDynamics, Particles, VelocityVerlet
    >>> from simkit_solvers import largest_force, simulate_particles
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.01)
    >>> run = simulate_particles(dynamics, dynamics.start(pair), 0)  # forces at the start
    >>> round(float(largest_force(run.state)), 3)
    24.0
    """
    return jnp.sqrt(jnp.max(state.force.dot(state.force)))
