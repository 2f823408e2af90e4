"""Where a path of the jump process stops: what scheduled rates and events do to it there."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.loops.jump_events import as_counts
from simkit_solvers.loops.jump_path import JumpPath
from simkit_solvers.loops.jump_scores import event_moves, pushed
from simkit_solvers.loops.jump_watch import Watched, first_seen, in_real_numbers, shown
from simkit_solvers.methods.jump.jump_method import (
    BAD_EVENT,
    MOVED_EVENT,
    WAITING,
    AbstractJumpMethod,
    Jumps,
)
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.calendar import added
from simkit_solvers.problems.schedule import as_solved, between, just_after, schedule_of
from simkit_solvers.problems.stops import ROW


def over(jumps: Jumps, begin: jax.Array, end: jax.Array) -> Jumps:
    """The process with its rates between two times since `t0`, with no node between them."""

    def piece(network):
        return as_solved(between(network, jumps.t0 + begin, jumps.t0 + end))

    directions = pushed(piece, jumps.network, jumps.directions)
    seen = between(jumps.network, jumps.t0 + begin, jumps.t0 + end)
    return jumps._replace(network=piece(jumps.network), directions=directions, seen=seen, end=end)


def after_stop(
    jumps: Jumps,
    method: AbstractJumpMethod,
    during: Jumps,
    path: JumpPath,
    y: PyTree,
    scores: tuple[jax.Array, ...],
    time: jax.Array,
    which: jax.Array,
) -> tuple[JumpPath, PyTree]:
    """The path after a stop, which it reaches with the counts `y`, and the counts after the stop.

    `during` has the rates before it.
    """
    real = in_real_numbers(y, time.dtype)
    counts, sound, happened = after_event(jumps, during, time, which, y)
    going = path.status <= WAITING
    interrupted = going & (which != ROW)
    schedule = schedule_of(jumps.network)
    happens = interrupted if schedule is not None and schedule.triggered else going & (which >= 0)
    state = method.interrupted(during, path.y, path.state, time - path.elapsed)
    counts = tree_where(happens & sound, counts, y)
    status = jnp.where(happens & ~sound, jnp.int32(BAD_EVENT), path.status)
    moved = event_moves(_state_after(jumps, during, time, which), jumps.network, jumps.directions, real)
    watched = path.watched
    if isinstance(watched, Watched):
        acc = _seen(jumps, during, watched, time, y, counts)
        watched = Watched(tree_where(interrupted, acc, watched.acc), time)
    path = path._replace(
        y=tree_where(interrupted, counts, path.y),
        elapsed=jnp.where(interrupted, time, path.elapsed),
        lost=tuple(jnp.where(interrupted, 0.0, lost) for lost in path.lost),
        state=tree_where(interrupted, state, path.state),
        status=jnp.where(happens & moved, jnp.int32(MOVED_EVENT), status) if jumps.directions else status,
        interruptions=tuple(n + interrupted.astype(jnp.int32) for n in path.interruptions),
        scores=tree_where(interrupted, scores, path.scores),
        watched=watched,
        happened=added(path.happened, tuple(jnp.where(happens, n, 0) for n in happened)),
    )
    return path, tree_where(interrupted, counts, y)


def _seen(jumps: Jumps, during: Jumps, watched: Watched, time, y, counts) -> Any:
    """What an observer has accumulated once a stop has changed the counts."""
    after = just_after(jumps.network, jumps.t0 + time, jumps.t0, jumps.span)
    changed = shown(during, watched, time, y, counts, after).acc
    return tree_where(time > 0, changed, first_seen(jumps, time, counts))


def after_event(
    jumps: Jumps, during: Jumps, time: jax.Array, which: jax.Array, y: PyTree
) -> tuple[PyTree, jax.Array, tuple[jax.Array, ...]]:
    """The counts as event number `which` leaves those at a time since `t0`, and whether they are sound.

    Where they are not they are 0. A negative number is that of no event. `during` has the rates before it.
    The third is how often each event has happened that has a condition.
    """
    real, happened = _event(jumps, during, time, which, jumps.network, in_real_numbers(y, time.dtype))
    return *as_counts(real), happened


def _state_after(jumps: Jumps, during: Jumps, time, which) -> Callable:
    """The effect of event number `which`, as a function of a network and its state in real numbers."""
    return lambda network, real: _event(jumps, during, time, which, network, real)[0]


def _event(jumps: Jumps, during: Jumps, time, which, network, real) -> tuple[PyTree, tuple[jax.Array, ...]]:
    """The state in real numbers after event number `which`, and how often each has happened."""
    schedule, t = schedule_of(network), jumps.t0 + time
    if schedule is None:
        return real, ()
    problem = just_after(network, t, jumps.t0, jumps.span)
    due = [which == i for i in range(len(schedule.events))]
    held = schedule.conditions(during.seen, t, real)
    new, happened = schedule.after_events(due, held, problem, t, real)
    return new, happened.counts
