"""Steps of adaptive length for ordinary equations, by `diffrax.diffeqsolve`."""

import functools

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.adaptive_run import AdaptiveRun, Solving
from simkit_solvers.loops.step_control import same_precision, solved, step_control
from simkit_solvers.methods.solver_check import check_adaptive
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import differentiable, in_precision
from simkit_solvers.problems.observe import AbstractObserver, with_stops
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import prepared, schedule_of


def integrate_adaptive(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0: PyTree,
    grid: AdaptiveGrid,
    observer: AbstractObserver,
    **coefficients: Scalar,
) -> AdaptiveRun:
    """One path of `problem` from `y0` over `grid`: what `observer` keeps at each saved time.

    Times take the dtype of `y0`. An observer with `stops` is shown these, the saved times and the first times
    of its conditions (`first_hold`); others have the accumulators of `t0`, since steps have no common times
    to accumulate at. `coefficients` are those of `step_control`. A run that takes more than
    `max_steps`, or whose steps become too short for the clock, ends where it is; nothing is raised.
    Differentiable in both modes, with the sequence of steps held fixed, as in diffrax.

    Where a problem is scheduled, steps end at the saved times, at the nodes of its parameters and at its
    events; a row at the time of an event has the state after it. `first_step` is the first one after each.
    Raises `ValueError` for a stochastic problem and for a solver without error estimate.

    >>> import diffrax
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import AdaptiveGrid, States, Tolerances, integrate_adaptive
    >>> grid = AdaptiveGrid(0.0, 6.2831853, Tolerances(1e-5, 1e-5))
    >>> model = HarmonicOscillator(m=1.0, k=1.0)
    >>> run = integrate_adaptive(model, diffrax.Tsit5(), model.State(q=1.0, p=0.0), grid, States())
    >>> round(float(run.rows["q"][-1]), 3)  # after one period
    1.0
    """
    check_adaptive(solver, problem)
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    given = in_precision((problem, y0, grid, observer, coefficients), dtype)
    forward, both = (functools.partial(_run, each()) for each in (diffrax.ForwardMode, diffrax.DirectAdjoint))
    return differentiable(forward, both, solver, *given)


def _run(adjoint, solver, problem, y0, grid, observer, coefficients) -> AdaptiveRun:
    problem = prepared(problem)
    times, saved = with_stops(observer, grid.elapsed(jnp.result_type(*jax.tree.leaves(y0))))
    start = jnp.asarray(grid.t0, times.dtype)
    solving = Solving(solver, grid, observer, adjoint, coefficients, y0, start, times, saved)
    schedule = schedule_of(problem)
    if schedule is not None and (schedule.events or schedule.nodes):
        return solving.between_stops(problem, schedule)
    return solving.at_once(problem)


def solution(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0: PyTree,
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

    >>> import diffrax
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import AdaptiveGrid, Tolerances, solution
    >>> grid = AdaptiveGrid(0.0, 6.2831853, Tolerances(1e-5, 1e-5))
    >>> model = HarmonicOscillator(m=1.0, k=1.0)
    >>> saveat = diffrax.SaveAt(dense=True)
    >>> result = solution(model, diffrax.Tsit5(), model.State(q=1.0, p=0.0), grid, saveat=saveat)
    >>> round(float(result.evaluate(3.1415927).q), 2)
    -1.0
    """
    check_adaptive(solver, problem)
    schedule = schedule_of(problem)
    if schedule is not None and schedule.events:
        raise ValueError("a solution is one run of diffrax, without events; use integrate_adaptive")
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    times = grid.elapsed(dtype)
    return solved(
        problem,
        solver,
        y0,
        grid,
        jnp.asarray(grid.t0, dtype),
        times[-1],
        saveat=diffrax.SaveAt(ts=times, fn=same_precision(dtype)) if saveat is None else saveat,
        stepsize_controller=step_control(solver, grid.tolerances, times, **coefficients),
        adjoint=diffrax.RecursiveCheckpointAdjoint() if adjoint is None else adjoint,
        event=event,
    )
