r"""Steps of adaptive length for ordinary equations, by `diffrax.diffeqsolve`.

The solver's clock counts from `t0`, so that a late start takes no digits from the steps. Towards the end of a
long span it is as coarse as the precision: in float32 a clock at $10^7$ cannot tell times less than 1 apart.
"""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid, Tolerances
from simkit_solvers.loops.first_hold import Examined, Hold, earlier, first_holds, none_holds, rows_along
from simkit_solvers.loops.flattened import Flattened, Layout
from simkit_solvers.methods.root_finder import for_adaptive_steps
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.scopes import STEPS_WITHIN
from simkit_solvers.problems.observe import AbstractObserver, with_stops
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE
from simkit_solvers.problems.schedule import (
    Schedule,
    as_solved,
    just_after,
    prepared,
    schedule_of,
    stops_of,
    within,
)
from simkit_solvers.problems.terms import DriftTerm, ordinary_terms

# Their dense output is of the method's order or one less. The others step to each saved time exactly.
INTERPOLATING = (diffrax.Bosh3, diffrax.Tsit5, diffrax.Dopri5, diffrax.Dopri8, diffrax.Kvaerno3)


class AdaptiveRun(NamedTuple):
    """What an adaptive run gives back.

    `rows` is what the observer keeps, stacked over the saved times, NaN from the first time that was not
    reached. `accepted` and `rejected` count steps. `reached` is the time at which the run ended, `t1` unless
    it failed.
    """

    rows: dict[str, Any]
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array


class Advancing(diffrax.AbstractAdaptiveStepSizeController):
    """A step-size controller that gives up where the clock is too coarse for the next step.

    That is where a step would not move it, or one that failed cannot be made shorter.

    Without it a run towards a singularity, or from a state without a slope, stands still until `max_steps`.
    """

    controller: diffrax.AbstractAdaptiveStepSizeController

    @property
    def rtol(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.controller.rtol

    @property
    def atol(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.controller.atol

    @property
    def norm(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.controller.norm

    def wrap(self, direction):
        return Advancing(self.controller.wrap(direction))

    def init(self, *args, **kwargs):
        return self.controller.init(*args, **kwargs)

    def adapt_step_size(self, t0, t1, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        tried = t1
        keep, t0, t1, jump, state, result = self.controller.adapt_step_size(t0, t1, *args)
        stuck = ~(t1 > t0) | ~(keep | (t1 < tried))  # NaN among them
        failed = diffrax.RESULTS.where(stuck, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful)
        result = diffrax.RESULTS.where(result == diffrax.RESULTS.successful, failed, result)
        return keep, t0, t1, jump, state, result


def check_adaptive(solver: diffrax.AbstractSolver, problem: AbstractODE) -> None:
    """Raise `ValueError`, with the reason and the remedy, for what cannot run with adaptive steps."""
    if isinstance(problem, AbstractSDE):
        raise ValueError(
            f"{type(problem).__name__} is stochastic, and these steps are for ordinary equations; "
            "take adaptive_sde.integrate_adaptive_sde"
        )
    if not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        raise ValueError(
            f"solver {type(solver).__name__} has no error estimate to choose steps by; take Tsit5, or "
            "Rodas5P if the problem is stiff"
        )


def integrate_adaptive(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0,
    grid: AdaptiveGrid,
    observer: AbstractObserver,
    **coefficients: Scalar,
) -> AdaptiveRun:
    """One path of `problem` from `y0` over `grid`: what `observer` keeps at each saved time.

    Times take the dtype of `y0`. An observer with `stops` is shown these, the saved times and the first times
    of its conditions (`first_hold`); others have the accumulators of `t0`, since steps have no common times
    to accumulate at. `coefficients` are those of `step_control`. A run that takes more than
    `max_steps`, or whose steps become too short for the clock, ends where it is; nothing is raised.
    Differentiable in both modes, the sequence of steps taken as given, as diffrax does.

    Where a problem is scheduled, steps end at the saved times, at the nodes of its parameters and at its
    events; a row at the time of an event has the state after it. `first_step` is the first one after each.
    Raises `ValueError` for a stochastic problem and for a solver without error estimate.
    """
    check_adaptive(solver, problem)
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    given = jax.tree.map(
        lambda x: jnp.asarray(x, dtype) if isinstance(x, float) or eqx.is_inexact_array(x) else x,
        (problem, y0, grid, observer, coefficients),
    )
    numbers, others = eqx.partition((solver, given), eqx.is_array)

    def with_adjoint(adjoint):
        def run(numbers):
            solver, (problem, y0, grid, observer, coefficients) = eqx.combine(numbers, others)
            return _run(problem, solver, y0, grid, observer, adjoint, coefficients)

        return run

    # A plain loop for values; the loop that both modes of differentiation know only where one is asked for.
    run = jax.custom_jvp(with_adjoint(diffrax.ForwardMode()))

    @run.defjvp
    def _(primals, tangents):
        return jax.jvp(with_adjoint(diffrax.DirectAdjoint()), primals, tangents)

    return run(numbers)


def _run(problem, solver, y0, grid, observer, adjoint, coefficients) -> AdaptiveRun:
    problem = prepared(problem)
    times, saved_times = with_stops(observer, _local_times(grid, y0))
    schedule = schedule_of(problem)
    if schedule is not None and (schedule.events or schedule.nodes):
        return _run_between_stops(
            problem, schedule, solver, y0, grid, (times, saved_times), observer, adjoint, coefficients
        )
    start, layout = jnp.asarray(grid.t0, times.dtype), Layout.of(y0)
    conditions = _conditions(observer, problem, layout, start, y0)
    saveat = diffrax.SaveAt(
        subs=[
            diffrax.SubSaveAt(t0=True, ts=times[1:], fn=_same_precision(times.dtype)),
            diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: t),
        ],
        solver_state=conditions is not None,
    )
    found = _solved(
        Flattened(problem, layout),
        solver,
        layout.vector(y0),
        grid,
        start,
        times[-1],
        saveat=saveat,
        stepsize_controller=step_control(solver, grid.tolerances, times, **coefficients),
        adjoint=adjoint,
        conditions=conditions,
    )
    if found.ts is None or found.ys is None:
        raise RuntimeError("a solution saved at times must have them")
    (saved, _), (vectors, reached), stats = found.ts, found.ys, found.stats
    states = jax.vmap(layout.state)(vectors)
    if observer.stops is None:
        acc = observer.init(problem, start, y0)
        rows = jax.vmap(lambda t, y: observer.row(problem, acc, start + t, y))(times, states)
    else:
        holds = _holds(solver, conditions, found, layout, times[-1], vectors[-1])
        rows = rows_along(observer, lambda t: problem, start, times, states, holds, saved_times)
    rows = where_reached(jnp.isfinite(saved[saved_times]), rows)
    return AdaptiveRun(rows, stats["num_accepted_steps"], stats["num_rejected_steps"], start + reached[0])


def _conditions(observer: AbstractObserver, problem, layout: Layout, start, y0):
    """The observer's conditions as a function of a time since `start` and a vector; None if it has none."""
    if observer.stops is None or not observer.conditions(problem, start, y0):
        return None
    return lambda t, vector: jnp.stack(observer.conditions(problem, start + t, layout.state(vector)))


def _holds(solver, conditions, found: diffrax.Solution, layout: Layout, end, last) -> tuple[Hold, ...]:
    """When the conditions first held in a solution from time 0 to `end`, where it has the vector `last`."""
    if conditions is None or found.solver_state is None:
        return ()
    holds = first_holds(Examined(solver, conditions), found.solver_state[1], end, last)
    return tuple(each._replace(y=layout.state(each.y)) for each in holds)


class _Part(NamedTuple):
    """How far a run has come: its state at a stop, unless it has failed there, and what has held by then."""

    y: Any
    time: jax.Array
    sound: jax.Array
    accepted: jax.Array
    rejected: jax.Array
    reached: jax.Array
    holds: tuple[Hold, ...]


def _run_between_stops(
    problem, schedule: Schedule, solver, y0, grid, saved, observer, adjoint, coefficients
) -> AdaptiveRun:
    times, saved_times = saved
    dtype = times.dtype
    start, span = jnp.asarray(grid.t0, dtype), times[-1]
    stops, layout = stops_of(schedule, start, times), Layout.of(y0)
    saveat = diffrax.SaveAt(
        subs=[
            diffrax.SubSaveAt(t1=True, fn=_same_precision(dtype)),
            diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: t),
        ],
        solver_state=_conditions(observer, problem, layout, start, y0) is not None,
    )

    def part(path: _Part, stop):
        time, which = stop
        seen = within(problem, start + path.time, start + time)
        piece = as_solved(seen)
        conditions = _conditions(observer, seen, layout, start + path.time, y0)
        found = _solved(
            Flattened(piece, layout),
            solver,
            layout.vector(path.y),
            grid,
            start + path.time,
            time - path.time,
            saveat=saveat,
            stepsize_controller=step_control(solver, grid.tolerances, times[:2], **coefficients),
            adjoint=adjoint,
            conditions=conditions,
        )
        if found.ys is None:
            raise RuntimeError("a solution saved at its end must have a state")
        (vectors, reached), stats = found.ys, found.stats
        accepted = path.accepted + jnp.where(path.sound, stats["num_accepted_steps"], 0)
        rejected = path.rejected + jnp.where(path.sound, stats["num_rejected_steps"], 0)
        ended = found.result == diffrax.RESULTS.successful
        sound = path.sound & ended & (accepted + rejected <= grid.max_steps)
        last = jnp.where(ended, time, path.time + reached[0])
        y = layout.state(jnp.where(sound, vectors[0], jnp.nan))
        holds = _holds(solver, conditions, found, layout, time - path.time, vectors[0])
        if schedule.events:
            now, after = start + time, just_after(problem, start + time, start, span)
            for i, event in enumerate(schedule.events):
                y = event.applied((which == i) & sound, after, now, y)
        holds = tuple(
            earlier(before, each._replace(time=path.time + each.time))
            for before, each in zip(path.holds, holds, strict=True)
        )
        reached = jnp.where(path.sound, last, path.reached)
        path = _Part(y, time, sound, accepted, rejected, reached, holds)
        return path, (y, sound)

    none, zero = jnp.int32(0), jnp.zeros((), dtype)
    waiting = () if observer.stops is None else none_holds(observer, problem, start, y0, span)
    begin = _Part(y0, zero, jnp.bool_(True), none, none, zero, waiting)
    end, (states, sound) = jax.lax.scan(part, begin, (stops.times, stops.which))
    if observer.stops is not None:
        there = sound[stops.rows][saved_times]
        rows = rows_along(
            observer,
            lambda t: just_after(problem, start + t, start, span),
            start,
            stops.times,
            states,
            end.holds,
            stops.rows[saved_times],
        )
        return AdaptiveRun(where_reached(there, rows), end.accepted, end.rejected, start + end.reached)
    states, there = jax.tree.map(lambda x: x[stops.rows], (states, sound))
    acc = observer.init(just_after(problem, start, start, span), start, jax.tree.map(lambda x: x[0], states))

    def row(t, y):
        return observer.row(just_after(problem, start + t, start, span), acc, start + t, y)

    rows = where_reached(there, jax.vmap(row)(times, states))
    return AdaptiveRun(rows, end.accepted, end.rejected, start + end.reached)


def where_reached(there, rows):
    """The rows `there`, a boolean for each, and NaN for the others."""

    def one(x):
        return jnp.where(jnp.reshape(there, (-1, *(1 for _ in x.shape[1:]))), x, jnp.nan)

    return jax.tree.map(one, rows)


def solution(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0,
    grid: AdaptiveGrid,
    *,
    saveat: diffrax.SaveAt | None = None,
    event: diffrax.Event | None = None,
    adjoint: diffrax.AbstractAdjoint | None = None,
    **coefficients: Scalar,
) -> diffrax.Solution:
    """diffrax's own `Solution`, for dense output, events and adjoints.

    All times, those of `saveat` and `event` and in the solution, count from `grid.t0`. Saved are the times
    of `grid` unless `saveat` says otherwise; `adjoint` is diffrax's default unless given. Whether it
    succeeded is in its `result`.
    Raises `ValueError` for a stochastic problem, for a solver without error estimate and for a scheduled
    problem with events, which `integrate_adaptive` runs.
    """
    check_adaptive(solver, problem)
    schedule = schedule_of(problem)
    if schedule is not None and schedule.events:
        raise ValueError("a solution is one run of diffrax, without events; take integrate_adaptive")
    times = _local_times(grid, y0)
    dtype = times.dtype
    return _solved(
        problem,
        solver,
        y0,
        grid,
        jnp.asarray(grid.t0, dtype),
        times[-1],
        saveat=diffrax.SaveAt(ts=times, fn=_same_precision(dtype)) if saveat is None else saveat,
        stepsize_controller=step_control(solver, grid.tolerances, times, **coefficients),
        adjoint=diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
        event=event,
    )


@jax.named_scope(STEPS_WITHIN)
def _solved(
    problem, solver, y0, grid: AdaptiveGrid, start, span, conditions=None, **options
) -> diffrax.Solution:
    """diffrax's solution from `start`, over local time (0, span); its steps are examined for conditions."""
    stepping = for_adaptive_steps(solver, grid.tolerances)
    return diffrax.diffeqsolve(
        ordinary_terms(solver, DriftTerm(problem, start)),
        stepping if conditions is None else Examined(stepping, conditions),
        jnp.zeros_like(span),
        span,
        None if grid.first_step is None else jnp.asarray(grid.first_step, span.dtype),
        y0,
        max_steps=grid.max_steps,
        throw=False,
        **options,
    )


def step_control(
    solver: diffrax.AbstractSolver,
    tolerances: Tolerances,
    times: jax.Array,
    pcoeff: Scalar = 0.2,
    icoeff: Scalar = 0.65,
    dcoeff: Scalar = 0.0,
) -> Advancing:
    r"""The controller of a solver's steps: $h_{n+1} = 0.9\,h_n\,e_n^{-(p+i+d)/q}\,e_{n-1}^{(p+2d)/q}\,
    e_{n-2}^{-d/q}$ with $e$ the error over the tolerance and q the order.

    `times` are the saved ones; a solver whose dense output is of lower order steps to each. The coefficients
    are those of Hairer & Wanner's PI controller unless given: fewer rejected steps than by the integral part
    alone, and about as many in all. References: Hairer & Wanner (1996), Solving Ordinary Differential
    Equations II, section IV.2, doi:10.1007/978-3-642-05221-7; Gustafsson (1991), Control theoretic techniques
    for stepsize selection in explicit Runge–Kutta methods, doi:10.1145/210232.210242.
    """
    controller = diffrax.PIDController(
        rtol=tolerances.rtol,
        atol=tolerances.atol,
        pcoeff=pcoeff,
        icoeff=icoeff,
        dcoeff=dcoeff,
    )
    if not isinstance(solver, INTERPOLATING) and len(times) > 2:
        controller = diffrax.ClipStepSizeController(controller, step_ts=times[1:-1])
    return Advancing(controller)


def _same_precision(dtype):
    """A saved state in the precision of the run: the dense output of KenCarp3, 4 and 5 is in float64."""
    return lambda t, y, args: jax.tree.map(lambda x: x.astype(dtype), y)


def _local_times(grid: AdaptiveGrid, y0) -> jax.Array:
    """The saved times since `t0`; the last is the whole span exactly."""
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    return jnp.arange(grid.rows, dtype=dtype) / grid.points * jnp.asarray(grid.span, dtype)
