"""Runs of particles from Python: lists that overflow are enlarged, and a step that blows up is reported."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit_solvers.loops.two_level import ParticleDynamics, ParticleState, run_chunk
from simkit_solvers.numerics.platforms import copied_to, shared_among
from simkit_solvers.problems.motion import inverse_mass, velocity
from simkit_solvers.problems.particle_observer import AbstractParticleObserver
from simkit_solvers.problems.particles import AbstractForces, Particles

Enlarge = Callable[[AbstractForces, Particles, Any], tuple[AbstractForces, Particles]]
Setting = tuple[ParticleDynamics, AbstractParticleObserver | None, jax.Array]  # with the number of steps
Chunk = Callable[[Setting, ParticleState, PyTree], tuple[ParticleState, PyTree]]
MOST_ENLARGEMENTS = (
    20  # of one call: each makes some capacity larger, so that even ten times too small is served
)


class ParticleRun(NamedTuple):
    """How far a run has come, what its observer has, and its dynamics with lists as large as it needed.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import ParticleDynamics, Particles, VelocityVerlet, simulate_particles
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.01)
    >>> run = simulate_particles(dynamics, dynamics.start(pair), 10)
    >>> again = simulate_particles(run.dynamics, run.state, 10)
    >>> int(again.state.step)
    20
    """

    state: ParticleState
    accumulator: PyTree
    dynamics: ParticleDynamics


class UnstableStepError(ArithmeticError):
    """A particle has moved further in one step than is allowed, or its place is no number.

    `particle` is its number, `step` that of the step, `move` about how far it moves in it, and
    `kinetic_energy` what it has after it; `what` says so, without step and particle, and `remedy` what to do.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import ParticleDynamics, Particles, VelocityVerlet
    >>> from simkit_solvers import UnstableStepError, simulate_particles
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])  # far too near each other
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.01, largest_move=0.1)
    >>> try:
    ...     simulate_particles(dynamics, dynamics.start(pair), 10)
    ... except UnstableStepError as error:
    ...     print(error.particle, error.step)
    0 1
    """

    remedy = (
        "particles that overlap have to be minimised first (FIRE), otherwise take a smaller time step, or "
        "check the units"
    )

    def __init__(self, particle: int, step: int, move: float, kinetic_energy: float, limit: float):
        self.particle, self.step, self.move, self.kinetic_energy = particle, step, move, kinetic_energy
        allowed = f" (at most {limit:.3g} is allowed)" if np.isfinite(limit) else ""
        self.what = f"moves by {move:.3g}{allowed} and then has a kinetic energy of {kinetic_energy:.3g}"
        if not np.isfinite(move):
            self.what = "is nowhere: its position is not finite"
        super().__init__(
            f"step {step} blew up: particle {particle} (counted from 0) {self.what}; {self.remedy}"
        )


class ListOverflowError(RuntimeError):
    """A list of neighbours has no place for all that it must hold, and could not be enlarged.

    >>> from simkit_solvers import ListOverflowError
    >>> issubclass(ListOverflowError, RuntimeError)
    True
    """


def simulate_particles(
    dynamics: ParticleDynamics,
    state: ParticleState,
    steps: int,
    observer: AbstractParticleObserver | None = None,
    accumulator: PyTree = None,
    *,
    enlarge: Enlarge | None = None,
    donate: bool = False,
    devices: Sequence[Any] = (),
    chunk: Chunk | None = None,
) -> ParticleRun:
    """Take `steps` steps from a state; with 0 steps, compute the forces and let the observer see the start.

    The accumulators go on from those given, which are those of the run before. Where a list overflows,
    `enlarge(forces, particles, list)` gives forces whose lists are larger, and the particles in as many
    places as these need; the run then goes on from where it was, with the dynamics that are returned. With
    `donate` the arrays of state and accumulator are used up. Several processors in `devices` share the work
    of each step, with the same results. One program serves all calls with the same kinds of arguments,
    whatever their numbers; `chunk` runs `chunk_of_steps` in a program of your own.
    Raises `ListOverflowError` where a list cannot be enlarged, and `UnstableStepError`.

    >>> from simkit_physics import LennardJones, ShiftedForce, forces_for, lattice, with_velocities
    >>> from simkit_solvers import ParticleDynamics, TotalsSeries, VelocityVerlet
    >>> from simkit_solvers import seed_key, simulate_particles
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> particles = with_velocities(particles, temperature=0.7, key=seed_key(1))
    >>> potential = ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.002)
    >>> observer = TotalsSeries(every=10, rows=5)
    >>> run = simulate_particles(dynamics, dynamics.start(particles), 50, observer)
    >>> int(run.state.step)
    50
    >>> totals = run.accumulator.totals
    >>> bool(abs(totals.conserved - totals.conserved[0]).max() < 0.01)
    True
    """
    if accumulator is None:
        accumulator = () if observer is None else observer.init(state.particles)
        if donate:
            accumulator = jax.tree.map(jnp.copy, accumulator)  # arrays of its own each
    dynamics = _with_arrays(dynamics)
    end = int(state.step) + steps
    shared = _shared_among(tuple(devices)) if devices else None
    run = chunk or shared or (_donating if donate else _keeping)
    for _ in range(MOST_ENLARGEMENTS):
        left = jnp.asarray(np.uint32(end - int(state.step)))
        state, accumulator = run((dynamics, observer, left), state, accumulator)
        if not bool(state.bounded):
            raise _unstable(dynamics, state)
        if bool(state.complete):
            return ParticleRun(state, accumulator, dynamics)
        if enlarge is None:
            raise ListOverflowError(
                f"the list of neighbours overflowed at step {int(state.step)}: give larger capacities, or "
                "`enlarge` to have it done"
            )
        forces, particles = enlarge(dynamics.forces, state.particles, state.listed)
        dynamics = dynamics.with_forces(forces)
        state = state.with_forces(forces, particles)
    raise ListOverflowError(
        f"the list of neighbours still overflows at step {int(state.step)}, after it was enlarged "
        f"{MOST_ENLARGEMENTS} times: is the density right there?"
    )


def chunk_of_steps(
    setting: Setting, state: ParticleState, accumulator: PyTree
) -> tuple[ParticleState, PyTree]:
    """`run_chunk`, whose dynamics, observer and number of steps are one argument: all that is not used up."""
    dynamics, observer, steps = setting
    return run_chunk(dynamics, state, steps, observer, accumulator)


def chunk_of_systems(
    setting: Setting, state: ParticleState, accumulator: PyTree
) -> tuple[ParticleState, PyTree]:
    """`chunk_of_steps` of several systems, which step together until one of them stops early.

    State, accumulator and noise have an axis of systems in front; all else is the same for all.
    """
    dynamics, observer, steps = setting

    def of_one(noise, state, accumulator):
        own = dataclasses.replace(dynamics, noise=noise)
        return run_chunk(own, state, steps, observer, accumulator, systems="systems")

    return jax.vmap(of_one, axis_name="systems")(dynamics.noise, state, accumulator)


_keeping = eqx.filter_jit(chunk_of_steps)
_donating = eqx.filter_jit(chunk_of_steps, donate="all-except-first")


@functools.cache
def _shared_among(devices: tuple[Any, ...]) -> Chunk:
    """`chunk_of_steps` on several devices."""

    @eqx.filter_jit
    def shared(arguments):
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        return shared_among(devices, lambda arrays: chunk_of_steps(*eqx.combine(arrays, rest)))(arrays)

    def run(*arguments):
        arrays, rest = eqx.partition(arguments, eqx.is_array)
        arrays = jax.device_put(arrays, copied_to(devices))
        return jax.tree.map(lambda whole: whole.addressable_data(0), shared(eqx.combine(arrays, rest)))

    return run


def _with_arrays(dynamics: ParticleDynamics) -> ParticleDynamics:
    """The dynamics with arrays in place of Python's numbers, each of which would need its own program."""
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, float) else x, dynamics)


def _unstable(dynamics: ParticleDynamics, state: ParticleState) -> UnstableStepError:
    """Which particle went too far: one whose place is no number, else the fastest."""
    particles = state.particles
    fastest = jnp.sqrt(velocity(particles).dot(velocity(particles))) * dynamics.dt
    lost = particles.real & ~jnp.isfinite(sum(particles.position) + sum(particles.momentum))
    worst = int(jnp.argmax(jnp.where(lost, jnp.inf, fastest)))
    p = jax.tree.map(lambda c: c[worst], particles.momentum)
    energy = 0.5 * dynamics.units.kinetic * p.dot(p) * inverse_mass(particles)[worst]
    number = int(particles.identity[worst])
    limit = float(dynamics.largest_move)
    return UnstableStepError(number, int(state.step), float(fastest[worst]), float(energy), limit)
