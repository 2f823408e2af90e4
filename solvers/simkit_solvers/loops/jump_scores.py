r"""Scores of a jump process: derivatives of the log likelihood of a path by parameters of its network.

With propensities $a_j(x; \theta)$ a path on which reaction j fires $k_j$ times over a time $\tau$ that begins
in x, gains

$$\Delta Z = \sum_j k_j\,\partial_\theta \log a_j(x) - \tau \sum_j \partial_\theta a_j(x).$$

For an exact event that is the likelihood of its waiting time and of its reaction. It is the same for a leap,
with Poisson counts of mean $a_j \tau$ and at most one event of the critical reactions at its exponential
time, with the length of the leap held fixed; refused leaps count, since what follows depends on them. Then
$\partial_\theta E[f(X_t)] = E[f(X_t) Z_t] + E[\partial_\theta f(X_t)]$.

References: Glynn (1990), Likelihood ratio gradient estimation for stochastic systems,
doi:10.1145/84537.84552; Plyasunov & Arkin (2007), Efficient stochastic sensitivity analysis of discrete event
systems, doi:10.1016/j.jcp.2006.06.047.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.jump.jump_method import Jumps
from simkit_solvers.numerics.tangents import jvp
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork


def pushed(fn: Callable, network: AbstractReactionNetwork, directions: tuple) -> tuple:
    """The tangents of `fn(network)`, a network made from another one, in given directions."""
    return tuple(jvp(fn, network, each)[1] for each in directions)


def _slopes(jumps, y) -> tuple[tuple, list[tuple]]:
    """$a_j$, and for each direction $\\partial a_j$."""
    real = jax.tree.map(lambda x: x.astype(jumps.span.dtype), y)
    both = [
        jvp(lambda network: network.propensities(jumps.t0, real), jumps.network, each)
        for each in jumps.directions
    ]
    return both[0][0], [slopes for _, slopes in both]


def score_gained(jumps: Jumps, y: PyTree, fired: tuple, tau: jax.Array) -> tuple:
    """What each score gains while `fired` events happen in the time `tau` from the counts `y`."""
    if not jumps.directions:
        return ()
    a, directions = _slopes(jumps, y)
    gained = []
    for slopes in directions:
        log_slopes = (
            jnp.where(k > 0, k.astype(tau.dtype) * slope / jnp.where(each > 0, each, 1.0), 0.0)
            for k, each, slope in zip(fired, a, slopes, strict=True)
        )
        gained.append(sum(log_slopes) - tau * sum(slopes))
    return tuple(gained)


def has_likelihood(jumps: Jumps, y: PyTree) -> jax.Array:
    """Whether a likelihood ratio exists at `y`: no propensity of zero changes with a parameter."""
    a, directions = _slopes(jumps, y)
    exists = jnp.bool_(True)
    for slopes in directions:
        for each, slope in zip(a, slopes, strict=True):
            exists = exists & jnp.isfinite(slope) & ((each > 0) | (slope == 0))
    return exists


def schedule_moves(directions: tuple) -> jax.Array:
    """Whether a direction moves the times of a scheduled network's nodes or events."""
    moves = jnp.bool_(False)
    for each in directions:
        schedule = each.schedule
        moved = [*schedule.nodes, *(event.times for event in schedule.events)]
        for tangent in jax.tree.leaves(moved):
            moves = moves | jnp.any(tangent != 0)
    return moves


def event_moves(after: Callable, network: AbstractReactionNetwork, directions: tuple, y: PyTree) -> jax.Array:
    """Whether the counts `after(network, y)` that events leave change with a direction of the network."""
    moves = jnp.bool_(False)
    for each in directions:
        _, moved = jvp(lambda network: after(network, y), network, each)
        for tangent in jax.tree.leaves(moved):
            moves = moves | (tangent != 0)
    return moves
