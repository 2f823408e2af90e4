"""Gillespie's direct method, for rates that change with time too."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.jump.exact_events import (
    AbstractExactMethod,
    NextEvent,
    event,
    proposal,
    waiting_time,
)
from simkit_solvers.methods.jump.jump_method import NO_BOUND, Jumps, Proposal
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.random.generator import block
from simkit_solvers.random.variates import below_one, exponential

SHORTER, LONGER = 0.7, 2.0  # the next window, after a candidate of none and after none at all
SHORTEST = 64  # roundings of the clock: below that the search for a window with a bound ends


class Windows(NamedTuple):
    """The `length` of the next window, and how many proposals so far were no event: `empty`."""

    length: jax.Array
    empty: jax.Array


class DirectMethod(AbstractExactMethod):
    r"""Gillespie's direct method: with $a_0 = \sum_j a_j(X)$ the next event comes after
    $\tau = E / a_0$, E exponential of mean 1, and is of reaction j with probability $a_j / a_0$.

    Where rates change continuously with time, a bound $B \ge a_0$ holds over a window of time, by interval
    arithmetic. A candidate after $\tau = E / B$ is of reaction j with probability $a_j(t + \tau) / B$, and of
    none with what is left of 1. If it is beyond the window, none came before its end. Windows are as long
    as it takes for both to be rare: shorter after a candidate of none, longer after a window without any.

    Exact. One call of the generator an event or candidate: E from 31 random bits, the reaction from 24 in
    float32 and 31 in float64, so a reaction rarer among the events than that is not resolved.
    References: Gillespie (1977), Exact stochastic simulation of coupled chemical reactions,
    doi:10.1021/j100540a008; Lewis & Shedler (1979), Simulation of nonhomogeneous Poisson processes by
    thinning, doi:10.1002/nav.3800260304; Voliotis, Thomas, Grima & Bowsher (2016), Stochastic simulation of
    biomolecular networks in dynamic environments, doi:10.1371/journal.pcbi.1004923.
    """

    follows_time: ClassVar[bool] = True

    def init(self, jumps: Jumps, y: PyTree) -> PyTree:
        return Windows(jumps.span, jnp.int32(0)) if jumps.varying else ()

    def draw(self, jumps: Jumps, y: PyTree, state: PyTree, index: jax.Array) -> PyTree:
        if jumps.varying:
            return _candidate(jumps, y, state, index)
        a = jumps.propensities(y)
        words = block(jumps.noise.events, index, jnp.uint32(0))
        below = running_sums(a)
        total = below[-1]
        tau = waiting_time(exponential(words.a).astype(total.dtype), total)
        level = below_one(words.b, total.dtype) * total
        return event(jumps, y, a, tau, first_above(level, below))

    def propose(self, jumps: Jumps, y: PyTree, state: PyTree, drawn: PyTree) -> Proposal:
        if not jumps.varying:
            return proposal(jumps, drawn, ())
        rejected, without = (drawn.number == number for number in _no_events(jumps))
        length = jnp.minimum(state.length, jumps.span)
        length = jnp.where(rejected, SHORTER * length, jnp.where(without, LONGER * length, length))
        empty = rejected | without
        after = Windows(length, state.empty + empty.astype(jnp.int32))
        ahead = proposal(jumps, drawn, after)
        unbounded = drawn.number == -float(NO_BOUND)
        status = jnp.where(unbounded, jnp.int32(NO_BOUND), ahead.status)
        return ahead._replace(counted=~empty, status=status)

    def rejected(self, state: PyTree) -> jax.Array:
        return state.empty if isinstance(state, Windows) else jnp.int32(0)

    def interrupted(self, jumps: Jumps, y: PyTree, state: PyTree, after: jax.Array) -> PyTree:
        return state  # what comes next is drawn again: an exponential time has no memory


def _no_events(jumps: Jumps) -> tuple[float, float]:
    """The numbers of a candidate of no reaction, and of a window without candidates."""
    reactions = len(jumps.network.reactions)
    return float(reactions), float(reactions + 1)


def _candidate(jumps: Jumps, y: PyTree, windows: Windows, index: jax.Array) -> NextEvent:
    """The next candidate, or the end of a window without any, after which rates may have another bound."""
    rejected, without = _no_events(jumps)
    now, zero = jumps.now, jnp.zeros_like(jumps.span)
    until = jnp.minimum(now + windows.length, jumps.end)
    length = until - now
    bound = sum((jnp.maximum(a, 0.0) for a in jumps.largest_propensities(y, until)), zero)
    known = bound < jnp.inf
    bound = jnp.where(known, bound, jnp.inf)  # a candidate of none, at once: the next window is shorter
    words = block(jumps.noise.events, index, jnp.uint32(0))
    wait = waiting_time(exponential(words.a).astype(zero.dtype), bound)
    inside = wait < length
    # No rate is known beyond the end: there the path stops, and draws again if it goes on.
    tau = jnp.where(inside, wait, jnp.where(until < jumps.end, length, jnp.inf))
    a = jumps.at(jnp.where(inside, jnp.minimum(now + wait, until), until)).propensities(y)
    below = running_sums(a)
    level = below_one(words.b, zero.dtype) * jnp.where(known, bound, 1.0)
    which = jnp.where(known, first_above(level, [*below, below[-1]]), rejected)
    drawn = event(jumps, y, a, tau, jnp.where(inside, which, without))
    eps = float(jnp.finfo(zero.dtype).eps)
    shortest = SHORTEST * eps * (abs(jumps.t0) + jumps.span)
    # What is computed twice may differ by rounding, from which no bound protects.
    lost = inside & jnp.where(known, bound * (1 + eps**0.5) < below[-1], windows.length < shortest)
    return drawn._replace(number=jnp.where(lost & (drawn.number >= 0), -float(NO_BOUND), drawn.number))


def running_sums(a: Sequence) -> list:
    """$a_1, a_1 + a_2, \\dots, a_0$."""
    sums = [a[0]]
    for each in a[1:]:
        sums.append(sums[-1] + each)
    return sums


def first_above(level: jax.Array, sums: Sequence) -> jax.Array:
    """The number of the first running sum above `level`, as a real one.

    The level is below the last sum, so that a reaction without propensity is never chosen.
    """
    number = jnp.zeros_like(level)
    for each in sums[:-1]:
        number = number + (level >= each).astype(level.dtype)
    return number


DIRECT_METHOD = SolverInfo(
    DirectMethod, "Gillespie's direct method: every event of a reaction network, exactly."
)
