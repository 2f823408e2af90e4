r"""Steps of adaptive length for stochastic equations, on the binary trees of a Brownian path.

Each saved interval is cut into equal coarse ones, and each of these is the root of a tree. A trial compares
one step over an interval with two over its halves; where they differ by more than the tolerance the interval
is halved and its halves are tried, the left one first, else the two steps are accepted. So the accepted steps
consist of the very increments that the trials used. A controller that may step to any time leaves some of
them out, and that changes the distribution of the path.

Reference: Gaines & Lyons (1997), Variable step size control in the numerical solution of stochastic
differential equations, doi:10.1137/S0036139995286515; Foster & Jelinčič (2024), On the convergence of
adaptive approximations for stochastic differential equations, doi:10.48550/arXiv.2311.14201.
"""

import functools
from typing import Any, NamedTuple

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.adaptive_run import AdaptiveRun, where_reached
from simkit_solvers.loops.compensated import AbstractCompensatedStep, compensated
from simkit_solvers.loops.first_hold import rows_along
from simkit_solvers.loops.step import stepper_for
from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.loops.tree_intervals import TreeInterval
from simkit_solvers.methods.solver_check import check_adaptive_sde
from simkit_solvers.methods.switched import Solver
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.numerics.tangents import differentiable, in_precision
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.problems.schedule import as_solved, just_after, prepared, schedule_of, within
from simkit_solvers.random.brownian_tree import FEWEST_LEVELS, BrownianTree
from simkit_solvers.random.draws import Draw

GROWTH = 1.5  # of a step's error with its length, as a power: the least, that of a method of order 1
HOPELESS = 2.0  # expected errors above this are not tried; from 1 to 4 it makes little difference


class _State(NamedTuple):
    """What a path's loop carries; `lost` is the rounding error of `y`, and empty in float64."""

    y: Any
    lost: Any
    interval: TreeInterval
    accepted: jax.Array
    rejected: jax.Array
    failed: jax.Array
    rows: Any


class _Run(NamedTuple):
    """What a trial reads in addition to the state."""

    problem: Any
    stepper: AbstractStepper
    tree: BrownianTree
    grid: AdaptiveGrid
    start: jax.Array
    length: jax.Array
    per_row: jax.Array

    def root(self, interval: jax.Array) -> Draw:
        """The normals of a coarse interval."""
        components, areas = len(self.problem.Noise._fields), self.stepper.areas
        normals = self.tree.root(components, areas, interval)
        return jax.tree.map(lambda z: z.astype(self.start.dtype), normals)

    def first_half(self, interval: TreeInterval) -> tuple[jax.Array, jax.Array]:
        """The time at which the first half of an interval begins, and the length of the half."""
        dtype = self.start.dtype
        count = (jnp.uint32(1) << interval.level).astype(dtype)
        h = self.length / (2 * count)
        t = self.start + interval.coarse.astype(dtype) * self.length + 2 * interval.index.astype(dtype) * h
        return t, h


def integrate_adaptive_sde(
    problem: AbstractSDE,
    solver: Solver,
    y0: PyTree,
    grid: AdaptiveGrid,
    tree: BrownianTree,
    observer: AbstractObserver,
) -> AdaptiveRun:
    """One path of `problem` from `y0` over `grid`: what `observer` keeps at each saved time.

    A trial is accepted where the difference between its two steps and its one, in the root mean square over
    the variables each divided by `atol + rtol max(|y|, |y1|)`, is at most one; what is not a number is not.
    `grid.first_step` bounds the coarse intervals, one for each saved interval unless given; a step is one of
    them over a power of two. `accepted` and `rejected` count trials, of which an accepted one is two steps.
    A path that takes more than `max_steps` trials, or whose tree has no further level, ends where it is;
    nothing is raised. Times take the dtype of `y0`; the observer's accumulators are those at `t0`.
    Differentiable in both modes, with the sequence of steps held fixed.
    Raises `ValueError` for a solver that such steps could lead to a wrong limit (see `check_adaptive_sde`)
    and for a problem with events.

    >>> from simkit_physics import OrnsteinUhlenbeck
    >>> from simkit_solvers import AdaptiveGrid, BrownianTree, EulerMaruyama, States, Tolerances
    >>> from simkit_solvers import integrate_adaptive_sde, seed_key
    >>> grid = AdaptiveGrid(0.0, 1.0, Tolerances(1e-2, 1e-2), points=2)
    >>> model = OrnsteinUhlenbeck(theta=1.0, mu=0.0, sigma=0.5)
    >>> tree = BrownianTree.of(seed_key(1), 0)
    >>> run = integrate_adaptive_sde(model, EulerMaruyama(), model.State(X=1.0), grid, tree, States())
    >>> run.rows["X"].shape, int(run.accepted) > 0
    ((3,), True)
    """
    check_adaptive_sde(solver, problem)
    schedule = schedule_of(problem)
    if schedule is not None and schedule.events:
        raise ValueError(
            "adaptive steps of stochastic equations halve intervals and do not end at the times of events; "
            "give steps of equal length"
        )
    return _integrate(problem, solver, y0, grid, tree, observer)


def _integrate(problem: AbstractSDE, solver, y0, grid: AdaptiveGrid, tree, observer) -> AdaptiveRun:
    """`integrate_adaptive_sde` without the checks."""
    stepper, dtype = stepper_for(solver), jnp.result_type(*jax.tree.leaves(y0))
    if dtype == jnp.float32:
        stepper = compensated(stepper)
    levels = tree.levels(len(problem.Noise._fields), stepper.areas)
    given = in_precision((problem, stepper, tree, grid, y0), dtype)

    def loop(differentiated: bool, problem, stepper, tree, grid, y0):
        return _loop(_run_of(prepared(problem), stepper, tree, grid, dtype), y0, levels, differentiated)

    plain, for_derivatives = (functools.partial(loop, each) for each in (False, True))
    states, accepted, rejected, done = differentiable(plain, for_derivatives, *given)
    problem, _, _, grid, y0 = given
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    times = grid.elapsed(dtype)

    def at(t):
        return just_after(problem, start + t, start, span)

    rows = rows_along(observer, at, start, times, states, (), slice(None))
    there = jnp.arange(grid.rows, dtype=jnp.int32) <= done.row
    rows = where_reached(there, rows)
    return AdaptiveRun(rows, accepted, rejected, start + done.time)


class _Done(NamedTuple):
    """The last row that was reached, and the time since t0."""

    row: jax.Array
    time: jax.Array


def _run_of(problem, stepper, tree, grid, dtype) -> _Run:
    saved = jnp.asarray(grid.span, dtype) / grid.points
    per_row = jnp.ones((), dtype)
    if grid.first_step is not None:
        # An interval that is a multiple of the first step but for rounding is that multiple.
        wanted = jnp.ceil(saved / jnp.asarray(grid.first_step, dtype) - 1e-3)
        per_row = jnp.clip(wanted, 1, (2**31 - 1) // grid.points)
    start = jnp.asarray(grid.t0, dtype)
    return _Run(problem, stepper, tree, grid, start, saved / per_row, per_row.astype(jnp.uint32))


def _loop(run: _Run, y0: PyTree, levels: int, differentiated: bool):
    """The states at the saved times, the trials accepted and rejected, and how far the path came."""
    grid, dtype, none = run.grid, run.start.dtype, jnp.int32(0)
    intervals = jnp.uint32(grid.points) * run.per_row
    is_compensated = isinstance(run.stepper, AbstractCompensatedStep)
    start = y0, jax.tree.map(jnp.zeros_like, y0) if is_compensated else ()

    def unfinished(state: _State):
        trials = state.accepted + state.rejected
        return (state.interval.coarse < intervals) & ~state.failed & (trials < grid.max_steps)

    interval = TreeInterval.first(run.root(jnp.uint32(0)), levels)
    rows = [jnp.zeros((grid.rows, *y.shape), dtype).at[0].set(y) for y in jax.tree.leaves(y0)]
    end = eqxi.while_loop(
        unfinished,
        functools.partial(_after_trial, run, levels, start if differentiated else None),
        _State(*start, interval, none, none, jnp.zeros((), bool), rows),
        max_steps=grid.max_steps if differentiated else None,
        buffers=lambda state: state.rows,
        kind="bounded" if differentiated else "lax",
    )
    interval = end.interval
    part = interval.index.astype(dtype) / (jnp.uint32(1) << interval.level).astype(dtype)
    time = (interval.coarse.astype(dtype) + part) * run.length
    time = jnp.where(interval.coarse == intervals, jnp.asarray(grid.span, dtype), time)
    reached = _Done((interval.coarse // run.per_row).astype(jnp.int32), time)
    rows = jax.tree.unflatten(jax.tree.structure(y0), end.rows)
    return rows, end.accepted, end.rejected, reached


@jax.named_scope(STEPS)
def _after_trial(run: _Run, levels: int, safe_start, state: _State) -> _State:
    """One step over the next interval against two over its halves.

    With `safe_start`, a state and its rounding error, the trial is to be differentiated.
    """
    here, interval = (state.y, state.lost), state.interval
    halves = run.tree.halves(interval.whole, interval.coarse, interval.level, interval.index)
    t, h = run.first_half(interval)
    coarse, _ = _step(run, t, 2 * h, here, interval.whole)
    fine = _two_steps(run, t, here, h, *halves)
    error = _error(run.grid, state.y, coarse, fine[0])
    accept = error <= 1
    if safe_start is not None:
        # A rejected trial may have infinite derivatives, and zero times these would be NaN: a
        # tiny step from the start is differentiated in its place.
        tiny = (safe_start, run.length * 2.0**-FEWEST_LEVELS, *jax.tree.map(jnp.zeros_like, halves))
        safe = tree_where(accept, (here, h, *halves), jax.lax.stop_gradient(tiny))
        fine = _two_steps(run, t, *safe)
    y, lost = tree_where(accept, fine, here)
    interval, done = _next(run, interval, halves, error, levels)
    row = (interval.coarse // run.per_row).astype(jnp.int32)
    saves = accept & done & (interval.coarse % run.per_row == 0)
    rows = [rows.at[row].set(x, pred=saves) for rows, x in zip(state.rows, jax.tree.leaves(y), strict=True)]
    return _State(
        y,
        lost,
        interval,
        state.accepted + accept.astype(jnp.int32),
        state.rejected + (~accept).astype(jnp.int32),
        ~accept & (state.interval.level >= levels - 1),
        rows,
    )


def _next(
    run: _Run, interval: TreeInterval, halves: tuple[Draw, Draw], error, levels: int
) -> tuple[TreeInterval, jax.Array]:
    """The interval to try after a trial with an error, and whether that follows a whole coarse one."""
    accept, dtype = error <= 1, run.start.dtype
    after, done = interval.after()
    fresh = after._replace(whole=tree_where(done, run.root(after.coarse), after.whole))
    following = tree_where(accept, fresh, interval.left_half(*halves))
    # By the error just seen, the next interval may be too long to be worth a trial.
    longer = interval.level.astype(dtype) - following.level.astype(dtype)
    hopeless = (error * jnp.exp2(GROWTH * longer) > HOPELESS) & (following.level < levels - 1)
    halves = run.tree.halves(following.whole, following.coarse, following.level, following.index)
    return tree_where(hopeless, following.left_half(*halves), following), done


def _step(run: _Run, t, h, here, draw: Draw):
    """One step by itself: what a solver would carry from the last one starts afresh, except for `lost`.

    `here` is a state and its rounding error.
    """
    y, lost = here
    problem = as_solved(within(run.problem, t, t + h))
    own = run.stepper.init(problem, t, h, y)
    if isinstance(run.stepper, AbstractCompensatedStep):
        y1, (lost, _) = run.stepper.step(problem, t, h, y, draw, (lost, own[1]))
    else:
        y1, _ = run.stepper.step(problem, t, h, y, draw, own)
    return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), (y1, lost), here)


def _two_steps(run: _Run, t, here, h, left: Draw, right: Draw):
    return _step(run, t + h, h, _step(run, t, h, here, left), right)


def _error(grid: AdaptiveGrid, y, coarse, fine):
    """The difference of the two results in units of the tolerance."""
    tolerances = grid.tolerances

    def squared(y, a, b):
        scale = tolerances.atol + tolerances.rtol * jnp.maximum(jnp.abs(y), jnp.abs(b))
        return ((a - b) / scale) ** 2

    parts = jax.tree.leaves(jax.tree.map(squared, y, coarse, fine))
    total, count = sum(jnp.sum(part) for part in parts), sum(part.size for part in parts)
    return jax.lax.stop_gradient(jnp.sqrt(total / count))
