"""The loop of molecular dynamics with a fixed schedule, for reverse derivatives."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from simkit_solvers.loops.two_level import ParticleDynamics, ParticleState, begin_step, end_step, renew_list
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.particle_observer import AbstractParticleObserver

# Inside a scan nothing needs to be kept from merging with what is computed again.
_recomputed = functools.partial(jax.checkpoint, prevent_cse=False)


class ScheduledRun(NamedTuple):
    """The state after the last step, the observer's accumulators, and whether every list served its steps.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import ParticleDynamics, Particles, ScheduledRun, VelocityVerlet, scheduled_steps
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.01)
    >>> run = scheduled_steps(dynamics, dynamics.start(pair), steps=10, renew_every=5)
    >>> isinstance(run, ScheduledRun), bool(run.valid)
    (True, True)
    """

    state: ParticleState
    accumulator: PyTree
    valid: Bool[Array, ""]


def scheduled_steps(
    dynamics: ParticleDynamics,
    state: ParticleState,
    steps: int,
    renew_every: int,
    observer: AbstractParticleObserver | None = None,
    accumulator: PyTree = (),
) -> ScheduledRun:
    """`steps` steps from a state at a whole step, with the list renewed at every `renew_every`-th of them.

    Forward and reverse derivatives pass through, the latter if they do through the forces. Stored are the
    states at renewals and, for one interval between two of them at a time, those of its steps. The observer
    sees those steps at renewals, and the last, that are due. Nothing can be repeated with another list here:
    see that the result is `valid`, else renew more often. `ValueError` unless `renew_every` divides `steps`.

    >>> from simkit_physics import FreeBox, LennardJones, Plain, forces_for
    >>> from simkit_solvers import ParticleDynamics, Particles, VelocityVerlet, scheduled_steps
    >>> pair = Particles.of([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]])
    >>> potential = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    >>> forces, pair = forces_for(pair, FreeBox(), potential, precision="float32")
    >>> dynamics = ParticleDynamics(forces, VelocityVerlet(), dt=0.01)
    >>> run = scheduled_steps(dynamics, dynamics.start(pair), steps=10, renew_every=5)
    >>> x = run.state.particles.position.x
    >>> bool(run.valid), bool(abs(x[1] - x[0]) < 1.2)  # they attract each other
    (True, True)
    """
    if renew_every < 1 or steps % renew_every:
        raise ValueError(f"renew_every: must divide the number of steps, {steps}, got {renew_every}")
    end = state.step + jnp.uint32(steps)
    yes, no = jnp.asarray(True), jnp.asarray(False)
    state = dataclasses.replace(state, known=no, inside=no)

    @_recomputed
    def step(carry, _):
        state, valid = carry
        valid = valid & state.serves & state.bounded
        force = dynamics.forces.forces(state.particles, state.listed)
        return (begin_step(dynamics, end_step(dynamics, state, force), yes), valid), None

    def with_new_list(carry):
        """The second part of a step and what is observed, at a renewal."""
        state, accumulator, valid = carry
        state = renew_list(dynamics, state)
        force, pairs = dynamics.pair_totals(state.particles, state.listed)
        valid = valid & state.complete & state.bounded
        state = end_step(dynamics, state, force)
        if observer is not None:
            totals = dynamics.totals(state.particles, pairs, state.memory, state.step - jnp.uint32(1))
            seen = observer.update(accumulator, state.particles, totals, state.step)
            accumulator = tree_where(observer.due(state.step), seen, accumulator)
        return state, accumulator, valid

    @_recomputed
    def interval(carry, _):
        state, accumulator, valid = with_new_list(carry)
        state = begin_step(dynamics, state, state.step < end)
        (state, valid), _ = jax.lax.scan(step, (state, valid), None, length=renew_every - 1)
        return (state, accumulator, valid), None

    carry, _ = jax.lax.scan(interval, (state, accumulator, yes), None, length=steps // renew_every)
    return ScheduledRun(*with_new_list(carry))
