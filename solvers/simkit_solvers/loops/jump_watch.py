"""What an observer sees of a path of the jump process between the times that are saved."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simkit_solvers.problems.observe import stops_before
from simkit_solvers.problems.schedule import just_after


class Watched(NamedTuple):
    """An observer's accumulators, and the time since t0 at which it last saw the path."""

    acc: Any
    last: jax.Array


def first_seen(jumps, time, y) -> Any:
    """The accumulators at t0, after what happens then."""
    t = jumps.t0 + time
    problem = just_after(jumps.seen, t, jumps.t0, jumps.span)
    return jumps.observer.init(problem, t, in_real_numbers(y, time.dtype))


def shown(jumps, watched: Watched, time, y, after=None, problem=None) -> Watched:
    """What the observer has accumulated once it has seen the counts `y` at a time since t0.

    They may change there, to `after`, and the network, to `problem`.
    """
    k, t, seen = stops_before(jumps.observer, time, jumps.span), jumps.t0 + time, jumps.seen
    real = in_real_numbers(y, time.dtype)
    acc = jumps.observer.update(seen, watched.acc, k, t, real, time - watched.last)
    if after is not None:
        now = seen if problem is None else problem, in_real_numbers(after, time.dtype)
        acc = jumps.observer.changed(acc, k, t, (seen, real), now)
    return Watched(acc, time)


def before_its_end(jumps, y, inside) -> Any:
    """The counts before the events that end a leap, which begins in `y`."""
    return jax.tree.map(lambda x, d: jnp.maximum(x + d, 0), y, jumps.network.change(inside, y))


def in_real_numbers(y, dtype) -> Any:
    """Counts in the precision of a run."""
    return jax.tree.map(lambda x: x.astype(dtype), y)
