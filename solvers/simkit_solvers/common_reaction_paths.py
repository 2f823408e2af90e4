"""The next reaction method with a stream of random numbers for each reaction."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from simkit_solvers.direct_method import propensity_status, waiting_time
from simkit_solvers.generator import Words, block
from simkit_solvers.jumps import AbstractJumpMethod, Proposal
from simkit_solvers.solver_info import SolverInfo
from simkit_solvers.variates import exponential


class CommonReactionPaths(AbstractJumpMethod):
    r"""The modified next reaction method, reaction j driven by a unit Poisson process of its own:

    $$X_t = x_0 + \sum_j \nu_j\,Y_j\Bigl(\int_0^t a_j(X_s)\,ds\Bigr).$$

    The n-th time that the clock of reaction j is wound is a function of (key, path, j, n) alone, so that two
    runs with other parameters meet the same processes $Y_j$. Finite differences between them have a variance
    that goes to zero with the difference; of runs of `DirectMethod` or `NextReaction` with the same noise,
    whose numbers go to the events in their order, it does not. Exact; the law is that of both.

    It draws for every reaction at each event, since what is wound differs from path to path.
    Reference: Rathinam, Sheppard & Khammash (2010), Efficient computation of parameter sensitivities of
    discrete stochastic chemical reaction networks, doi:10.1063/1.3280166.
    """

    exact: ClassVar[bool] = True

    def init(self, jumps, y):
        none = jnp.uint32(0)
        return tuple((_wound(jumps, j, none), none) for j in range(len(jumps.network.reactions)))

    def propose(self, jumps, y, state, index):
        a = jumps.propensities(y)
        waits = [waiting_time(s, each) for (s, _), each in zip(state, a, strict=True)]
        tau = waits[0]
        for wait in waits[1:]:
            tau = jnp.minimum(tau, wait)
        after, fired, none_yet = [], [], jnp.bool_(True)
        for j, ((s, count), each, wait) in enumerate(zip(state, a, waits, strict=True)):
            rings = none_yet & (wait == tau)  # the first of two that ring together
            none_yet = none_yet & ~rings
            fired.append(rings.astype(jnp.int32))
            run = jnp.where(each > 0, each * jnp.where(tau < jnp.inf, tau, 0.0), 0.0)
            count = count + rings.astype(jnp.uint32)
            after.append((jnp.where(rings, _wound(jumps, j, count), jnp.maximum(s - run, 0.0)), count))
        change = jax.tree.map(lambda x: x.astype(jnp.int32), jumps.network.change(fired, y))
        return Proposal(tau, change, tuple(fired), (), jnp.bool_(True), tuple(after), propensity_status(a))

    def interrupted(self, jumps, y, state, after):
        runs = zip(state, jumps.propensities(y), strict=True)
        return tuple((jnp.maximum(s - a * after, 0.0), count) for (s, count), a in runs)

    def rejected(self, state):
        return jnp.int32(0)

    def start_looking(self, jumps, y):
        return ()

    def look(self, jumps, y, ahead, index, elapsed, time, looked):
        return y, ()


def _wound(jumps, j: int, count):
    """The exponential time to which clock j is wound for the time number `count`."""
    words: Words = block(jumps.noise.events, count, jnp.uint32(1 + j))
    return exponential(words.a).astype(jumps.span.dtype)


COMMON_REACTION_PATHS = SolverInfo(
    name="CommonReactionPaths",
    cls=CommonReactionPaths,
    problem=("jump",),
    summary="Next reaction method with a noise for each reaction, for differences between runs.",
    reference="Rathinam, Sheppard & Khammash (2010), Efficient computation of parameter sensitivities of "
    "discrete stochastic chemical reaction networks, doi:10.1063/1.3280166",
    origin="simkit",
)
