r"""Two copies of a reaction network that fire together as often as possible.

Reaction j fires in both at the rate $\min(a_j, b_j)$, in the first alone at $a_j - \min(a_j, b_j)$, in the
second alone at $b_j - \min(a_j, b_j)$, with a and b the propensities of the two. Each copy by itself is the
jump process of its network; their difference grows as slowly as rates allow, and its variance goes to zero
with that of the parameters: $O(h)$ where common random numbers of the direct method leave $O(1)$.

Reference: Anderson (2012), An efficient finite difference method for parameter sensitivities of continuous
time Markov chains, doi:10.1137/110849079.
"""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.numerics.scalar import Scalar, scalars
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.reaction import Reaction
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

FIRST, SECOND = "first_", "second_"


class CoupledNetwork(AbstractReactionNetwork):
    """A network of the counts of two copies, `first` and `second`, of one class.

    Its state has the counts of the first copy and then those of the second. Raises `ValueError` where the
    copies do not have the same reactions.
    """

    first: AbstractReactionNetwork
    second: AbstractReactionNetwork
    State: type = eqx.field(static=True)

    def __init__(self, first: AbstractReactionNetwork, second: AbstractReactionNetwork):
        if first.reactions != second.reactions or first.State is not second.State:
            raise ValueError("CoupledNetwork: the copies must have the same species and reactions")
        self.first, self.second = first, second
        names = first.State._fields
        self.State = scalars("Pair", tuple(prefix + name for prefix in (FIRST, SECOND) for name in names))

    @property
    def reactions(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """Each reaction of the model in both copies, in the first and in the second."""
        return _coupled(tuple(self.first.reactions.items()))

    def paired(self, first: PyTree, second: PyTree) -> Any:
        """The state of both copies."""
        return self.State(*first, *second)

    def separated(self, y: PyTree) -> tuple[Any, Any]:
        """The states of the two copies."""
        species = self.first.State
        return species(*y[: len(species._fields)]), species(*y[len(species._fields) :])

    def copies(self, y):
        # What one copy fires alone is a small difference of propensities, which changes by much of itself.
        first, second = self.separated(y)
        names = self.State._fields
        return (self.first, first, names[: len(first)]), (self.second, second, names[len(first) :])

    def rates(self, t, y):
        first, second = self.separated(y)
        pairs = zip(self.first.propensities(t, first), self.second.propensities(t, second), strict=True)
        rates = []
        for a, b in pairs:
            both = jnp.minimum(a, b)
            # A product that is fused with the difference is not rounded, and may be below its rounded self.
            rates += [both, jnp.maximum(a - both, 0.0), jnp.maximum(b - both, 0.0)]
        return tuple(rates)


class ObservedPair(AbstractObserver):
    """What an observer records of each copy: rows `first` and `second`, dictionaries of its own.

    The observers of the two may have other numbers, where an observable reads a parameter.
    """

    first: AbstractObserver
    second: AbstractObserver

    def init(self, problem: CoupledNetwork, t: Scalar, y: PyTree) -> tuple:
        return tuple(own.init(copy, t, y) for own, copy, y in self._copies(problem, y))

    def update(
        self,
        problem: CoupledNetwork,
        acc: PyTree,
        k: UInt32[Array, ""],
        t: Scalar,
        y: PyTree,
        dt: Float[Array, ""],
    ) -> tuple:
        copies = zip(self._copies(problem, y), acc, strict=True)
        return tuple(own.update(copy, each, k, t, y, dt) for (own, copy, y), each in copies)

    @property
    def stops(self):
        """The stops of both copies, which are the same."""
        return self.first.stops

    def changed(self, acc, k, t, before, after):
        copies = zip(self._copies(*before), self._copies(*after), acc, strict=True)
        return tuple(own.changed(each, k, t, old, new) for (own, *old), (_, *new), each in copies)

    def row(self, problem: CoupledNetwork, acc: PyTree, t: Scalar, y: PyTree) -> dict[str, Any]:
        copies = zip(("first", "second"), self._copies(problem, y), acc, strict=True)
        return {name: own.row(copy, each, t, y) for name, (own, copy, y), each in copies}

    def _copies(self, problem: CoupledNetwork, y: PyTree) -> tuple[tuple, tuple]:
        """Observer, network and counts of each copy."""
        one, other = problem.separated(y)
        return (self.first, problem.first, one), (self.second, problem.second, other)

    def coarsened(self, factor):
        return None

    def refined(self, factor):
        return ObservedPair(self.first.refined(factor), self.second.refined(factor))


@functools.lru_cache(maxsize=64)
def _coupled(reactions: tuple[tuple[str, Reaction], ...]) -> dict[str, Reaction]:
    coupled = {}
    for name, each in reactions:
        copies = [_renamed(each, prefix) for prefix in (FIRST, SECOND)]
        reactants, products = (tuple(pairs) for pairs in zip(*copies, strict=True))
        coupled[f"{name} in both"] = Reaction(sum(reactants, ()), sum(products, ()), mass_action=False)
        for prefix, (before, after) in zip((FIRST, SECOND), copies, strict=True):
            coupled[f"{prefix}{name}"] = Reaction(before, after, mass_action=False)
    return coupled


def _renamed(each: Reaction, prefix: str) -> tuple[tuple, tuple]:
    sides = each.reactants, each.products
    before, after = (tuple((prefix + name, number) for name, number in side) for side in sides)
    return before, after
