"""The loop of the jump process: one event, or one leap over several, at a time.

Counts are `int32` scalars, one a species. The draws of a path are a pure function of (key, path, how many
proposals it has looked at), so its events do not depend on the ensemble, nor on the times that are saved: an
event beyond a saved time is not taken, and the path goes on with it. What comes next is drawn at the end of
a turn and carried, or each array that the next turn gives would draw it anew (see `_packing`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.jump_scores import (
    event_moves,
    has_likelihood,
    pushed,
    schedule_moves,
    score_gained,
)
from simkit_solvers.loops.jump_watch import Watched, before_its_end, first_seen, in_real_numbers, shown
from simkit_solvers.methods.jump.jump_method import (
    BAD_COUNT,
    BAD_EVENT,
    LARGEST_COUNT,
    MOVED_EVENT,
    NO_RATIO,
    RUNNING,
    TOO_MANY_STEPS,
    WAITING,
    AbstractJumpMethod,
    JumpNoise,
    Jumps,
    Leap,
    check_rates,
)
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.numerics.tangents import as_tangent
from simkit_solvers.problems.observe import AbstractObserver, with_stops
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import (
    ROW,
    Schedule,
    as_solved,
    just_after,
    schedule_of,
    stops_of,
    within,
)


class JumpRun(NamedTuple):
    """What a path gives back.

    `counts` is a `State` of `int32` over the saved times; `rows` what the observer keeps there, NaN from the
    first time that was not reached. `steps` counts events, and leaps of a method that takes some; `rejected`
    the leaps that were too long. `reached` is the time at which it ended, `t1` unless it failed, and `status`
    why it did. `scores` has for each direction the derivative of the log likelihood of the path up to each
    saved time, like the rows. `watched` are the observer's accumulators there, if it has to see the path.
    """

    counts: Any
    rows: dict[str, Any]
    steps: jax.Array
    rejected: jax.Array
    reached: jax.Array
    status: jax.Array
    scores: tuple = ()
    watched: Any = None


class _Path(NamedTuple):
    """What a path's loop carries.

    `drawn` is of the event or leap that comes next. `lost` is what rounding has taken from `elapsed`, and
    empty in float64; `interruptions` counts the stops at which a proposal was given up, and is empty where
    there are none. `scores` has one number for each direction; `ahead` is kept of the last proposal;
    `watched` is empty unless an observer has to see the path.
    """

    drawn: Any
    y: Any
    elapsed: jax.Array
    lost: tuple
    state: Any
    steps: jax.Array
    status: jax.Array
    interruptions: tuple = ()
    scores: tuple = ()
    ahead: Any = ()
    watched: Watched | tuple = ()


def integrate_jumps(
    network: AbstractReactionNetwork,
    method: AbstractJumpMethod,
    y0,
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
    there, and what would have come next is drawn anew, which is exact since the process has no memory. A leap
    ends there after its part. Raises `ValueError` for rates that depend on time in another way: between
    events they are taken as constant.

    `directions` are tangents of the network, pytrees of its structure such as the network itself with a 1 in
    place of one parameter and 0 for the others. For each the path carries its score, see `jump_scores`; the
    path itself is the same. With `begin`, a time since `t0`, nothing happens before; rows there have `y0`.
    Raises `ValueError` for a tangent of another structure, and for `begin` with a scheduled network or an
    observer that has to see the whole path.

    Such an observer sees the counts before and after each event, when it happens; of a leap those at its end,
    and those before the events that end it.
    """
    check_rates(network)
    watch = None if observer.stops is None else observer
    if begin is not None and watch is not None:
        raise ValueError("begin: the observer has to see the path from t0; leave begin out")
    if begin is not None and schedule_of(network) is not None:
        raise ValueError(
            "begin: a scheduled network begins at t0; give begin only where nothing is scheduled"
        )
    dtype = jnp.result_type(grid.t0, grid.span)
    directions = tuple(as_tangent(network, each, dtype) for each in directions)
    given = jax.tree.map(
        lambda x: jnp.asarray(x, dtype) if isinstance(x, float) or eqx.is_inexact_array(x) else x,
        (network, method, grid, directions, begin, watch),
    )
    numbers, others = eqx.partition(given, eqx.is_array)
    y0 = jax.tree.map(lambda x: jnp.asarray(x).astype(jnp.int32), y0)

    @jax.custom_jvp
    def run(numbers, y0, noise):
        network, method, grid, directions, begin, watch = eqx.combine(numbers, others)
        start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
        jumps = Jumps(network, noise, start, span, directions, watch, network)
        return _rows(jumps, method, y0, grid, begin)

    @run.defjvp
    def _(primals, tangents):
        raise ValueError(
            f"{type(method).__name__}: counts have no derivative along a path, and the mean of these would "
            "be no derivative of the mean; take the estimators of jump_sensitivity, or differentiate the "
            "rate equation or the chemical Langevin equation"
        )

    counts, scores, watched, end = run(numbers, y0, noise)
    network, method, grid = given[:3]
    rows = observed(network, observer, grid, counts, watched)
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    times = _times(grid, span)
    failed = end.status > WAITING
    there = ~failed | (times <= end.elapsed)
    rows, scores = jax.tree.map(lambda x: jnp.where(there, x, jnp.nan), (rows, scores))
    reached = start + jnp.where(failed, end.elapsed, span)
    rejected = method.rejected(end.state)
    return JumpRun(counts, rows, end.steps, rejected, reached, end.status, scores, watched)


def observed(
    network: AbstractReactionNetwork, observer: AbstractObserver, grid: JumpGrid, counts, watched=None
) -> dict:
    """What an observer keeps at the saved times of `grid`, given the counts there, and its accumulators."""
    dtype = jnp.result_type(grid.t0, grid.span)
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    real = jax.tree.map(lambda x: x.astype(dtype), counts)
    acc = observer.init(just_after(network, start, start, span), start, jax.tree.map(lambda x: x[0], real))

    def row(t, y, acc):
        return observer.row(just_after(network, start + t, start, span), acc, start + t, y)

    if watched is not None:
        return jax.vmap(row)(_times(grid, span), real, watched)
    return jax.vmap(lambda t, y: row(t, y, acc))(_times(grid, span), real)


def _times(grid: JumpGrid, span):
    """The saved times since `t0`; the last is the whole span exactly."""
    return jnp.arange(grid.rows, dtype=span.dtype) / grid.points * span


def _rows(jumps: Jumps, method: AbstractJumpMethod, y0, grid: JumpGrid, at: Scalar | None):
    """The counts, the scores and the accumulators at the saved times, and the path at the end."""
    zero, none = jnp.zeros_like(jumps.span), jnp.int32(0)
    lost = () if zero.dtype == jnp.float64 else (zero,)
    schedule = schedule_of(jumps.network)
    stopping = schedule is not None and bool(schedule.events or schedule.nodes)
    begun = over(jumps, zero, jumps.span)
    scores = tuple(zero for _ in jumps.directions)
    started = zero if at is None else jnp.asarray(at, zero.dtype)
    state = method.init(begun, y0)
    start = _Path((), y0, started, lost, state, none, none, (none,) if stopping else (), scores)
    start = start._replace(ahead=method.keep(begun, None))
    if jumps.observer is not None:
        start = start._replace(watched=Watched(first_seen(jumps, zero, y0), zero))
    start = _with_draw(begun, method, start)
    pack, unpack = _packing(start)

    def until(jumps, carry, time):
        """The path at a time, and the counts and scores there."""
        path, looked = carry
        path = path._replace(status=jnp.where(path.status == WAITING, RUNNING, path.status))
        path = unpack(
            jax.lax.while_loop(
                lambda packed: unpack(packed).status == RUNNING,
                lambda packed: pack(_turn(jumps, method, unpack(packed), time, grid.max_steps)),
                pack(path),
            )
        )
        index = _index(method, path)
        y, looked = method.look(jumps, path.y, path.ahead, index, path.elapsed, time, looked)
        if jumps.observer is not None:
            path = path._replace(watched=shown(jumps, path.watched, time, y))
        return (path, looked), (y, _scores_at(jumps, method, path, time), _accumulators(path))

    # Two times or more: the compiler takes a loop of one apart and mixes it with what is around.
    times, saved = _times(grid, jumps.span), slice(None)
    if jumps.observer is not None:
        times, saved = with_stops(jumps.observer, times)
    begin = start, method.start_looking(begun, y0)
    if schedule is None or not stopping:
        (path, _), seen = jax.lax.scan(functools.partial(until, begun), begin, times)
        return *jax.tree.map(lambda x: x[saved], seen), path

    def stop(carry, where):
        inner, last = carry
        time, which = where
        during = over(jumps, last, time)
        path, looked = inner
        path = _with_draw(during, method, path)
        (path, looked), (y, scores, _) = until(during, (path, looked), time)
        path, y = _stopped(jumps, schedule, method, during, path, y, scores, time, which)
        return ((path, looked), time), (y, scores, _accumulators(path))

    if jumps.directions:
        status = jnp.where(schedule_moves(jumps.network, jumps.directions), MOVED_EVENT, start.status)
        begin = start._replace(status=status), begin[1]
    stops = stops_of(schedule, jumps.t0, times)
    ((path, _), _), seen = jax.lax.scan(stop, (begin, zero), (stops.times, stops.which))
    return *jax.tree.map(lambda x: x[stops.rows[saved]], seen), path


def _accumulators(path: _Path) -> Any:
    """Those of an observer that has to see the path."""
    return path.watched.acc if isinstance(path.watched, Watched) else None


def _scores_at(jumps: Jumps, method: AbstractJumpMethod, path: _Path, time) -> tuple:
    """The scores at a saved `time`, which lies before the end of what is proposed.

    Of an exact method those of the time in which nothing happened. A leap that is looked into counts in
    whole: whether it was refused depended on all of it.
    """
    if not jumps.directions:
        return ()
    fired, tau = tuple(jnp.int32(0) for _ in jumps.network.reactions), time - path.elapsed
    if isinstance(path.ahead, Leap):
        inside = (path.ahead.tau < jnp.inf) & (time > path.elapsed)
        fired = tuple(jnp.where(inside, path.ahead.fired, 0))
        tau = jnp.where(inside, path.ahead.tau, 0.0)
    begun = time >= path.elapsed
    gained = score_gained(jumps, path.y, fired, tau)
    return tuple(jnp.where(begun, s + g, s) for s, g in zip(path.scores, gained, strict=True))


def over(jumps: Jumps, begin, end) -> Jumps:
    """The same with the rates between two times since `t0`."""

    def piece(network):
        return as_solved(within(network, jumps.t0 + begin, jumps.t0 + end))

    directions = pushed(piece, jumps.network, jumps.directions)
    seen = within(jumps.network, jumps.t0 + begin, jumps.t0 + end)
    return jumps._replace(network=piece(jumps.network), directions=directions, seen=seen)


def _stopped(
    jumps: Jumps,
    schedule: Schedule,
    method: AbstractJumpMethod,
    during: Jumps,
    path: _Path,
    y,
    scores: tuple,
    time,
    which,
) -> tuple[_Path, Any]:
    """The path as it goes on after a stop, at which the counts are `y`, and the counts then."""
    real, (counts, sound) = in_real_numbers(y, time.dtype), after_event(jumps, time, which, y)
    going = path.status <= WAITING
    happens = going & (which >= 0)
    changed = happens & sound
    interrupted = going & (which != ROW)
    state = method.interrupted(during, path.y, path.state, time - path.elapsed)

    def where(condition, one, other):
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)

    counts = where(changed, counts, y)
    status = jnp.where(happens & ~sound, jnp.int32(BAD_EVENT), path.status)
    moved = event_moves(_event(jumps, time, which), jumps.network, jumps.directions, real)
    watched = path.watched
    if isinstance(watched, Watched):
        after = just_after(jumps.network, jumps.t0 + time, jumps.t0, jumps.span)
        changed = shown(during, watched, time, y, counts, after).acc
        acc = where(time > 0, changed, first_seen(jumps, time, counts))
        watched = Watched(where(interrupted, acc, watched.acc), time)
    path = _Path(
        path.drawn,
        where(interrupted, counts, path.y),
        jnp.where(interrupted, time, path.elapsed),
        tuple(jnp.where(interrupted, 0.0, lost) for lost in path.lost),
        where(interrupted, state, path.state),
        path.steps,
        jnp.where(happens & moved, jnp.int32(MOVED_EVENT), status) if jumps.directions else status,
        tuple(n + interrupted.astype(jnp.int32) for n in path.interruptions),
        where(interrupted, scores, path.scores),
        path.ahead,
        watched,
    )
    return path, where(interrupted, counts, y)


def after_event(jumps: Jumps, time, which, y) -> tuple[Any, jax.Array]:
    """The counts as event number `which` leaves those at a time since `t0`, and whether they are sound.

    Where they are not they are 0. A negative number is that of no event.
    """
    real = _event(jumps, time, which)(jumps.network, in_real_numbers(y, time.dtype))
    most = min(LARGEST_COUNT, 2 ** (jnp.finfo(time.dtype).nmant + 1))
    sound = jnp.bool_(True)
    for x in jax.tree.leaves(real):
        sound = sound & (jnp.round(x) == x) & (x >= 0) & (x <= most)
    return jax.tree.map(lambda x: jnp.where(sound, x, 0.0).astype(jnp.int32), real), sound


def _event(jumps: Jumps, time, which) -> Callable:
    """What event number `which` does, as a function of a network and of its state in real numbers."""
    t = jumps.t0 + time

    def after(network, real):
        problem = just_after(network, t, jumps.t0, jumps.span)
        events = () if (own := schedule_of(network)) is None else own.events
        for i, event in enumerate(events):
            real = event.applied(which == i, problem, t, real)
        return real

    return after


@jax.named_scope(STEPS)
def _turn(jumps: Jumps, method: AbstractJumpMethod, path: _Path, time, max_steps: int) -> _Path:
    """One proposal: taken, refused, or left for later where it ends beyond `time`."""
    ahead = method.propose(jumps, path.y, path.state, path.drawn)
    step = ahead.tau + path.lost[0] if path.lost else ahead.tau
    end = path.elapsed + step
    y = jax.tree.map(jnp.add, path.y, ahead.change)
    status = jnp.where(ahead.accepted & ~ahead.sound, jnp.int32(BAD_COUNT), jnp.int32(RUNNING))
    full = _index(method, path) >= jnp.uint32(max_steps)
    status = jnp.where(full, jnp.int32(TOO_MANY_STEPS), status)
    status = jnp.where(ahead.accepted & (end > time), jnp.int32(WAITING), status)
    status = jnp.where(ahead.status != RUNNING, ahead.status, status)
    if jumps.directions:
        sure = (status > WAITING) | has_likelihood(jumps, path.y)
        status = jnp.where(sure, status, jnp.int32(NO_RATIO))
    goes = status == RUNNING
    taken = goes & ahead.accepted
    # A leap that is refused was drawn all the same, and what is drawn next depends on it.
    gained = score_gained(jumps, path.y, ahead.fired, ahead.tau)

    def where(condition, one, other):
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)

    watched = path.watched
    if isinstance(watched, Watched):
        before = before_its_end(jumps, path.y, ahead.inside) if ahead.inside else path.y
        watched = where(taken, shown(jumps, watched, end, before, y), watched)
    after = _Path(
        path.drawn,
        where(taken, y, path.y),
        jnp.where(taken, end, path.elapsed),
        tuple(jnp.where(taken, step - (end - path.elapsed), lost) for lost in path.lost),
        where(goes, ahead.state, path.state),
        path.steps + taken.astype(jnp.int32),
        status,
        path.interruptions,
        tuple(jnp.where(goes, s + g, s) for s, g in zip(path.scores, gained, strict=True)),
        method.keep(jumps, ahead),
        watched,
    )
    drawn = _with_draw(jumps, method, after).drawn
    return after._replace(drawn=where(goes, drawn, path.drawn))


def _with_draw(jumps: Jumps, method: AbstractJumpMethod, path: _Path) -> _Path:
    """The path with what comes next."""
    return path._replace(drawn=method.draw(jumps, path.y, path.state, _index(method, path)))


def _index(method: AbstractJumpMethod, path: _Path):
    looked_at = path.steps + method.rejected(path.state)
    for count in path.interruptions:
        looked_at = looked_at + count
    return looked_at.astype(jnp.uint32)


def _packing(example):
    """How the loop's carry is laid out: scalars of one width in pairs, their bits as complex numbers.

    XLA's CPU compiler makes one kernel of each array that a loop body gives, and computes again in each what
    they share; a pair in one complex array is one kernel.
    """
    leaves, tree = jax.tree.flatten(example)
    dtypes = [leaf.dtype for leaf in leaves]
    floats = {4: jnp.float32, 8: jnp.float64}
    by_width: dict[int, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if leaf.shape == ():
            by_width.setdefault(leaf.dtype.itemsize, []).append(i)
    pairs = [tuple(where[i : i + 2]) for where in by_width.values() for i in range(0, len(where) - 1, 2)]
    paired = {i for pair in pairs for i in pair}
    single = [i for i in range(len(leaves)) if i not in paired]

    def pack(carry):
        found = [
            jax.lax.bitcast_convert_type(leaf, floats[leaf.dtype.itemsize]) for leaf in jax.tree.leaves(carry)
        ]
        return [jax.lax.complex(found[i], found[j]) for i, j in pairs], [found[i] for i in single]

    def unpack(packed):
        numbers, rest = packed
        found = dict(zip(single, rest, strict=True))
        for (i, j), z in zip(pairs, numbers, strict=True):
            found[i], found[j] = jnp.real(z), jnp.imag(z)
        bits = [jax.lax.bitcast_convert_type(found[i], dtype) for i, dtype in enumerate(dtypes)]
        return jax.tree.unflatten(tree, bits)

    return pack, unpack
