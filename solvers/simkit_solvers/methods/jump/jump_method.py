"""The contract of a jump method: it proposes the next event, or a leap over several."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree, UInt32

from simkit_solvers.numerics.bounds import UnboundedError, bounds
from simkit_solvers.numerics.intervals import Enclosure, widened
from simkit_solvers.numerics.traced import reads
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import as_solved, between, model_of
from simkit_solvers.random.generator import Stream, Words, stream_key

RUNNING, WAITING, BAD_PROPENSITY, BAD_COUNT, TOO_MANY_STEPS, BAD_EVENT = range(6)
NO_RATIO, MOVED_EVENT, NO_BOUND = range(6, 9)
LARGEST_COUNT = 2_000_000_000  # the bits of integers above 2 139 095 039 are those of NaN, which may change
REASONS = {
    BAD_PROPENSITY: "a propensity is negative or not finite",
    BAD_COUNT: "a count would leave 0 … 2 000 000 000",
    TOO_MANY_STEPS: "max_steps were taken",
    BAD_EVENT: "an event sets a count that is not a whole number from 0 to 2 000 000 000, or one too large "
    "for the precision",
    NO_RATIO: "a propensity of zero changes with the parameter, so that paths of other values are impossible "
    "here and have no likelihood ratio; use weak derivatives or finite differences",
    MOVED_EVENT: "the parameter moves the time of an event, or the counts that it sets, which a likelihood "
    "ratio does not see; use finite differences",
    NO_BOUND: "a propensity that changes with time has no finite bound, however short the time",
}


class JumpNoise(eqx.Module):
    """The stream keys of one path: of its events, and of what is sampled inside a leap.

    >>> from simkit_solvers import JumpNoise, seed_key
    >>> type(JumpNoise.of(seed_key(1), path=7).events).__name__
    'Words'
    """

    events: Words
    inside: Words

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int) -> "JumpNoise":
        """The noise of one path id under a key."""
        return JumpNoise(stream_key(key, path, Stream.JUMPS), stream_key(key, path, Stream.INSIDE_LEAPS))


class Proposal(NamedTuple):
    """What comes next: after the time `tau` the counts change by `change`, if it is `accepted`.

    `fired` counts the events of each reaction in it, `inside` those of them that may lie anywhere in a leap.
    It is `sound` if no count leaves 0 … `LARGEST_COUNT`. `state` is the method's own after it, `status` one
    of the reasons why a path cannot go on, or `RUNNING`. If it is not `counted`, only time passes.
    """

    tau: jax.Array
    change: Any
    fired: tuple
    inside: tuple
    accepted: jax.Array
    sound: jax.Array
    state: Any
    status: jax.Array
    counted: jax.Array | bool = True


class Leap(NamedTuple):
    """What remains of a leap that goes beyond a saved time, and so was accepted; see `Proposal`.

    `fired` and `inside` have an element for each reaction.
    """

    tau: jax.Array
    fired: jax.Array
    inside: jax.Array


class Underway(NamedTuple):
    """A proposal that is not complete yet, from the counts `y` at the time `start`.

    `ahead` is what the method keeps of it, `index` how many proposals the path has seen.
    """

    y: Any
    ahead: Any
    index: jax.Array
    start: jax.Array


class Jumps(NamedTuple):
    """What a method reads in addition to the counts: the network, the noise, and the length of the run.

    `directions` are tangents of the network in which the loop accumulates scores. `observer` is one that has
    to see the path between saved times, with `seen`, the network with its schedule. Where rates are `varying`
    between events they are those at the time `now`, and have no node before `end`, both since `t0`.
    """

    network: AbstractReactionNetwork
    noise: JumpNoise
    t0: jax.Array
    span: jax.Array
    directions: tuple = ()
    observer: AbstractObserver | None = None
    seen: Any = None
    varying: bool = False
    now: Any = 0.0
    end: Any = None

    def at(self, time: jax.Array) -> "Jumps":
        """With the rates at a time since `t0`."""
        return self._replace(now=time)

    def propensities(self, y: PyTree) -> tuple:
        """The propensities of counts, in the precision of the run."""
        real = jax.tree.map(lambda x: x.astype(self.span.dtype), y)
        return self.network.propensities(self.t0 + self.now if self.varying else self.t0, real)

    def largest_propensities(self, y: PyTree, until: jax.Array) -> tuple:
        """What no propensity of the counts exceeds from now to a time since `t0`; NaN if it is not known."""
        real = jax.tree.map(lambda x: x.astype(self.span.dtype), y)
        time = widened(Enclosure(self.t0 + self.now, self.t0 + until))
        return tuple(a.high for a in bounds(lambda t: self.network.propensities(t, real), time))


class AbstractJumpMethod(eqx.Module):
    """How the next event of a network is drawn.

    `exact` methods sample the jump process itself. Where one `follows_time`, rates may change continuously
    between events.

    >>> from simkit_solvers import AbstractJumpMethod, DirectMethod, TauLeaping
    >>> issubclass(DirectMethod, AbstractJumpMethod), DirectMethod().exact, TauLeaping().exact
    (True, True, False)
    """

    exact: eqx.AbstractClassVar[bool]
    follows_time: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def init(self, jumps: Jumps, y: PyTree) -> Any:
        """What it carries in addition to the counts."""

    @abc.abstractmethod
    def draw(self, jumps: Jumps, y: PyTree, state: PyTree, index: jax.Array) -> Any:
        """What is drawn for the next event or leap from `y`: a few numbers, first those that cost most.

        `index` (`uint32`) counts the proposals so far.
        """

    @abc.abstractmethod
    def propose(self, jumps: Jumps, y: PyTree, state: PyTree, drawn: PyTree) -> Proposal:
        """The next event or leap from `y`, given what was drawn for it there."""

    @abc.abstractmethod
    def interrupted(self, jumps: Jumps, y: PyTree, state: PyTree, after: jax.Array) -> Any:
        """What it carries after an interruption, `after` a time in which nothing happened.

        `jumps` and `y` are those of before. The next proposal has another index.
        """

    @abc.abstractmethod
    def rejected(self, state: PyTree) -> jax.Array:
        """How many proposals were not accepted so far, as `int32`."""

    @abc.abstractmethod
    def in_leaps(self, state: PyTree) -> jax.Array | None:
        """How many events all leaps so far have held, as a real number; None of a method without leaps."""

    @abc.abstractmethod
    def start_sampling(self, jumps: Jumps, y: PyTree) -> Any:
        """What `counts_at` carries from one saved time to the next."""

    @abc.abstractmethod
    def keep(self, jumps: Jumps, ahead: Proposal | None) -> Any:
        """What `counts_at` needs of a proposal: a `Leap`, or nothing; what stands for it before the first."""

    @abc.abstractmethod
    def counts_at(self, jumps: Jumps, underway: Underway, time: jax.Array, sampled: Any) -> tuple[Any, Any]:
        """The counts at a saved `time` before a proposal is complete, and what is carried to the next one."""


def varies(network: AbstractReactionNetwork) -> bool:
    """Whether propensities change with time between the nodes of a network's schedule."""
    piece, y = _piece(network)
    return reads(lambda t: piece.propensities(t, y), jnp.zeros(()))


def check_rates(network: AbstractReactionNetwork, method: type) -> None:
    """Raise `ValueError` when rates change between events in a way that a jump method cannot follow."""
    if not varies(network):
        return
    name = type(model_of(network)).__name__
    others = "a solver for stochastic equations, such as EulerMaruyama"
    if not method.follows_time:
        raise ValueError(
            f"{name}: a rate changes continuously with time, and {method.__name__} takes rates as constant "
            "between events; use DirectMethod, which is exact, make what depends on t a curve with "
            f"interpolation: previous, which changes at its times only, or use {others}"
        )
    piece, y = _piece(network)

    def bounded(t):
        return bounds(lambda t: piece.propensities(t, y), Enclosure(t, t))

    try:
        with jax.numpy_dtype_promotion("standard"):
            jax.eval_shape(bounded, jnp.zeros(()))
    except UnboundedError as error:
        raise ValueError(
            f"{name}: a rate depends on t by the operation {error}, for which {method.__name__} has no bound "
            f"over a time; write it with other functions or as a curve, or use {others}"
        ) from error


def _piece(network: AbstractReactionNetwork) -> tuple[Any, Any]:
    """A network over a time without nodes, and a state of it."""
    with jax.numpy_dtype_promotion("standard"):  # of whatever precision its own numbers are
        piece: Any = as_solved(between(network, 0.0, 1.0))
    return piece, piece.State(*(jnp.ones(()) for _ in piece.State._fields))


def sound(y: PyTree) -> jax.Array:
    """Whether all counts are in 0 … `LARGEST_COUNT`."""
    most = jnp.uint32(0)  # a negative count is a large one, and so is one that wraps
    for x in jax.tree.leaves(y):
        most = jnp.maximum(most, x.astype(jnp.uint32))
    return most <= jnp.uint32(LARGEST_COUNT)
