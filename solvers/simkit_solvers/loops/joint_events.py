"""Events that several paths of a reaction network have in common: each fires at the marks below its rate."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from simkit_solvers.methods.jump.direct_method import running_sums
from simkit_solvers.methods.jump.exact_events import waiting_time
from simkit_solvers.methods.jump.jump_method import Jumps
from simkit_solvers.methods.jump.tau_leaping import MOST_EVENTS
from simkit_solvers.random.generator import block
from simkit_solvers.random.variates import below_one, exponential, poisson


class Layers(NamedTuple):
    """Layers of marks, each between two propensities that are neighbours: (layers, reactions).

    `rates` are those of events in each, `fires_in` `(paths, layers, reactions)` says whether a path fires
    there, and `timed` where events are drawn one at a time, since a path has them `by_itself`.
    """

    rates: jax.Array
    fires_in: jax.Array
    by_itself: jax.Array
    timed: jax.Array

    @staticmethod
    def of(a: jax.Array, by_itself: jax.Array) -> "Layers":
        """The layers of propensities `(paths, reactions)`."""
        tops = jnp.stack(_in_order(list(a)))
        rates = tops - jnp.concatenate([jnp.zeros_like(tops[:1]), tops[:-1]])
        fires_in = a[:, None] >= tops
        return Layers(rates, fires_in, by_itself, jnp.any(fires_in & by_itself[:, None], 0))


class JointEvents(NamedTuple):
    """The events of a piece: `count` in each layer, of which `single` is the one at its end, if any.

    `few` is whether the means of the others could be drawn.
    """

    time: jax.Array
    count: jax.Array
    single: jax.Array
    few: jax.Array


def joint_events(
    jumps: Jumps, layers: Layers, piece: jax.Array, now: jax.Array, until: jax.Array
) -> JointEvents:
    """The events of piece number `piece`, from `now` to the first single event, at most to `until`."""
    shape, largest = layers.rates.shape, MOST_EVENTS[8]
    sums = running_sums(list(jnp.where(layers.timed, layers.rates, 0.0).reshape(-1)))
    words = block(jumps.noise.events, piece, jnp.uint32(0))
    event = now + waiting_time(exponential(words.a).astype(now.dtype), sums[-1])
    time = jnp.minimum(event, until)
    level, below = below_one(words.b, now.dtype) * sums[-1], jnp.stack(sums)
    before = jnp.concatenate([jnp.zeros_like(below[:1]), below[:-1]])
    single = ((event <= until) & (before <= level) & (level < below)).reshape(shape)

    means = jnp.where(layers.timed, 0.0, layers.rates * (time - now))
    numbers = jnp.arange(means.size, dtype=jnp.uint32) + jnp.uint32(1)
    keys = jax.lax.optimization_barrier(jax.vmap(lambda j: block(jumps.noise.events, piece, j))(numbers))
    leapt = jax.vmap(poisson)(keys, jnp.minimum(means, largest).reshape(-1)).reshape(shape)
    return JointEvents(time, leapt + single.astype(jnp.int32), single, ~jnp.any(means >= largest))


def _in_order(rows: list) -> list:
    """Arrays sorted elementwise: a few comparisons, where a sort is a call for each lane."""
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            rows[i], rows[j] = jnp.minimum(rows[i], rows[j]), jnp.maximum(rows[i], rows[j])
    return rows
