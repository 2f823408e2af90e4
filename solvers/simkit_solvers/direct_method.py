"""Gillespie's direct method."""

from typing import ClassVar

import jax.numpy as jnp

from simkit_solvers.generator import block
from simkit_solvers.jumps import BAD_PROPENSITY, RUNNING, AbstractJumpMethod, Proposal
from simkit_solvers.solver_info import SolverInfo
from simkit_solvers.variates import below_one, exponential


class DirectMethod(AbstractJumpMethod):
    r"""Gillespie's direct method: with $a_0 = \sum_j a_j(X)$ the next event comes after
    $\tau = E / a_0$, E exponential of mean 1, and is of reaction j with probability $a_j / a_0$.

    Exact. One call of the generator an event: E from 31 random bits, the reaction from 24 in float32 and 31
    in float64, so a reaction rarer among the events than that is not resolved.
    Reference: Gillespie (1977), Exact stochastic simulation of coupled chemical reactions,
    doi:10.1021/j100540a008.
    """

    exact: ClassVar[bool] = True

    def init(self, jumps, y):
        return ()

    def propose(self, jumps, y, state, index):
        a = jumps.propensities(y)
        words = block(jumps.noise.events, index, jnp.uint32(0))
        below = running_sums(a)
        total = below[-1]
        tau = waiting_time(exponential(words.a).astype(total.dtype), total)
        level = below_one(words.b, total.dtype) * total
        change = chosen(jumps.network, level, below)
        return Proposal(tau, change, fired(level, below), (), jnp.bool_(True), (), propensity_status(a))

    def interrupted(self, jumps, y, state, after):
        return ()  # what comes next is drawn anew, which the exponential law does not notice

    def rejected(self, state):
        return jnp.int32(0)

    def start_looking(self, jumps, y):
        return ()

    def look(self, jumps, y, ahead, index, elapsed, time, looked):
        return y, ()


def running_sums(a) -> list:
    """$a_1, a_1 + a_2, \\dots, a_0$."""
    sums = [a[0]]
    for each in a[1:]:
        sums.append(sums[-1] + each)
    return sums


def waiting_time(exponential, propensity):
    """The time until an event, infinite where it never comes."""
    possible = propensity > 0
    return jnp.where(possible, exponential / jnp.where(possible, propensity, 1.0), jnp.inf)


def chosen(network, level, sums):
    """The change of the counts by the reaction whose running sum is the first above `level`.

    The level is below the last sum, so that a reaction without propensity never fires.
    """
    changes = [each.change for each in network.reactions.values()]
    tests = [level < each for each in sums[:-1]]
    found = []
    for name in network.State._fields:
        steps = [change.get(name, 0) for change in changes]
        value = jnp.int32(steps[-1])
        for j in reversed(range(len(tests))):
            if steps[j] != steps[j + 1]:  # where a test holds, all after it do
                value = jnp.where(tests[j], jnp.int32(steps[j]), value)
        found.append(value)
    return network.State(*found)


def fired(level, sums) -> tuple:
    """Which reaction that is: one event of it, none of the others."""
    found, before = [], jnp.bool_(False)
    for each in sums:
        found.append((~before & (level < each)).astype(jnp.int32))
        before = before | (level < each)
    return tuple(found)


def propensity_status(a):
    """`BAD_PROPENSITY` unless all are at or above zero and finite."""
    least = most = a[0]
    for each in a[1:]:
        least, most = jnp.minimum(least, each), jnp.maximum(most, each)  # NaN where one is
    return jnp.where((least >= 0) & (most < jnp.inf), jnp.int32(RUNNING), jnp.int32(BAD_PROPENSITY))


DIRECT_METHOD = SolverInfo(
    name="DirectMethod",
    cls=DirectMethod,
    problem=("jump",),
    summary="Gillespie's direct method: every event of a reaction network, exactly.",
    reference="Gillespie (1977), Exact stochastic simulation of coupled chemical reactions, "
    "doi:10.1021/j100540a008",
    origin="simkit",
)
