"""Reaction networks: one definition of three processes.

The jump process of whole counts (`DirectMethod`, `NextReaction`, `TauLeaping`), the chemical Langevin
equation (`ChemicalLangevin`, for solvers of Itô equations) and the rate equation, which is the network itself
as an ordinary equation.
"""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar, scalars
from simkit_solvers.numerics.square_root import sqrt_positive
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, NoiseKind, in_words, shapes_returned
from simkit_solvers.problems.reaction import Reaction

LANGEVIN = "chemical Langevin equation"


class AbstractReactionNetwork(AbstractODE):
    r"""Well-mixed reactions between species: counts jump by $\nu_j$ at the rate $a_j(X)$, the propensity.

    `State` names the species, `reactions` the reactions, each with its equation: `{"decay":
    reaction("X -> 0")}`. `rates` gives one number $c_j$ for each reaction, in their order. Under mass action

    $$a_j(X) = c_j \prod_i \binom{X_i}{r_{ij}},$$

    with $r_{ij}$ molecules of species i going into reaction j: $c X$ for `X -> 0`, $c\,X(X-1)/2$ for
    `2 X -> 0`. A reaction made with `mass_action=False` has the propensity $a_j = c_j$, which may depend on
    the state in any way and must vanish where molecules that react are missing.

    As an ordinary equation a network is its rate equation, the limit of large counts,
    $dx/dt = \sum_j \nu_j c_j \prod_i x_i^{r_{ij}} / r_{ij}!$. Raises `ValueError` for a reaction of a
    species that `State` lacks, and for one that is not made by `reaction`.
    Reference: Gillespie (2007), Stochastic simulation of chemical kinetics,
    doi:10.1146/annurev.physchem.58.032806.104637.

    >>> from simkit_physics import ImmigrationDeath
    >>> model = ImmigrationDeath(alpha=10.0, mu=0.5)
    >>> [float(rate) for rate in model.propensities(0.0, model.State(X=4.0))]
    [10.0, 2.0]
    """

    example_time: ClassVar[dict[str, float]] = {"t1": 1.0}

    reactions: eqx.AbstractClassVar[dict[str, Reaction]]

    def __check_init__(self):
        who = f"{type(self).__name__}.reactions"
        if not isinstance(self.reactions, Mapping):
            kind = type(self.reactions).__name__
            raise ValueError(f"{who}: must be a dict of names and reactions, got a {kind}")
        for name, each in self.reactions.items():
            if not isinstance(each, Reaction):
                equation = each if isinstance(each, str) else "S + I -> 2 I"
                raise ValueError(f'{who}[{name!r}]: must be made by reaction("{equation}"), got {each!r}')
            unknown = [species for species in each.species if species not in self.State._fields]
            if unknown:
                raise ValueError(
                    f"{who}[{name!r}]: unknown species {unknown[0]!r}; the state "
                    f"has {', '.join(self.State._fields)}"
                )

    @abc.abstractmethod
    def rates(self, t: Scalar, y: PyTree) -> tuple[Any, ...]:
        """$c_j$ of every reaction, for a `State` of real numbers."""

    def propensities(self, t: Scalar, y: PyTree) -> tuple[Any, ...]:
        """$a_j$ of every reaction, for counts as real numbers."""
        return self._laws(t, y, _combinations)

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        return self.change(self._laws(t, y, _powers), y)

    def copies(self, y: PyTree) -> tuple[tuple["AbstractReactionNetwork", Any, tuple[str, ...]], ...]:
        """The networks whose propensities leaps follow, each with its counts in `y` and their names there."""
        return ((self, y, y._fields),)

    def change(self, fired: Sequence, y: PyTree) -> Any:
        r"""$\sum_j \nu_j k_j$ as a `State`, for one number $k_j$ a reaction; zeros take the type of `y`."""
        changes = [each.change for each in self.reactions.values()]
        total = {}
        for name, like in zip(self.State._fields, y, strict=True):
            terms = [(change.get(name, 0), k) for change, k in zip(changes, fired, strict=True)]
            parts = [k if n == 1 else -k if n == -1 else n * k for n, k in terms if n]
            total[name] = sum(parts[1:], parts[0]) if parts else jnp.zeros_like(like)
        return self.State(**total)

    def _laws(self, t: Scalar, y: PyTree, ways: Callable) -> tuple:
        values, dtype = y._asdict(), jnp.result_type(*y)
        propensities = []
        for each, rate in zip(self.reactions.values(), self.rates(t, y), strict=True):
            for name, number in each.reactants if each.mass_action else ():
                rate = rate * ways(values[name], number)
            propensities.append(jnp.asarray(rate, dtype))
        return tuple(propensities)


class ChemicalLangevin(AbstractSDE):
    r"""The chemical Langevin equation of a network, $dX = \sum_j \nu_j \bigl(a_j(X)\,dt +
    \sqrt{\max(a_j(X), 0)}\,dW_j\bigr)$, for solvers of Itô equations.

    One noise a reaction. The state is real and may pass below zero: with propensities that are linear the
    mean, and where none turns negative the variance, are then those of the jump process, which clipping the
    state would bias.
    Reference: Gillespie (2000), The chemical Langevin equation, doi:10.1063/1.481811.

    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import ChemicalLangevin
    >>> equation = ChemicalLangevin(ImmigrationDeath(alpha=10.0, mu=0.5))
    >>> float(equation.drift(0.0, equation.State(X=4.0)).X)
    8.0
    """

    smooth: ClassVar[bool] = False

    original: AbstractReactionNetwork
    State: type = eqx.field(static=True)
    Noise: type = eqx.field(static=True)
    noise_kind: NoiseKind = eqx.field(static=True)
    calculus = "ito"

    def __init__(self, original: AbstractReactionNetwork):
        self.original, self.State = original, original.State
        self.Noise = scalars("Noise", tuple(original.reactions))
        self.noise_kind = "scalar" if len(original.reactions) == 1 else "general"

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        return self.original.change(self.original.propensities(t, y), y)

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> PyTree:
        sizes = (sqrt_positive(a) for a in self.original.propensities(t, y))
        return self.original.change([size * w for size, w in zip(sizes, dW, strict=True)], y)


def check_rates(network: AbstractReactionNetwork, y0: PyTree) -> None:
    """Raise `ValueError` when the rates of a network are not one number for each reaction.

    Nothing is computed. `rates` that fails by itself does so here, and the error says how to write it.
    """
    returned, names = shapes_returned(network, "rates", network.rates, y0), tuple(network.reactions)
    array = isinstance(returned, tuple) and all(isinstance(n, int) for n in returned)
    listed = isinstance(returned, (tuple, list)) and not array and not isinstance(returned, type(y0))
    numbers = [()] * len(names)
    if returned == (len(names),) or (listed and list(returned) == numbers):
        return
    got = in_words(returned)
    if listed:
        wrong = [f"{in_words(x)} for {name}" for name, x in zip(names, returned, strict=False) if x != ()]
        got = wrong[0] if len(returned) == len(names) else f"{got} of {len(returned)}"
    who = f"{type(network).__name__}.rates"
    raise ValueError(f"{who}: must return a tuple with one number for each of {', '.join(names)}; got {got}")


def _combinations(x, number: int):
    """x over `number`."""
    ways = x
    for i in range(1, number):
        ways = ways * (x - float(i)) * (1 / (i + 1))
    return ways


def _powers(x, number: int):
    return x if number == 1 else jax.lax.integer_pow(x, number) * (1 / math.factorial(number))


def view(problem: AbstractODE, jumps: bool) -> str | None:
    """Which of the three processes of a reaction network a problem is; `None` of any other model."""
    if isinstance(problem, ChemicalLangevin):
        return LANGEVIN
    if not isinstance(problem, AbstractReactionNetwork):
        return None
    return "jump process" if jumps else "rate equation"
