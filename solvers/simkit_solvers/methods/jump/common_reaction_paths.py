"""The next reaction method with a stream of random numbers for each reaction."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.methods.jump.clocks import AbstractClockMethod, Clocks
from simkit_solvers.methods.jump.jump_method import Jumps
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.random.generator import Words, block
from simkit_solvers.random.variates import exponential


class CommonReactionPaths(AbstractClockMethod):
    r"""The modified next reaction method, reaction j driven by a unit Poisson process of its own:

    $$X_t = x_0 + \sum_j \nu_j\,Y_j\Bigl(\int_0^t a_j(X_s)\,ds\Bigr).$$

    The n-th time that the clock of reaction j is wound is a function of (key, path, j, n) alone, so that two
    runs with other parameters meet the same processes $Y_j$. Finite differences between them have a variance
    that goes to zero with the difference; of runs of `DirectMethod` or `NextReaction` with the same noise,
    whose numbers go to the events in their order, it does not. Exact; the distribution is that of both.

    Reference: Rathinam, Sheppard & Khammash (2010), Efficient computation of parameter sensitivities of
    discrete stochastic chemical reaction networks, doi:10.1063/1.3280166.
    """

    def init(self, jumps: Jumps, y: PyTree) -> PyTree:
        none, numbers = jnp.uint32(0), range(len(jumps.network.reactions))
        left = tuple(_wound(jumps, jnp.uint32(j), none).astype(jumps.span.dtype) for j in numbers)
        return Clocks(left, tuple(none for _ in numbers))

    def fresh(
        self, jumps: Jumps, clocks: Clocks, which: Float[Array, ""], index: UInt32[Array, ""]
    ) -> Float[Array, ""]:
        count = clocks.wound[0]
        for j, each in enumerate(clocks.wound):
            count = jnp.where(which == j, each, count)
        # A kernel of its own: in one with the search for `which`, the compiler works for seconds.
        which, count = jax.lax.optimization_barrier((which, count))
        return _wound(jumps, which.astype(jnp.uint32), count + jnp.uint32(1))


def _wound(jumps: Jumps, j: UInt32[Array, ""], count: UInt32[Array, ""]) -> Float[Array, ""]:
    """The exponential time to which clock j is wound for the time number `count`."""
    words: Words = block(jumps.noise.events, count, jnp.uint32(1) + j)
    return exponential(words.a)


COMMON_REACTION_PATHS = SolverInfo(
    CommonReactionPaths, "Next reaction method with a noise for each reaction, for differences between runs."
)
