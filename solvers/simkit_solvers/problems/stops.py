"""Where a run with steps of its own stops: at saved times, nodes of functions of time, and events."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.calendar import Schedule

ROW, NODE = -2, -1  # what a stop is, if it is not an event
NO_FUNCTION = -1


class Stops(NamedTuple):
    """Where a run with steps of its own stops, in order: saved times, nodes and events.

    `which` is the number of an event, or `NODE` or `ROW`; `rows` are the places of the saved times, each
    behind everything else at the same time. `passed`, `(stops, functions)`, says which functions of time have
    a node at the time of a stop, there or at one of the stops before.
    """

    times: jax.Array
    which: jax.Array
    rows: jax.Array
    passed: jax.Array

    def around(self, span: Scalar) -> tuple[jax.Array, jax.Array]:
        """For each stop the times of the last node or event before it, and of the next, itself included.

        They are 0 and `span` where there is none.
        """
        changes = self.which != ROW
        last = jax.lax.cummax(jnp.where(changes, self.times, 0.0))
        following = jax.lax.cummin(jnp.where(changes, self.times, span), reverse=True)
        return jnp.concatenate([jnp.zeros_like(last[:1]), last[:-1]]), following


def stops_of(schedule: Schedule, start: Scalar, times: Float[Array, " times"]) -> Stops:
    """The stops of a run from `start`, of which the given times since then are saved.

    A stop at a saved time, but for rounding, is at the very same; how it moves remains its own.
    """
    dtype, span = times.dtype, times[-1]
    stops, kinds, owners = [], [], []

    def add(new, kind: int, owner: int) -> None:
        stops.append(new)
        kinds.append(np.full(len(new), kind))
        owners.append(np.full(len(new), owner))

    for i, function in enumerate(schedule.functions):
        for nodes in function.nodes:
            since = jnp.asarray(nodes, dtype) - start
            # Not jnp.clip, which halves the derivative at the ends.
            add(jnp.where(since < 0, 0.0, jnp.where(since > span, span, since)), NODE, i)
    for i, event in enumerate(schedule.events):
        add(jnp.asarray(event.times, dtype) - start, i, NO_FUNCTION)
    tolerance = 16 * jnp.finfo(dtype).eps * (jnp.abs(start) + span)

    def snapped(t):
        """The saved time to which `t` is equal up to rounding, else `t`."""
        near = jnp.searchsorted(times, t - tolerance)
        row = times[jnp.clip(near, 0, len(times) - 1)]
        at_row = jax.lax.stop_gradient(row) + (t - jax.lax.stop_gradient(t))
        return jnp.where(jnp.abs(t - row) <= tolerance, at_row, t)

    everything = jnp.concatenate([*(snapped(each) for each in stops), times])
    which, owner = (
        jnp.asarray(np.concatenate([*each, np.full(len(times), last)]), jnp.int32)
        for each, last in ((kinds, ROW), (owners, NO_FUNCTION))
    )
    order = jnp.argsort(everything, stable=True)
    places = jnp.argsort(order, stable=True)[-len(times) :]
    in_order = everything[order]
    own = owner[order][:, None] == np.arange(len(schedule.functions), dtype=np.int32)
    last = jax.lax.cummax(jnp.where(own, jax.lax.stop_gradient(in_order)[:, None], -jnp.inf))
    return Stops(in_order, which[order], places, last == in_order[:, None])
