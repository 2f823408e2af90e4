"""The loop of the jump process: one event, or one leap over several, at a time.

Counts are `int32` scalars, one a species. The draws of a path are a pure function of (key, path, how many
proposals it has looked at), so its events do not depend on the ensemble, nor on the times that are saved: an
event beyond a saved time is not taken, and is proposed again, the same, when the path goes on.
"""

import abc
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.generator import Stream, Words, stream_key
from simkit_solvers.jump_grid import JumpGrid
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.reaction_network import AbstractReactionNetwork
from simkit_solvers.schedule import (
    ROW,
    Schedule,
    ScheduledNetwork,
    as_solved,
    just_after,
    schedule_of,
    stops_of,
    within,
)
from simkit_solvers.scopes import STEPS

RUNNING, WAITING, BAD_PROPENSITY, BAD_COUNT, TOO_MANY_STEPS, BAD_EVENT = range(6)
LARGEST_COUNT = 2_000_000_000  # the bits of integers above 2 139 095 039 are those of NaN, which may change
REASONS = {
    BAD_PROPENSITY: "a propensity is negative or not finite",
    BAD_COUNT: "a count would leave 0 … 2 000 000 000",
    TOO_MANY_STEPS: "max_steps were taken",
    BAD_EVENT: "an event sets a count that is not a whole number from 0 to 2 000 000 000, or one too large "
    "for the precision",
}


class JumpNoise(eqx.Module):
    """The stream keys of one path: of its events, and of what is looked up inside a leap."""

    events: Words
    inside: Words

    @staticmethod
    def of(key: Words, path) -> "JumpNoise":
        """The noise of one path id under a key."""
        return JumpNoise(stream_key(key, path, Stream.JUMPS), stream_key(key, path, Stream.INSIDE_LEAPS))


class Proposal(NamedTuple):
    """What comes next: after the time `tau` the counts change by `change`, unless it is not `accepted`.

    `fired` counts the events of each reaction, for methods that leap over several. `state` is the method's
    own after it, `status` one of the reasons why a path cannot go on, or `RUNNING`.
    """

    tau: jax.Array
    change: Any
    fired: tuple
    accepted: jax.Array
    state: Any
    status: jax.Array


class Jumps(NamedTuple):
    """What a method reads beside the counts: the network, the noise, and the length of the run."""

    network: AbstractReactionNetwork
    noise: JumpNoise
    t0: jax.Array
    span: jax.Array

    def propensities(self, y) -> tuple:
        """The propensities of counts, in the precision of the run."""
        real = jax.tree.map(lambda x: x.astype(self.span.dtype), y)
        return self.network.propensities(self.t0, real)


class AbstractJumpMethod(eqx.Module):
    """How the next event of a network is found. `exact` methods sample the jump process itself."""

    exact: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def init(self, jumps: Jumps, y) -> Any:
        """What it carries beside the counts."""

    @abc.abstractmethod
    def propose(self, jumps: Jumps, y, state, index) -> Proposal:
        """The next event or leap from `y`; `index` (`uint32`) counts the proposals so far."""

    @abc.abstractmethod
    def interrupted(self, jumps: Jumps, y, state, after) -> Any:
        """What it carries on where, `after` a time in which nothing was taken, counts or rates change.

        `jumps` and `y` are those of before. The next proposal has another index.
        """

    @abc.abstractmethod
    def rejected(self, state) -> jax.Array:
        """How many proposals were not accepted so far, as `int32`."""

    @abc.abstractmethod
    def start_looking(self, jumps: Jumps, y) -> Any:
        """What `look` carries from one saved time to the next."""

    @abc.abstractmethod
    def look(self, jumps: Jumps, y, state, index, elapsed, time, looked) -> tuple[Any, Any]:
        """The counts at a saved `time`, before what is proposed from `elapsed` is complete."""


class JumpRun(NamedTuple):
    """What a path gives back.

    `counts` is a `State` of `int32` over the saved times; `rows` what the observer keeps there, NaN from the
    first time that was not reached. `steps` counts events, and leaps of a method that takes some; `rejected`
    the leaps that were too long. `reached` is the time at which it ended, `t1` unless it failed, and `status`
    why it did.
    """

    counts: Any
    rows: dict[str, Any]
    steps: jax.Array
    rejected: jax.Array
    reached: jax.Array
    status: jax.Array


class _Path(NamedTuple):
    """What a path's loop carries.

    `lost` is what rounding has taken from `elapsed`, and empty in float64; `interruptions` counts the stops
    at which a proposal was given up, and is empty where there are none.
    """

    y: Any
    elapsed: jax.Array
    lost: tuple
    state: Any
    steps: jax.Array
    status: jax.Array
    interruptions: tuple = ()


def integrate_jumps(
    network: AbstractReactionNetwork,
    method: AbstractJumpMethod,
    y0,
    grid: JumpGrid,
    noise: JumpNoise,
    observer: AbstractObserver,
) -> JumpRun:
    """One path of the jump process from the counts `y0`, a `State` of whole numbers, over `grid`.

    The clock and the propensities take the precision of the grid's times. A path that cannot go on ends where
    it is, and nothing is raised: see `status`. Differentiating raises `ValueError`, since counts have no
    derivative along a path.

    Rates of a scheduled network may jump at given times, and its events change the counts: the path stops
    there, and what would have come next is drawn anew, which is exact since the process has no memory. A leap
    ends there after its part. Raises `ValueError` for rates that depend on time in another way: between
    events they are taken as constant.
    """
    check_rates(network)
    dtype = jnp.result_type(grid.t0, grid.span)
    given = jax.tree.map(
        lambda x: jnp.asarray(x, dtype) if isinstance(x, float) or eqx.is_inexact_array(x) else x,
        (network, method, grid),
    )
    numbers, others = eqx.partition(given, eqx.is_array)
    y0 = jax.tree.map(lambda x: jnp.asarray(x).astype(jnp.int32), y0)

    @jax.custom_jvp
    def run(numbers, y0, noise):
        network, method, grid = eqx.combine(numbers, others)
        start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
        return _rows(Jumps(network, noise, start, span), method, y0, grid)

    @run.defjvp
    def _(primals, tangents):
        raise ValueError(
            f"{type(method).__name__}: counts have no derivative along a path, and the mean of these would "
            "be no derivative of the mean; differentiate the rate equation or the chemical Langevin equation"
        )

    counts, end = run(numbers, y0, noise)
    network, method, grid = given
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    times = _times(grid, span)
    real = jax.tree.map(lambda x: x.astype(dtype), counts)
    acc = observer.init(just_after(network, start, start, span), start, jax.tree.map(lambda x: x[0], real))

    def row(t, y):
        return observer.row(just_after(network, start + t, start, span), acc, start + t, y)

    rows = jax.vmap(row)(times, real)
    failed = end.status > WAITING
    there = ~failed | (times <= end.elapsed)
    rows = jax.tree.map(lambda x: jnp.where(there, x, jnp.nan), rows)
    reached = start + jnp.where(failed, end.elapsed, span)
    return JumpRun(counts, rows, end.steps, method.rejected(end.state), reached, end.status)


def check_rates(network: AbstractReactionNetwork) -> None:
    """Raise `ValueError` when rates depend on time, which jump methods take as constant between events."""
    piece: Any = as_solved(within(network, 0.0, 1.0))
    if isinstance(piece, ScheduledNetwork):
        raise ValueError(
            f"{type(piece.original).__name__}: a rate changes all the time, and the jump methods take it "
            "as constant between events; take interpolation: previous, or a solver for stochastic equations, "
            "such as EulerMaruyama"
        )
    network = piece
    y = network.State(*(jnp.ones(()) for _ in network.State._fields))
    with jax.numpy_dtype_promotion("standard"):  # of whatever precision the parameters are
        jaxpr = jax.make_jaxpr(lambda t: network.rates(t, y))(jnp.zeros(())).jaxpr
    (time,) = jaxpr.invars
    if any(time is x for x in [*jaxpr.outvars, *(x for eqn in jaxpr.eqns for x in eqn.invars)]):
        raise ValueError(
            f"{type(network).__name__}: a rate depends on t, and the jump methods take rates as constant "
            "between events; take a solver for stochastic equations, such as EulerMaruyama"
        )


def _times(grid: JumpGrid, span):
    """The saved times since `t0`; the last is the whole span exactly."""
    return jnp.arange(grid.rows, dtype=span.dtype) / grid.points * span


def _rows(jumps: Jumps, method: AbstractJumpMethod, y0, grid: JumpGrid):
    """The counts at the saved times, and the path at the end."""
    zero, none = jnp.zeros_like(jumps.span), jnp.int32(0)
    lost = () if zero.dtype == jnp.float64 else (zero,)
    schedule = schedule_of(jumps.network)
    stopping = schedule is not None and bool(schedule.events or schedule.nodes)
    begun = _over(jumps, zero, jumps.span)
    start = _Path(y0, zero, lost, method.init(begun, y0), none, none, (none,) if stopping else ())
    pack, unpack = _packing(start)

    def until(jumps, carry, time):
        """The path at a time, and the counts there."""
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
        y, looked = method.look(jumps, path.y, path.state, index, path.elapsed, time, looked)
        return (path, looked), y

    # Two times or more: the compiler takes a loop of one apart and mixes it with what is around.
    times = _times(grid, jumps.span)
    begin = start, method.start_looking(begun, y0)
    if schedule is None or not stopping:
        (path, _), counts = jax.lax.scan(functools.partial(until, begun), begin, times)
        return counts, path

    def stop(carry, where):
        inner, last = carry
        time, which = where
        during = _over(jumps, last, time)
        (path, looked), y = until(during, inner, time)
        path, y = _stopped(jumps, schedule, method, during, path, y, time, which)
        return ((path, looked), time), y

    stops = stops_of(schedule, jumps.t0, times)
    ((path, _), _), counts = jax.lax.scan(stop, (begin, zero), (stops.times, stops.which))
    return jax.tree.map(lambda x: x[stops.rows], counts), path


def _over(jumps: Jumps, begin, end) -> Jumps:
    """The same with the rates between two times since `t0`."""
    return jumps._replace(network=as_solved(within(jumps.network, jumps.t0 + begin, jumps.t0 + end)))


def _stopped(
    jumps: Jumps, schedule: Schedule, method: AbstractJumpMethod, during: Jumps, path: _Path, y, time, which
) -> tuple[_Path, Any]:
    """The path as it goes on after a stop, at which the counts are `y`, and the counts then."""
    dtype, t = time.dtype, jumps.t0 + time
    problem = just_after(jumps.network, t, jumps.t0, jumps.span)
    real = jax.tree.map(lambda x: x.astype(dtype), y)
    for i, event in enumerate(schedule.events):
        real = event.applied(which == i, problem, t, real)
    most = min(LARGEST_COUNT, 2 ** (jnp.finfo(dtype).nmant + 1))
    sound = jnp.bool_(True)
    for x in jax.tree.leaves(real):
        sound = sound & (jnp.round(x) == x) & (x >= 0) & (x <= most)
    going = path.status <= WAITING
    happens = going & (which >= 0)
    changed = happens & sound
    interrupted = going & (which != ROW)
    state = method.interrupted(during, path.y, path.state, time - path.elapsed)

    def where(condition, one, other):
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)

    counts = where(changed, jax.tree.map(lambda x: jnp.where(sound, x, 0.0).astype(jnp.int32), real), y)
    path = _Path(
        where(interrupted, counts, path.y),
        jnp.where(interrupted, time, path.elapsed),
        tuple(jnp.where(interrupted, 0.0, lost) for lost in path.lost),
        where(interrupted, state, path.state),
        path.steps,
        jnp.where(happens & ~sound, jnp.int32(BAD_EVENT), path.status),
        tuple(n + interrupted.astype(jnp.int32) for n in path.interruptions),
    )
    return path, where(interrupted, counts, y)


@jax.named_scope(STEPS)
def _turn(jumps: Jumps, method: AbstractJumpMethod, path: _Path, time, max_steps: int) -> _Path:
    """One proposal: taken, refused, or left for later where it ends beyond `time`."""
    index = _index(method, path)
    ahead = method.propose(jumps, path.y, path.state, index)
    step = ahead.tau + path.lost[0] if path.lost else ahead.tau
    end = path.elapsed + step
    y = jax.tree.map(jnp.add, path.y, ahead.change)
    most = jnp.uint32(0)  # a negative count is a large one, and so is one that wraps
    for x in jax.tree.leaves(y):
        most = jnp.maximum(most, x.astype(jnp.uint32))
    sound = most <= jnp.uint32(LARGEST_COUNT)
    status = jnp.where(ahead.accepted & ~sound, jnp.int32(BAD_COUNT), jnp.int32(RUNNING))
    status = jnp.where(index >= jnp.uint32(max_steps), jnp.int32(TOO_MANY_STEPS), status)
    status = jnp.where(ahead.accepted & (end > time), jnp.int32(WAITING), status)
    status = jnp.where(ahead.status != RUNNING, ahead.status, status)
    goes = status == RUNNING
    taken = goes & ahead.accepted

    def where(condition, one, other):
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)

    return _Path(
        where(taken, y, path.y),
        jnp.where(taken, end, path.elapsed),
        tuple(jnp.where(taken, step - (end - path.elapsed), lost) for lost in path.lost),
        where(goes, ahead.state, path.state),
        path.steps + taken.astype(jnp.int32),
        status,
        path.interruptions,
    )


def _index(method: AbstractJumpMethod, path: _Path):
    looked_at = path.steps + method.rejected(path.state)
    for count in path.interruptions:
        looked_at = looked_at + count
    return looked_at.astype(jnp.uint32)


def _packing(example):
    """How the loop's carry is laid out: scalars of one width in pairs, their bits as complex numbers.

    XLA's CPU compiler makes one kernel of each array that a loop body gives, and draws the random words again
    in each; a pair in one complex array is one kernel.
    """
    leaves, tree = jax.tree.flatten(example)
    dtypes = [leaf.dtype for leaf in leaves]
    floats = {4: jnp.float32, 8: jnp.float64}
    by_width: dict[int, list[int]] = {}
    for i, dtype in enumerate(dtypes):
        by_width.setdefault(dtype.itemsize, []).append(i)
    pairs = [tuple(where[i : i + 2]) for where in by_width.values() for i in range(0, len(where) - 1, 2)]
    single = [where[-1] for where in by_width.values() if len(where) % 2]

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
