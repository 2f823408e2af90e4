"""Reactions with a clock each: the common part of the next reaction methods."""

import abc
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.methods.jump.exact_events import AbstractExactMethod, event, proposal, waiting_time
from simkit_solvers.methods.jump.jump_method import Jumps, Proposal


class Clocks(NamedTuple):
    """What is `left` on the clock of each reaction; how often it was `wound`, if the method counts that."""

    left: tuple
    wound: tuple


class Ring(NamedTuple):
    """The next event, see `NextEvent`, and the `fresh` time to which the clock that rings is wound."""

    tau: jax.Array
    number: jax.Array
    fresh: jax.Array


class AbstractClockMethod(AbstractExactMethod):
    r"""The clock of reaction j runs at the rate $a_j(X)$ and rings after an exponential time of mean 1.

    With $s_j$ what is left on it, the next event is that of the least $s_j / a_j$; the other clocks run on,
    and that one is wound again.
    """

    follows_time: ClassVar[bool] = False

    @abc.abstractmethod
    def fresh(
        self, jumps: Jumps, clocks: Clocks, which: Float[Array, ""], index: UInt32[Array, ""]
    ) -> Float[Array, ""]:
        """The exponential time to which clock `which`, a real number, is wound when it rings."""

    def draw(self, jumps: Jumps, y: PyTree, state: PyTree, index: jax.Array) -> PyTree:
        a = jumps.propensities(y)
        waits = [waiting_time(s, each) for s, each in zip(state.left, a, strict=True)]
        tau, which = waits[0], jnp.zeros_like(waits[0])
        for j, wait in enumerate(waits[1:], 1):
            sooner = wait < tau
            tau, which = jnp.where(sooner, wait, tau), jnp.where(sooner, float(j), which)
        fresh = self.fresh(jumps, state, which, index).astype(tau.dtype)
        return Ring(*event(jumps, y, a, tau, which), fresh)

    def propose(self, jumps: Jumps, y: PyTree, state: PyTree, drawn: PyTree) -> Proposal:
        rings = [drawn.number == j for j in range(len(state.left))]
        passed = jnp.where(drawn.tau < jnp.inf, drawn.tau, 0.0)
        left = tuple(
            jnp.where(now, drawn.fresh, s)
            for now, s in zip(rings, self._run_on(jumps, y, state, passed), strict=True)
        )
        wound = tuple(n + rings[j].astype(n.dtype) for j, n in enumerate(state.wound))
        return proposal(jumps, drawn, Clocks(left, wound))

    def rejected(self, state: PyTree) -> jax.Array:
        return jnp.int32(0)

    def interrupted(self, jumps: Jumps, y: PyTree, state: PyTree, after: jax.Array) -> PyTree:
        return state._replace(left=self._run_on(jumps, y, state, after))

    def _run_on(self, jumps: Jumps, y: PyTree, state: Clocks, passed: Float[Array, ""]) -> tuple:
        """What is left on the clocks after a time in which none rings."""
        runs = zip(state.left, jumps.propensities(y), strict=True)
        return tuple(jnp.maximum(s - jnp.where(a > 0, a * passed, 0.0), 0.0) for s, a in runs)
