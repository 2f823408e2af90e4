"""Gillespie's direct method."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.jump.exact_events import AbstractExactMethod, event, proposal, waiting_time
from simkit_solvers.methods.jump.jump_method import Jumps, Proposal
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.random.generator import block
from simkit_solvers.random.variates import below_one, exponential


class DirectMethod(AbstractExactMethod):
    r"""Gillespie's direct method: with $a_0 = \sum_j a_j(X)$ the next event comes after
    $\tau = E / a_0$, E exponential of mean 1, and is of reaction j with probability $a_j / a_0$.

    Exact. One call of the generator an event: E from 31 random bits, the reaction from 24 in float32 and 31
    in float64, so a reaction rarer among the events than that is not resolved.
    Reference: Gillespie (1977), Exact stochastic simulation of coupled chemical reactions,
    doi:10.1021/j100540a008.
    """

    def init(self, jumps: Jumps, y: PyTree) -> PyTree:
        return ()

    def draw(self, jumps: Jumps, y: PyTree, state: PyTree, index: jax.Array) -> PyTree:
        a = jumps.propensities(y)
        words = block(jumps.noise.events, index, jnp.uint32(0))
        below = running_sums(a)
        total = below[-1]
        tau = waiting_time(exponential(words.a).astype(total.dtype), total)
        level = below_one(words.b, total.dtype) * total
        return event(jumps, y, a, tau, first_above(level, below))

    def propose(self, jumps: Jumps, y: PyTree, state: PyTree, drawn: PyTree) -> Proposal:
        return proposal(jumps, drawn, ())

    def interrupted(self, jumps: Jumps, y: PyTree, state: PyTree, after: jax.Array) -> PyTree:
        return ()  # what comes next is drawn again: an exponential time has no memory


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
