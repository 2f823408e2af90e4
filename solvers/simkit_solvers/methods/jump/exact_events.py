"""One event at a time: the common part of the exact jump methods."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.jump.jump_method import (
    BAD_COUNT,
    BAD_PROPENSITY,
    RUNNING,
    AbstractJumpMethod,
    Jumps,
    Proposal,
    Underway,
    sound,
)


class NextEvent(NamedTuple):
    """The next event: after the time `tau`, and of which reaction.

    `number` is that of the reaction, or minus the status for which it cannot happen: a real number, so that
    both are carried as one array and made in one kernel.
    """

    tau: jax.Array
    number: jax.Array


class AbstractExactMethod(AbstractJumpMethod):
    """A method that proposes single events, none of which is sampled inside."""

    exact: ClassVar[bool] = True

    def in_leaps(self, state: PyTree) -> None:
        return None

    def start_sampling(self, jumps: Jumps, y: PyTree) -> PyTree:
        return ()

    def keep(self, jumps: Jumps, ahead: Proposal | None) -> tuple[()]:
        return ()

    def counts_at(self, jumps: Jumps, underway: Underway, time: jax.Array, sampled: Any) -> tuple[Any, Any]:
        return underway.y, ()


def event(jumps: Jumps, y: PyTree, a: tuple, tau: jax.Array, which: jax.Array) -> NextEvent:
    """The event of reaction `which`, a real number, for propensities `a`."""
    after = jax.tree.map(jnp.add, y, _change(jumps.network, which))
    number = jnp.where(sound(after), which, -float(BAD_COUNT))
    return NextEvent(tau, jnp.where(are_propensities(a), number, -float(BAD_PROPENSITY)))


def proposal(jumps: Jumps, drawn: NextEvent, state: PyTree) -> Proposal:
    """The event as a proposal, after which the method carries `state`."""
    bad = drawn.number == -float(BAD_PROPENSITY)
    return Proposal(
        drawn.tau,
        _change(jumps.network, drawn.number),
        tuple(jnp.int32(drawn.number == j) for j in range(len(jumps.network.reactions))),
        (),
        jnp.bool_(True),
        drawn.number != -float(BAD_COUNT),
        state,
        jnp.where(bad, jnp.int32(BAD_PROPENSITY), jnp.int32(RUNNING)),
    )


def _change(network, number):
    """The change of the counts by the reaction of this number, a real one, and none by any other."""
    changes = [each.change for each in network.reactions.values()]
    values = []
    for name in network.State._fields:
        value = jnp.int32(0)
        for j, change in enumerate(changes):
            if change.get(name, 0):
                value = jnp.where(number == j, jnp.int32(change[name]), value)
        values.append(value)
    return network.State(*values)


def waiting_time(exponential: jax.Array, propensity: jax.Array) -> jax.Array:
    """The time until an event, infinite where it never comes."""
    possible = propensity > 0
    return jnp.where(possible, exponential / jnp.where(possible, propensity, 1.0), jnp.inf)


def are_propensities(a: Sequence) -> jax.Array:
    """Whether all are at or above zero and finite."""
    least = most = a[0]
    for each in a[1:]:
        least, most = jnp.minimum(least, each), jnp.maximum(most, each)  # NaN where one is
    return (least >= 0) & (most < jnp.inf)
