"""The next reaction method, as modified by Anderson."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from simkit_solvers.direct_method import propensity_status, waiting_time
from simkit_solvers.generator import block
from simkit_solvers.jumps import AbstractJumpMethod, Proposal
from simkit_solvers.solver_info import SolverInfo
from simkit_solvers.variates import exponential


class NextReaction(AbstractJumpMethod):
    r"""The modified next reaction method: reaction j has a clock of its own, which runs at the rate $a_j(X)$
    and rings after an exponential time of mean 1. With $s_j$ what is left on it, the next event is that of
    the least $s_j / a_j$; the other clocks run on, and that one is wound anew.

    Exact, one exponential an event. The clocks of Gibson & Bruck ring in the time of the process and are
    kept in a queue; here none is stretched as propensities change and there is nothing to sort, which on
    vectors of paths would be a gather of its own for each path. An independent check of `DirectMethod`; it
    carries one number more a reaction and draws one less an event.
    References: Gibson & Bruck (2000), doi:10.1021/jp993732q; Anderson (2007), A modified next reaction method
    for simulating chemical systems with time dependent propensities and delays, doi:10.1063/1.2799998.
    """

    exact: ClassVar[bool] = True

    def init(self, jumps, y):
        words = []
        for i in range((len(jumps.network.reactions) + 1) // 2):
            words += block(jumps.noise.events, jnp.uint32(0), jnp.uint32(1 + i))
        left = [exponential(word).astype(jumps.span.dtype) for word in words]
        return tuple(left[: len(jumps.network.reactions)])

    def propose(self, jumps, y, state, index):
        a = jumps.propensities(y)
        waits = [waiting_time(s, each) for s, each in zip(state, a, strict=True)]
        tau = waits[0]
        for wait in waits[1:]:
            tau = jnp.minimum(tau, wait)
        fresh = exponential(block(jumps.noise.events, index, jnp.uint32(0)).a).astype(tau.dtype)
        left, fired, none_yet = [], [], jnp.bool_(True)
        for s, each, wait in zip(state, a, waits, strict=True):
            rings = none_yet & (wait == tau)  # the first of two that ring together
            none_yet = none_yet & ~rings
            fired.append(rings.astype(jnp.int32))
            run = jnp.where(each > 0, each * jnp.where(tau < jnp.inf, tau, 0.0), 0.0)
            left.append(jnp.where(rings, fresh, jnp.maximum(s - run, 0.0)))
        change = jax.tree.map(lambda x: x.astype(jnp.int32), jumps.network.change(fired, y))
        return Proposal(tau, change, tuple(fired), (), jnp.bool_(True), tuple(left), propensity_status(a))

    def interrupted(self, jumps, y, state, after):
        runs = zip(state, jumps.propensities(y), strict=True)
        return tuple(jnp.maximum(s - a * after, 0.0) for s, a in runs)  # the clocks run on

    def rejected(self, state):
        return jnp.int32(0)

    def start_looking(self, jumps, y):
        return ()

    def look(self, jumps, y, ahead, index, elapsed, time, looked):
        return y, ()


NEXT_REACTION = SolverInfo(
    name="NextReaction",
    cls=NextReaction,
    problem=("jump",),
    summary="Modified next reaction method: every event of a reaction network, exactly, by clocks.",
    reference="Anderson (2007), A modified next reaction method for simulating chemical systems with time "
    "dependent propensities and delays, doi:10.1063/1.2799998",
    origin="simkit",
)
