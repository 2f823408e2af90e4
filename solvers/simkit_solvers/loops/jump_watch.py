"""An observer's view of a path of the jump process between saved times."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from simkit_solvers.methods.jump.jump_method import Jumps
from simkit_solvers.problems.observe import AbstractObserver, stops_before
from simkit_solvers.problems.schedule import just_after


class Watched(NamedTuple):
    """An observer's accumulators, and the time since t0 at which it last saw the path."""

    acc: Any
    last: jax.Array


def first_seen(jumps: Jumps, time: jax.Array, y: PyTree) -> Any:
    """The accumulators at t0, after the events at that time."""
    t, observer = jumps.t0 + time, _observer(jumps)
    problem = just_after(jumps.seen, t, jumps.t0, jumps.span)
    return observer.init(problem, t, in_real_numbers(y, time.dtype))


def shown(
    jumps: Jumps,
    watched: Watched,
    time: jax.Array,
    y: PyTree,
    after: PyTree | None = None,
    problem: Any = None,
) -> Watched:
    """What the observer has accumulated after it has seen the counts `y` at a time since t0.

    They may change there, to `after`, and the network, to `problem`.
    """
    observer, t, seen = _observer(jumps), jumps.t0 + time, jumps.seen
    k = stops_before(observer, time, jumps.span)
    real = in_real_numbers(y, time.dtype)
    acc = observer.update(seen, watched.acc, k, t, real, time - watched.last)
    if after is not None:
        now = seen if problem is None else problem, in_real_numbers(after, time.dtype)
        acc = observer.changed(acc, k, t, (seen, real), now)
    return Watched(acc, time)


def _observer(jumps: Jumps) -> AbstractObserver:
    if jumps.observer is None:
        raise RuntimeError("no observer has to see the path")
    return jumps.observer


def before_its_end(jumps: Jumps, y: PyTree, inside: Any) -> Any:
    """The counts before the events that end a leap, which begins in `y`."""
    return jax.tree.map(lambda x, d: jnp.maximum(x + d, 0), y, jumps.network.change(inside, y))


def in_real_numbers(y: PyTree, dtype: DTypeLike) -> Any:
    """Counts in the precision of a run."""
    return jax.tree.map(lambda x: x.astype(dtype), y)
