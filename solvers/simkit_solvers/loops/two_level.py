"""The loop of molecular dynamics: lists are renewed outside, steps are taken inside.

Each step needs the forces once, at its new positions, and only there a list of neighbours is read. So the
loop cuts steps at that point: an iteration of the inner loop computes the forces, takes the second part of
the step that led here and the first part of the next one, and ends the inner loop if the list does not serve
the new positions. Nothing is ever computed with a list that does not serve, nor with one that is not
complete:

    while steps are left:
        first part of a step, if none has begun
        while the list does not serve: sort the particles and renew it
        while it serves and nothing is to be observed: forces, second part, first part of the next step
        while it serves and this step is observed: forces and totals, second part, observer

All of them are `while` loops, the second and the fourth of at most one iteration: a `cond` would copy the
state at every step.

**Protocol.** `ParticleDynamics` holds what does not change: forces, method, step length, units, noise. Its
`start(particles)` makes a `ParticleState`, which is all there is to store of a run. `run_chunk(dynamics,
state, steps, observer, accumulator)` is a pure function that returns state and accumulator after `steps`
steps, a number that may be traced: one program serves chunks of any length. The observer sees the first
state too, and each due step once, however a run is cut into chunks. A chunk stops early

- where a list is not complete: `state.complete` is false, no forces were computed with it and nothing is
  lost. Put in larger forces by `dynamics.with_forces` and `state.with_forces`, and go on for the rest;
- where a particle has moved further than `largest_move` in one step, or nowhere finite: `state.bounded` is
  false.

`simulate_particles` does both on the host.

Several systems take a chunk together under `vmap`, whose `axis_name` is then given as `systems`. They take
the same steps and all stop where one of them does: with conditions of their own, each loop would choose
between old and new state, copying both.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from simkit_solvers.grids.grid import NO_STEP
from simkit_solvers.methods.particles.particle_method import AbstractParticleMethod, ParticleStep
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.motion import REDUCED, MotionUnits, ParticleTotals, kinetic_tensor
from simkit_solvers.problems.particle_observer import AbstractParticleObserver
from simkit_solvers.problems.particles import AbstractForces, PairTotals, Particles, Vector
from simkit_solvers.random.particle_noise import ParticleNoise


class Renewals(NamedTuple):
    """How often the list was renewed, at which step last, and the fewest steps between two times."""

    count: Int[Array, ""]
    last: Int[Array, ""]
    fewest: Int[Array, ""]


class ParticleState(eqx.Module):
    """A run at step number `step`, which is also its clock; all of it is arrays.

    `force` is that at the positions where `known`, else that of the step before or 0. The momenta are
    `inside` a step where its second part is still to come: only where a chunk stopped early. `listed` is the
    list of neighbours, which `serves` these positions or is not read. `complete` and `bounded` say whether
    the last chunk came to its end.

    >>> from simkit_physics import LennardJones, ShiftedForce, forces_for, lattice
    >>> from simkit_solvers import ParticleDynamics, ParticleState, VelocityVerlet
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> potential = ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> state = ParticleDynamics(forces, VelocityVerlet(), dt=0.002).start(particles, step=100)
    >>> isinstance(state, ParticleState), int(state.step)
    (True, 100)
    """

    particles: Particles
    force: Vector
    memory: PyTree
    listed: Any
    step: Int[Array, ""]
    known: Bool[Array, ""]
    inside: Bool[Array, ""]
    serves: Bool[Array, ""]
    complete: Bool[Array, ""]
    bounded: Bool[Array, ""]
    renewals: Renewals

    def with_forces(self, forces: AbstractForces, particles: Particles | None = None) -> "ParticleState":
        """This state with forces whose lists may be larger, and particles in as many places as they need."""
        particles = self.particles if particles is None else particles
        # Where a list has overflowed, the particles are in another order than their forces.
        force = Vector(*(jnp.where(self.known, c, 0) for c in self.force))
        if particles.places != self.particles.places:
            force = particles.position.times(0.0)
        return dataclasses.replace(
            self,
            particles=particles,
            force=force,
            listed=forces.unlisted(particles),
            known=self.known & (particles is self.particles),
            serves=jnp.asarray(False),
            complete=jnp.asarray(True),
        )


class ParticleDynamics(eqx.Module):
    r"""What a run of particles does at every step: its forces, its method, and the step length `dt`.

    Step k begins at the time `t0` + k `dt`. `largest_move` is the furthest that a particle may go in one
    step, a length. A method that draws random numbers needs `noise`.

    Where totals are observed, `changes(forces, particles, list)` gives their derivatives along changes of the
    parameters, such as `ParameterChanges` of `simkit_physics` has.

    >>> from simkit_physics import LennardJones, ShiftedForce, forces_for, lattice, with_velocities
    >>> from simkit_solvers import ParticleDynamics, VelocityVerlet, seed_key
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> particles = with_velocities(particles, temperature=0.7, key=seed_key(1))
    >>> potential = ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.002)
    >>> int(dynamics.start(particles).step)
    0
    """

    forces: AbstractForces
    method: AbstractParticleMethod
    dt: Scalar
    noise: ParticleNoise | None = None
    units: MotionUnits = REDUCED
    t0: Scalar = 0.0
    largest_move: Scalar = jnp.inf
    changes: Callable[[Any, Particles, Any], PairTotals] | None = None

    def start(self, particles: Particles, step: int = 0) -> ParticleState:
        """The state of a run that begins with these particles, at a given number of its clock."""
        # Arrays of its own each: they may be donated.
        no, yes = (lambda: jnp.array(False)), (lambda: jnp.array(True))
        return ParticleState(
            particles=jax.tree.map(jnp.copy, particles),
            force=particles.position.times(0.0),
            memory=jax.tree.map(jnp.copy, self.method.init(particles, self.units)),
            listed=self.forces.unlisted(particles),
            step=jnp.uint32(step),
            known=no(),
            inside=no(),
            serves=no(),
            complete=yes(),
            bounded=yes(),
            renewals=Renewals(jnp.uint32(0), jnp.uint32(step), jnp.uint32(NO_STEP)),
        )

    def with_forces(self, forces: AbstractForces) -> "ParticleDynamics":
        """This dynamics with other forces."""
        return dataclasses.replace(self, forces=forces)

    def at(self, number: jax.Array, particles: Particles) -> ParticleStep:
        """Step `number`, in the precision of the positions."""
        dtype = particles.position.x.dtype
        dt = jnp.asarray(self.dt, dtype)
        t = jnp.asarray(self.t0, dtype) + number.astype(dtype) * dt
        units = MotionUnits(*(jnp.asarray(unit, dtype) for unit in self.units))
        return ParticleStep(number, t, dt, units, self.noise)

    def pair_totals(self, particles: Particles, listed: Any) -> tuple[Vector, PairTotals]:
        """The forces and their totals, with what `changes` gives."""
        force, pairs = self.forces.totals(particles, listed)
        if self.changes is None:
            return force, pairs
        return force, pairs._replace(changes=self.changes(self.forces, particles, listed))

    def totals(
        self, particles: Particles, pairs: PairTotals, memory: PyTree, number: jax.Array
    ) -> ParticleTotals:
        """The totals at the end of step `number`."""
        step = self.at(number, particles)
        kinetic = kinetic_tensor(particles, step.units)
        given = self.method.given_energy(particles, memory, step)
        conserved = pairs.energy + 0.5 * kinetic.trace + given
        return ParticleTotals(pairs.energy, pairs.virial, kinetic, conserved, pairs.changes)


def run_chunk(
    dynamics: ParticleDynamics,
    state: ParticleState,
    steps: UInt32[Array, ""] | int,
    observer: AbstractParticleObserver | None = None,
    accumulator: PyTree = (),
    systems: str | None = None,
) -> tuple[ParticleState, PyTree]:
    """The state `steps` steps later and the observer's accumulators; with 0 steps, the forces at the start.

    A state that has stopped early goes on where it was. Forward derivatives pass through; for reverse ones
    there is `scheduled_steps`.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import ParticleDynamics, Particles, VelocityVerlet, run_chunk
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.01)
    >>> state, accumulator = run_chunk(dynamics, dynamics.start(pair), 10)
    >>> int(state.step)
    10
    """
    end = state.step + jnp.asarray(steps, jnp.uint32)
    loop = _ChunkLoop(dynamics, observer, end, systems)
    return jax.lax.while_loop(lambda carry: loop.goes_on(carry[0]), loop.iteration, (state, accumulator))


class _ChunkLoop(NamedTuple):
    """The loops of a chunk that ends at the step `end`."""

    dynamics: ParticleDynamics
    observer: AbstractParticleObserver | None
    end: UInt32[Array, ""]
    systems: str | None

    def of_all(self, value: jax.Array) -> jax.Array:
        """A condition that holds in all systems that step together, or the number of their step."""
        if self.systems is None:
            return value
        return jax.lax.pmin(value.astype(jnp.uint32), self.systems).astype(value.dtype)

    def goes_on(self, state: ParticleState) -> Bool[Array, ""]:
        unfinished = ~state.known | (state.step < self.end)
        return self.of_all(unfinished & state.complete & state.bounded)

    def may_step(self, state: ParticleState, observed: bool) -> Bool[Array, ""]:
        """Whether forces are to be computed with the list there is, for a step that is observed or not."""
        due = jnp.asarray(False) if self.observer is None else self.observer.due(state.step)
        may = self.of_all(~state.known & state.serves & (due if observed else ~due))
        return self.goes_on(state) & may

    def iteration(self, carry: tuple[ParticleState, PyTree]) -> tuple[ParticleState, PyTree]:
        """A list that serves, and steps for as long as it does, the last of them with the observer."""
        state, accumulator = carry
        state = begin_step(self.dynamics, state, state.known & (state.step < self.end))
        state = jax.lax.while_loop(
            lambda s: self.of_all(~s.serves & s.complete & s.bounded),
            lambda s: renew_list(self.dynamics, s),
            state,
        )
        listed, state = state.listed, dataclasses.replace(state, listed=None)
        state = jax.lax.while_loop(
            lambda s: self.may_step(s, observed=False), lambda s: self.step(s, listed), state
        )
        if self.observer is not None:
            state, accumulator = jax.lax.while_loop(
                lambda c: self.may_step(c[0], observed=True),
                lambda c: self.observed_step(*c, listed),
                (state, accumulator),
            )
        return dataclasses.replace(state, listed=listed), accumulator

    def step(self, state: ParticleState, listed: Any) -> ParticleState:
        """The end of one step, and the beginning of the next one if there is one."""
        force = self.dynamics.forces.forces(state.particles, listed)
        return begin_step(self.dynamics, end_step(self.dynamics, state, force), state.step < self.end, listed)

    def observed_step(
        self, state: ParticleState, accumulator: PyTree, listed: Any
    ) -> tuple[ParticleState, PyTree]:
        """The end of one step, and what the observer makes of it."""
        assert self.observer is not None
        force, pairs = self.dynamics.pair_totals(state.particles, listed)
        state = end_step(self.dynamics, state, force)
        number = state.step - jnp.uint32(1)
        totals = self.dynamics.totals(state.particles, pairs, state.memory, number)
        return state, self.observer.update(accumulator, state.particles, totals, self.of_all(state.step))


def renew_list(dynamics: ParticleDynamics, state: ParticleState) -> ParticleState:
    """The particles in the order of a new list, and that list."""
    forces, step = dynamics.forces, dynamics.at(state.step, state.particles)
    course = dynamics.method.course(state.particles, state.force, step)
    particles, listed = forces.arranged(state.particles, course)
    count, last, fewest = state.renewals
    later = (count > 0) & (state.step != last)  # not a list that overflowed and is made again
    since = jnp.where(later, state.step - last, jnp.uint32(NO_STEP))
    return dataclasses.replace(
        state,
        particles=particles,
        listed=listed,
        serves=jnp.asarray(True),
        complete=forces.complete(listed),
        renewals=Renewals(count + jnp.uint32(1), state.step, jnp.minimum(fewest, since)),
    )


def end_step(dynamics: ParticleDynamics, state: ParticleState, force: Vector) -> ParticleState:
    """After the second part of the step that led to these positions, if there was one."""
    before = state.particles, state.memory
    step = dynamics.at(state.step - jnp.uint32(1), state.particles)
    after = dynamics.method.second(state.particles, force, state.memory, step)
    particles, memory = tree_where(state.inside, after, before)
    yes, no = jnp.asarray(True), jnp.asarray(False)
    return dataclasses.replace(state, particles=particles, memory=memory, force=force, known=yes, inside=no)


def begin_step(
    dynamics: ParticleDynamics, state: ParticleState, begins: Bool[Array, ""], listed: Any = None
) -> ParticleState:
    """After the first part of the next step, where one `begins`."""
    listed = state.listed if listed is None else listed
    before = state.particles, state.memory
    step = dynamics.at(state.step, state.particles)
    after = dynamics.method.first(state.particles, state.force, state.memory, step)
    particles, memory = tree_where(begins, after, before)
    move = particles.position.plus(-1, state.particles.position)
    largest = jnp.asarray(dynamics.largest_move, step.dt.dtype)
    furthest = jnp.max(jnp.where(particles.real, move.dot(move), 0))
    return dataclasses.replace(
        state,
        particles=particles,
        memory=memory,
        step=state.step + begins.astype(jnp.uint32),
        known=state.known & ~begins,
        inside=state.inside | begins,
        serves=state.serves & dynamics.forces.serves(listed, particles.position),
        bounded=(furthest <= largest * largest) & jnp.isfinite(furthest),
    )
