"""The loop of the jump process: one event, or one leap over several, at a time.

Counts are `int32` scalars, one a species. The draws of a path are a pure function of (key, path, how many
proposals it has seen), so its events do not depend on the ensemble, nor on the times that are saved: an event
beyond a saved time does not happen yet, and the path goes on with it. What comes next is drawn at the end of
an iteration and carried, or each array that the next one gives would draw it again (see `packing`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.jump_path import JumpPath, after_proposal
from simkit_solvers.loops.jump_scores import schedule_moves
from simkit_solvers.loops.jump_stops import after_stop, over
from simkit_solvers.loops.jump_watch import Watched, first_seen, shown
from simkit_solvers.methods.jump.jump_method import (
    MOVED_EVENT,
    RUNNING,
    WAITING,
    AbstractJumpMethod,
    JumpNoise,
    Jumps,
    Underway,
    check_rates,
    varies,
)
from simkit_solvers.numerics.packing import packing
from simkit_solvers.numerics.platforms import while_loop
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import as_tangent, differentiable, in_precision
from simkit_solvers.problems.observe import AbstractObserver, happened_rows, with_stops
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import just_after, model_of, schedule_of
from simkit_solvers.problems.stops import stops_of


class JumpRun(NamedTuple):
    """The result of a path.

    `counts` is a `State` of `int32` over the saved times; `rows` what the observer keeps there, NaN from the
    first time that was not reached. `steps` counts events, and leaps of a method that takes some; `rejected`
    the leaps that were too long. `reached` is the time at which it ended, `t1` unless it failed, and `status`
    why it did. `scores` has for each direction the derivative of the log likelihood of the path up to each
    saved time, like the rows. `watched` are the observer's accumulators there, if it has to see the path.
    `happened` says how often each event has happened that has a condition, and `in_leaps` how many events all
    leaps held, None of a method without them. These, `steps`, `rejected`,
    `reached` and `status` are scalars.

    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import DirectMethod, JumpGrid, JumpNoise, States, integrate_jumps, seed_key
    >>> model = ImmigrationDeath(alpha=10.0, mu=0.5)
    >>> grid = JumpGrid(0.0, 2.0, points=4)
    >>> noise = JumpNoise.of(seed_key(1), path=0)
    >>> run = integrate_jumps(model, DirectMethod(), model.State(X=0), grid, noise, States())
    >>> float(run.reached), run.rows["X"].shape
    (2.0, (5,))
    """

    counts: Any
    rows: dict[str, Any]
    steps: jax.Array
    rejected: jax.Array
    reached: jax.Array
    status: jax.Array
    scores: tuple = ()
    watched: Any = None
    happened: tuple[jax.Array, ...] = ()
    in_leaps: jax.Array | None = None


def integrate_jumps(
    network: AbstractReactionNetwork,
    method: AbstractJumpMethod,
    y0: PyTree,
    grid: JumpGrid,
    noise: JumpNoise,
    observer: AbstractObserver,
    directions: tuple = (),
    begin: Scalar | None = None,
) -> JumpRun:
    """One path of the jump process from the counts `y0`, a `State` of whole numbers, over `grid`.

    The clock and the propensities take the precision of the grid's times. A path that cannot go on ends where
    it is, and nothing is raised: see `status`. Differentiating raises `ValueError`, since counts have no
    derivative along a path.

    Rates of a scheduled network may jump at given times, and its events change the counts: the path stops
    there, and what would have come next is drawn again, which is exact since the process has no memory. A
    leap ends there after its part. Raises `ValueError` for rates that change continuously, unless the method
    follows them, as `DirectMethod` does.

    `directions` are tangents of the network, pytrees of its structure such as the network itself with a 1 in
    place of one parameter and 0 for the others. For each the path carries its score, see `jump_scores`; the
    path itself is the same. With `begin`, a time since `t0`, nothing happens before; rows there have `y0`.
    Raises `ValueError` for a tangent of another structure, for directions where rates change continuously,
    and for `begin` with a scheduled network or an observer that has to see the whole path.

    An event whose condition decides when it happens is checked after every reaction; for exact methods only.

    Such an observer sees the counts before and after each event, when it happens; of a leap those at its end,
    and those before the events that end it.

    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import DirectMethod, JumpGrid, JumpNoise, States, integrate_jumps, seed_key
    >>> model = ImmigrationDeath(alpha=10.0, mu=0.5)
    >>> grid = JumpGrid(0.0, 2.0, points=4)
    >>> noise = JumpNoise.of(seed_key(1), path=0)
    >>> run = integrate_jumps(model, DirectMethod(), model.State(X=0), grid, noise, States())
    >>> run.counts.X.shape, int(run.counts.X[0])
    ((5,), 0)
    """
    check_rates(network, type(method))
    _check_triggered(network, method, directions)
    varying = varies(network)
    if varying and directions:
        raise ValueError(
            f"{type(model_of(network)).__name__}: a rate changes continuously with time, and scores are of "
            "rates that are constant between events; use finite_difference"
        )
    watch = None if observer.stops is None else observer
    if begin is not None:
        _check_begin(network, watch)
    dtype = jnp.result_type(grid.t0, grid.span)
    directions = tuple(as_tangent(network, each, dtype) for each in directions)
    given = in_precision((network, method, grid, directions, begin, watch), dtype)
    y0 = jax.tree.map(lambda x: jnp.asarray(x).astype(jnp.int32), y0)

    def run(network, method, grid, directions, begin, watch, y0, noise):
        start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
        jumps = Jumps(network, noise, start, span, directions, watch, network, varying)
        return _rows(jumps, method, y0, grid, begin)

    def refuse(*_):
        raise ValueError(
            f"{type(method).__name__}: counts have no derivative along a path: averaging pathwise "
            "derivatives would not give the derivative of the mean; use the estimators of jump_sensitivity, "
            "or differentiate the rate equation or the chemical Langevin equation"
        )

    network, method, grid = given[:3]
    return _finished(network, method, grid, observer, *differentiable(run, refuse, *given, y0, noise))


def _check_triggered(network: AbstractReactionNetwork, method: AbstractJumpMethod, directions: tuple) -> None:
    """Raise `ValueError` where a condition may not decide when an event happens."""
    schedule = schedule_of(network)
    if schedule is None or not schedule.triggered:
        return
    if not method.exact:
        raise ValueError(
            f"{type(method).__name__}: a condition that decides when an event happens is checked after each "
            "reaction, not inside leaps; use DirectMethod, or give the event times"
        )
    if directions:
        raise ValueError(
            "directions: paths with an event whose condition decides when it happens have no score; use "
            "finite differences"
        )


def _check_begin(network: AbstractReactionNetwork, watch: AbstractObserver | None) -> None:
    """Raise `ValueError` where a path cannot begin later than t0."""
    if watch is not None:
        raise ValueError("begin: the observer has to see the path from t0; leave begin out")
    if schedule_of(network) is not None:
        raise ValueError(
            "begin: a scheduled network begins at t0; give begin only where nothing is scheduled"
        )


def _finished(
    network, method, grid: JumpGrid, observer, counts, scores, watched, happened, end: JumpPath
) -> JumpRun:
    """The result of a path, given what it has at the saved times: counts, scores, accumulators, events."""
    dtype = jnp.result_type(grid.t0, grid.span)
    rows = observed(network, observer, grid, counts, watched)
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    times = grid.elapsed(dtype)
    failed = end.status > WAITING
    there = ~failed | (times <= end.elapsed)
    rows, scores = jax.tree.map(lambda x: jnp.where(there, x, jnp.nan), (rows, scores))
    rows |= happened_rows(observer, happened, dtype)
    reached = start + jnp.where(failed, end.elapsed, span)
    rejected, in_leaps = method.rejected(end.state), method.in_leaps(end.state)
    return JumpRun(
        counts, rows, end.steps, rejected, reached, end.status, scores, watched, end.happened, in_leaps
    )


def observed(
    network: AbstractReactionNetwork,
    observer: AbstractObserver,
    grid: JumpGrid,
    counts: PyTree,
    watched: PyTree | None = None,
) -> dict:
    """What an observer keeps at the saved times of `grid`, given the counts there, and its accumulators."""
    dtype = jnp.result_type(grid.t0, grid.span)
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    real = jax.tree.map(lambda x: x.astype(dtype), counts)
    acc = observer.init(just_after(network, start, start, span), start, jax.tree.map(lambda x: x[0], real))

    def row(t, y, acc):
        return observer.row(just_after(network, start + t, start, span), acc, start + t, y)

    if watched is not None:
        return jax.vmap(row)(grid.elapsed(dtype), real, watched)
    return jax.vmap(lambda t, y: row(t, y, acc))(grid.elapsed(dtype), real)


class _JumpLoop(NamedTuple):
    """The loop from one saved time to the next: how a path is carried, and when it gives up."""

    method: AbstractJumpMethod
    max_steps: int
    pack: Callable
    unpack: Callable

    def until(self, jumps: Jumps, carry: tuple, time) -> tuple:
        """Advances the path to a time; gives the counts, scores, accumulators and events there too."""
        path, sampled = carry
        path = path._replace(status=jnp.where(path.status == WAITING, RUNNING, path.status))
        path = self.unpack(
            while_loop(
                lambda packed: self.unpack(packed).status == RUNNING,
                lambda packed: self.pack(
                    after_proposal(jumps, self.method, self.unpack(packed), time, self.max_steps)
                ),
                self.pack(path),
            )
        )
        underway = Underway(path.y, path.ahead, path.index(self.method), path.elapsed)
        y, sampled = self.method.counts_at(jumps, underway, time, sampled)
        if jumps.observer is not None:
            path = path._replace(watched=shown(jumps, path.watched, time, y))
        return (path, sampled), (y, path.scores_at(jumps, time), path.accumulators(), path.happened)

    def through_stop(self, jumps: Jumps, carry: tuple, stop: tuple) -> tuple:
        """Advances the path to a stop and through its events, given the nodes and events around that."""
        path, sampled = carry
        time, which, last, following = stop
        during = over(jumps, last, following)
        path = path.with_draw(during, self.method)
        (path, sampled), (y, scores, *_) = self.until(during, (path, sampled), time)
        path, y = after_stop(jumps, self.method, during, path, y, scores, time, which)
        return (path, sampled), (y, scores, path.accumulators(), path.happened)


def _start(jumps: Jumps, method: AbstractJumpMethod, y0, at: Scalar | None, stopping: bool) -> JumpPath:
    """The path at t0, given the rates there; nothing happens before `at`."""
    zero, none, schedule = jnp.zeros_like(jumps.span), jnp.int32(0), schedule_of(jumps.seen)
    path = JumpPath(
        drawn=(),
        y=y0,
        elapsed=zero if at is None else jnp.asarray(at, zero.dtype),
        lost=() if zero.dtype == jnp.float64 else (zero,),
        state=method.init(jumps, y0),
        steps=none,
        status=none,
        interruptions=(none,) if stopping else (),
        scores=tuple(zero for _ in jumps.directions),
        ahead=method.keep(jumps, None),
        happened=() if schedule is None else schedule.none_happened.counts,
    )
    return path.with_draw(jumps, method)


def _rows(jumps: Jumps, method: AbstractJumpMethod, y0, grid: JumpGrid, at: Scalar | None):
    """The counts, scores, accumulators and events at the saved times, and the path at the end."""
    zero, schedule = jnp.zeros_like(jumps.span), schedule_of(jumps.network)
    stopping = schedule is not None and bool(schedule.events or schedule.nodes)
    initial = over(jumps, zero, jumps.span)
    path = _start(initial, method, y0, at, stopping)
    if jumps.observer is not None:
        path = path._replace(watched=Watched(first_seen(jumps, zero, y0), zero))
    # What comes next is carried, and each array would draw it again: see `packing`.
    loop = _JumpLoop(method, grid.max_steps, *packing(path, as_bits=True))
    # Two times or more: the compiler inlines a loop of one and mixes it with what is around.
    times, saved = grid.elapsed(zero.dtype), slice(None)
    if jumps.observer is not None:
        times, saved = with_stops(jumps.observer, times)
    sampled = method.start_sampling(initial, y0)
    if schedule is None or not stopping:
        (path, _), seen = jax.lax.scan(functools.partial(loop.until, initial), (path, sampled), times)
        return *jax.tree.map(lambda x: x[saved], seen), path
    if jumps.directions:
        moved = schedule_moves(jumps.directions)
        path = path._replace(status=jnp.where(moved, MOVED_EVENT, path.status))
    stops = stops_of(schedule, jumps.t0, times)
    through = functools.partial(loop.through_stop, jumps)
    (path, _), seen = jax.lax.scan(
        through, (path, sampled), (stops.times, stops.which, *stops.around(jumps.span))
    )
    return *jax.tree.map(lambda x: x[stops.rows[saved]], seen), path
