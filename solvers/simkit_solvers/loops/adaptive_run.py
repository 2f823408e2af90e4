"""Adaptive steps of an ordinary equation: in one run, or from stop to stop of its schedule."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.first_hold import Examined, Hold, earlier, first_holds, none_holds, rows_along
from simkit_solvers.loops.flattened import Flattened, VectorLayout
from simkit_solvers.loops.step_control import same_precision, solved, step_control
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.calendar import Schedule, stops_of
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import as_solved, just_after, within


class AdaptiveRun(NamedTuple):
    """The result of an adaptive run.

    `rows` is what the observer keeps, stacked over the saved times, NaN from the first time that was not
    reached. `accepted` and `rejected` count steps. `reached` is the time at which the run ended, `t1` unless
    it failed.
    """

    rows: dict[str, Any]
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array


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
    """How far a run has come: its state at a stop, whether it is sound, and what has held so far."""

    y: Any
    time: jax.Array
    sound: jax.Array
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array
    holds: tuple[Hold, ...]


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

        begin = _Progress(self.y0, zero, jnp.bool_(True), none, none, zero, holds)
        end, (states, sound) = jax.lax.scan(through, begin, (stops.times, stops.which))
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
        return AdaptiveRun(where_reached(sound[saved], rows), end.accepted, end.rejected, start + end.reached)

    def _through_stop(self, problem, schedule: Schedule, path: _Progress, time, which):
        """The path after a stop, and the state there and whether it is sound."""
        begin, now, layout = self.start + path.time, self.start + time, VectorLayout.of(self.y0)
        seen = within(problem, begin, now)
        stretch = self._solved(seen, path.y, begin, time - path.time)
        accepted = path.accepted + jnp.where(path.sound, stretch.accepted, 0)
        rejected = path.rejected + jnp.where(path.sound, stretch.rejected, 0)
        sound = path.sound & stretch.ended & (accepted + rejected <= self.grid.max_steps)
        last = jnp.where(stretch.ended, time, path.time + stretch.reached)
        y = layout.state(jnp.where(sound, stretch.vectors[0], jnp.nan))
        if schedule.events:
            after = just_after(problem, now, self.start, self.times[-1])
            for i, event in enumerate(schedule.events):
                y = event.applied((which == i) & sound, after, now, y)
        holds = tuple(
            earlier(before, each._replace(time=path.time + each.time))
            for before, each in zip(path.holds, stretch.holds, strict=True)
        )
        reached = jnp.where(path.sound, last, path.reached)
        return _Progress(y, time, sound, accepted, rejected, reached, holds), (y, sound)

    def _solved(self, problem: AbstractODE, y: PyTree, begin, span, times=None) -> _Stretch:
        """diffrax's solution from `y` at `begin` over `span`, saved at times since then or at its end."""
        dtype, layout = self.times.dtype, VectorLayout.of(self.y0)
        conditions = self._conditions(problem, layout, begin)
        where: dict[str, Any] = {"t1": True} if times is None else {"t0": True, "ts": times[1:]}
        states = diffrax.SubSaveAt(**where, fn=same_precision(dtype))
        last = diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: t)
        steps = self.times[:2] if times is None else times
        solution = solved(
            Flattened(as_solved(problem), layout),
            self.solver,
            layout.vector(y),
            self.grid,
            begin,
            span,
            saveat=diffrax.SaveAt(subs=[states, last], solver_state=conditions is not None),
            stepsize_controller=step_control(self.solver, self.grid.tolerances, steps, **self.coefficients),
            adjoint=self.adjoint,
            conditions=conditions,
        )
        if solution.ts is None or solution.ys is None:
            raise RuntimeError("a solution saved at times must have them")
        (saved, _), (vectors, reached), stats = solution.ts, solution.ys, solution.stats
        holds: tuple[Hold, ...] = ()
        if conditions is not None and solution.solver_state is not None:
            examined = Examined(self.solver, conditions)
            holds = first_holds(examined, solution.solver_state[1], span, vectors[-1])
            holds = tuple(each._replace(y=layout.state(each.y)) for each in holds)
        ended = solution.result == diffrax.RESULTS.successful
        accepted, rejected = stats["num_accepted_steps"], stats["num_rejected_steps"]
        return _Stretch(saved, vectors, reached[0], ended, accepted, rejected, holds)

    def _conditions(self, problem: AbstractODE, layout: VectorLayout, begin) -> Callable | None:
        """The observer's conditions as a function of a time since `begin` and a vector, if it has any."""
        observer = self.observer
        if observer.stops is None or not observer.conditions(problem, begin, self.y0):
            return None
        return lambda t, vector: jnp.stack(observer.conditions(problem, begin + t, layout.state(vector)))


def where_reached(there: jax.Array, rows: PyTree) -> PyTree:
    """The rows `there`, a boolean for each, and NaN for the others."""

    def one(x):
        return jnp.where(jnp.reshape(there, (-1, *(1 for _ in x.shape[1:]))), x, jnp.nan)

    return jax.tree.map(one, rows)
