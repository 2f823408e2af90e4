"""The loop of the jump process: one event, or one leap over several, at a time.

Counts are `int32` scalars, one a species. The draws of a path are a pure function of (key, path, how many
proposals it has looked at), so its events do not depend on the ensemble, nor on the times that are saved: an
event beyond a saved time is not taken, and is proposed again, the same, when the path goes on.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.generator import Stream, Words, stream_key
from simkit_solvers.jump_grid import JumpGrid
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.reaction_network import AbstractReactionNetwork

RUNNING, WAITING, BAD_PROPENSITY, BAD_COUNT, TOO_MANY_STEPS = range(5)
LARGEST_COUNT = 2_000_000_000  # the bits of integers above 2 139 095 039 are those of NaN, which may change
REASONS = {
    BAD_PROPENSITY: "a propensity is negative or not finite",
    BAD_COUNT: "a count would leave 0 … 2 000 000 000",
    TOO_MANY_STEPS: "max_steps were taken",
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
    """What a path's loop carries. `lost` is what rounding has taken from `elapsed`, and empty in float64."""

    y: Any
    elapsed: jax.Array
    lost: tuple
    state: Any
    steps: jax.Array
    status: jax.Array


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
    derivative along a path. Raises `ValueError` for rates that depend on time: between events they are taken
    as constant.
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
    acc = observer.init(network, start, jax.tree.map(lambda x: x[0], real))
    rows = jax.vmap(lambda t, y: observer.row(network, acc, start + t, y))(times, real)
    failed = end.status > WAITING
    there = ~failed | (times <= end.elapsed)
    rows = jax.tree.map(lambda x: jnp.where(there, x, jnp.nan), rows)
    reached = start + jnp.where(failed, end.elapsed, span)
    return JumpRun(counts, rows, end.steps, method.rejected(end.state), reached, end.status)


def check_rates(network: AbstractReactionNetwork) -> None:
    """Raise `ValueError` when rates depend on time, which jump methods take as constant between events."""
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
    start = _Path(y0, zero, lost, method.init(jumps, y0), none, none)
    pack, unpack = _packing(start)

    def row(carry, time):
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
    (path, _), counts = jax.lax.scan(row, (start, method.start_looking(jumps, y0)), times)
    return counts, path


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
    )


def _index(method: AbstractJumpMethod, path: _Path):
    return (path.steps + method.rejected(path.state)).astype(jnp.uint32)


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
