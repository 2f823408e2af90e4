"""Adaptive steps of an ordinary equation: in one run, or from stop to stop of its schedule."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.first_hold import (
    Examined,
    Hold,
    earlier,
    earliest,
    first_holds,
    none_holds,
    rows_along,
)
from simkit_solvers.loops.flattened import Flattened, VectorLayout
from simkit_solvers.loops.step_control import same_precision, solved, step_control
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.calendar import Schedule, added
from simkit_solvers.problems.observe import AbstractObserver, happened_rows
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import as_solved, at_stop, just_after, within
from simkit_solvers.problems.stops import stops_of

BEYOND_A_PART = 1.001


class AdaptiveRun(NamedTuple):
    """The result of an adaptive run.

    `rows` is what the observer keeps, stacked over the saved times, NaN from the first time that was not
    reached. `accepted` and `rejected` count steps. `reached` is the time at which the run ended, `t1` unless
    it failed. `happened` says how often each event has happened that has a condition, in their order.
    """

    rows: dict[str, Any]
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array
    happened: tuple[jax.Array, ...] = ()


class _Stretch(NamedTuple):
    """A solution over a stretch of time: its states, and how it ended.

    `saved` are the times of the states since its beginning, infinite where they were not reached.
    """

    saved: jax.Array
    vectors: jax.Array
    reached: jax.Array
    ended: jax.Array
    accepted: jax.Array
    rejected: jax.Array
    holds: tuple[Hold, ...]


class _Progress(NamedTuple):
    """How far a run has come: its state at a stop, whether it is sound, what has held and happened so far."""

    y: Any
    time: jax.Array
    sound: jax.Array
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array
    holds: tuple[Hold, ...]
    happened: tuple[jax.Array, ...]


class Solving(NamedTuple):
    """How an equation is solved from `y0` at `start`.

    `times` since then are those that the observer needs, of which the `saved` ones become rows.
    """

    solver: diffrax.AbstractSolver
    grid: AdaptiveGrid
    observer: AbstractObserver
    adjoint: diffrax.AbstractAdjoint
    coefficients: dict[str, Scalar]
    y0: PyTree
    start: jax.Array
    times: jax.Array
    saved: Any

    def at_once(self, problem: AbstractODE) -> AdaptiveRun:
        """The run of a problem without stops."""
        times, layout = self.times, VectorLayout.of(self.y0)
        stretch = self._solved(problem, self.y0, self.start, times[-1], times)
        states = jax.vmap(layout.state)(stretch.vectors)
        rows = rows_along(
            self.observer, lambda t: problem, self.start, times, states, stretch.holds, self.saved
        )
        rows = where_reached(jnp.isfinite(stretch.saved[self.saved]), rows)
        return AdaptiveRun(rows, stretch.accepted, stretch.rejected, self.start + stretch.reached)

    def between_stops(self, problem: AbstractODE, schedule: Schedule) -> AdaptiveRun:
        """The run of a scheduled problem: one solution after the other, from stop to stop."""
        observer, start, zero = self.observer, self.start, jnp.zeros((), self.times.dtype)
        span, none, stops = self.times[-1], jnp.int32(0), stops_of(schedule, self.start, self.times)
        holds = () if observer.stops is None else none_holds(observer, problem, start, self.y0, span)

        def through(path: _Progress, stop):
            return self._through_stop(problem, schedule, path, *stop)

        counts = schedule.none_happened.counts
        begin = _Progress(self.y0, zero, jnp.bool_(True), none, none, zero, holds, counts)
        passed = jnp.concatenate([jnp.zeros_like(stops.passed[:1]), stops.passed[:-1]])
        end, (states, sound, happened) = jax.lax.scan(through, begin, (stops.times, stops.which, passed))
        saved = stops.rows[self.saved]
        rows = rows_along(
            observer,
            lambda t: just_after(problem, start + t, start, span),
            start,
            stops.times,
            states,
            end.holds,
            saved,
        )
        rows, reached = where_reached(sound[saved], rows), start + end.reached
        rows |= happened_rows(observer, jax.tree.map(lambda n: n[saved], happened), self.times.dtype)
        return AdaptiveRun(rows, end.accepted, end.rejected, reached, end.happened)

    def _through_stop(self, problem, schedule: Schedule, path: _Progress, time, which, passed):
        """The path after a stop; the state there, whether it is sound, and how often each event has happened.

        `passed` says which functions of time have had a node at this time before the stop.
        """
        now = self.start + time
        seen = within(problem, self.start + path.time, now)
        if schedule.triggered:
            path = jax.lax.while_loop(
                lambda path: path.sound & (path.time < time),
                lambda path: self._until_triggered(seen, schedule, path, time),
                path,
            )
        else:
            span = time - path.time
            path, _ = self._further(seen, path, time)
            path = path._replace(y=_moved(path.y, span, problem, now, passed, self.start, self.times[-1]))
        if schedule.events:
            y, after = path.y, just_after(problem, now, self.start, self.times[-1])
            due = [(which == i) & path.sound for i in range(len(schedule.events))]
            y, happened = schedule.after_events(due, schedule.conditions(seen, now, y), after, now, y)
            path = path._replace(y=y, happened=added(path.happened, happened.counts))
        return path._replace(time=time), (path.y, path.sound, path.happened)

    def _until_triggered(self, seen: AbstractODE, schedule: Schedule, path: _Progress, time) -> _Progress:
        """The path after the next event that is triggered, or at a time if none is before."""
        path, triggered = self._further(seen, path, time, schedule)
        now = self.start + path.time
        due = [jnp.bool_(False) for _ in schedule.events]
        for i, happens in zip(schedule.triggered, triggered, strict=True):
            due[i] = happens
        before = schedule.conditions(seen, now, path.y)
        held = [holds & ~happens for holds, happens in zip(before, triggered, strict=True)]
        y, happened = schedule.after_events(due, held, seen, now, path.y)
        shown = self.observer.conditions(seen, now, y) if path.holds else ()
        holds = tuple(
            earlier(before, Hold(holds & happened.any & path.sound, path.time, y))
            for before, holds in zip(path.holds, shown, strict=True)
        )
        return path._replace(y=y, holds=holds, happened=added(path.happened, happened.counts))

    def _further(
        self, seen: AbstractODE, path: _Progress, time, schedule: Schedule | None = None
    ) -> tuple[_Progress, list[jax.Array]]:
        """The path at a time, or where an event of `schedule` is triggered before; and which are there."""
        layout, count = VectorLayout.of(self.y0), len(path.holds)
        span = time - path.time
        stretch = self._solved(seen, path.y, self.start + path.time, span, schedule=schedule)
        holds, triggers = stretch.holds[:count], stretch.holds[count:]
        end, y, ended = span, layout.state(stretch.vectors[0]), stretch.ended
        if triggers:
            first = earliest(triggers)
            end, ended = first.time, ended | first.held
            y = tree_where(first.held, first.y, y)
            holds = tuple(each._replace(held=each.held & (each.time <= end)) for each in holds)
        accepted = path.accepted + jnp.where(path.sound, stretch.accepted, 0)
        rejected = path.rejected + jnp.where(path.sound, stretch.rejected, 0)
        sound = path.sound & ended & (accepted + rejected <= self.grid.max_steps)
        at_end = jnp.where(end < span, path.time + end, time)
        last = jnp.where(ended, at_end, path.time + stretch.reached)
        y = jax.tree.map(lambda x: jnp.where(sound, x, jnp.nan), y)
        holds = tuple(
            earlier(before, each._replace(time=path.time + each.time))
            for before, each in zip(path.holds, holds, strict=True)
        )
        reached = jnp.where(path.sound, last, path.reached)
        there = [each.held & (each.time <= end) & sound for each in triggers]
        return _Progress(y, at_end, sound, accepted, rejected, reached, holds, path.happened), there

    def _solved(
        self, problem: AbstractODE, y: PyTree, begin, span, times=None, schedule: Schedule | None = None
    ) -> _Stretch:
        """diffrax's solution from `y` at `begin` over `span`, saved at times since then or at its end.

        It ends where an event of `schedule` is triggered; the conditions of these come after the observer's.
        """
        dtype, layout = self.times.dtype, VectorLayout.of(self.y0)
        conditions = self._conditions(problem, layout, begin, schedule)
        triggers = 0 if schedule is None else len(schedule.triggered)
        where: dict[str, Any] = {"t1": True} if times is None else {"t0": True, "ts": times[1:]}
        states = diffrax.SubSaveAt(**where, fn=same_precision(dtype))
        last = diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: t)
        steps = self.times[:2] if times is None else times
        interval = span / (1 if times is None else self.grid.points)
        control = functools.partial(step_control, self.solver, self.grid.tolerances, **self.coefficients)
        solution = solved(
            Flattened(as_solved(problem), layout),
            self.solver,
            layout.vector(y),
            self.grid,
            begin,
            span,
            saveat=diffrax.SaveAt(subs=[states, last], solver_state=conditions is not None),
            stepsize_controller=control(steps, self._longest(interval)),
            adjoint=self.adjoint,
            conditions=conditions,
            triggers=triggers,
        )
        if solution.ts is None or solution.ys is None:
            raise RuntimeError("a solution saved at times must have them")
        (saved, _), (vectors, reached), stats = solution.ts, solution.ys, solution.stats
        holds: tuple[Hold, ...] = ()
        if conditions is not None and solution.solver_state is not None:
            examined = Examined(self.solver, conditions, triggers)
            holds = first_holds(examined, solution.solver_state[1], span, vectors[-1])
            holds = tuple(each._replace(y=layout.state(each.y)) for each in holds)
        ended = solution.result == diffrax.RESULTS.successful
        accepted, rejected = stats["num_accepted_steps"], stats["num_rejected_steps"]
        return _Stretch(saved, vectors, reached[0], ended, accepted, rejected, holds)

    def _longest(self, interval) -> jax.Array:
        """The longest step between two stops: a little more than a part, so that no rest is left."""
        parts = jnp.asarray(self.grid.parts, interval.dtype)
        return jnp.where(parts > 1, BEYOND_A_PART * interval / parts, jnp.inf)

    def _conditions(
        self, problem: AbstractODE, layout: VectorLayout, begin, schedule: Schedule | None
    ) -> Callable | None:
        """The observer's conditions, and a schedule's, as a function of a time since `begin` and a vector."""

        def every(t, y) -> tuple:
            observed = () if self.observer.stops is None else self.observer.conditions(problem, t, y)
            return *observed, *(() if schedule is None else schedule.conditions(problem, t, y))

        if not every(begin, self.y0):
            return None
        return lambda t, vector: jnp.stack(every(begin + t, layout.state(vector)))


@eqx.filter_custom_jvp
def _moved(y, span, problem, now, passed, start, whole):
    """The state after `span`, zero where two stops are at one time: its derivative has the slope there.

    A solution over no time takes no step, so that it does not see that one of the stops moves.
    """
    return y


@_moved.def_jvp
def _moved_jvp(primals, tangents):
    y, span, problem, now, passed, start, whole = primals
    by_y, by_span, *_ = tangents
    if by_span is None:
        return y, by_y
    slope = at_stop(problem, now, passed, start, whole).drift(now, y)

    def tangent(x, dx, f):
        moves = jnp.where((span == 0) & jnp.isfinite(f), f, 0.0) * by_span
        return moves if dx is None else dx + moves

    return y, jax.tree.map(tangent, y, by_y, slope, is_leaf=lambda x: x is None)


def where_reached(there: jax.Array, rows: PyTree) -> PyTree:
    """The rows `there`, a boolean for each, and NaN for the others."""

    def one(x):
        return jnp.where(jnp.reshape(there, (-1, *(1 for _ in x.shape[1:]))), x, jnp.nan)

    return jax.tree.map(one, rows)
