"""Models written in the file, as equinox modules like those written in Python: what all kinds share."""

import abc
import functools
import types
from typing import Any

from simkit_solvers.numerics.scalar import Scalar, scalars
from simkit_solvers.problems.problem import AbstractODE, Discontinuity, parameter

from simkit.expressions import Expression


class AbstractText(abc.ABC):
    """A model in the file, compiled. Two of the same text are equal. `parameters` become fields."""

    parameters: tuple[str, ...]

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What its class is called."""

    @property
    @abc.abstractmethod
    def base(self) -> type[AbstractODE]:
        """The kind of problem."""

    @property
    @abc.abstractmethod
    def variables(self) -> tuple[str, ...]:
        """The state variables in the order of the file."""

    @property
    @abc.abstractmethod
    def discontinuities(self) -> tuple[Discontinuity, ...]:
        """Where the equations jump, or their slopes do."""

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """The equations, for the docstring."""

    @abc.abstractmethod
    def members(self, state: type) -> dict[str, Any]:
        """The methods of the model, and what else it has besides parameters and states."""


@functools.lru_cache(maxsize=128)
def make_model(text: AbstractText) -> Any:
    """The class of a model in the file.

    Its fields are the parameters, so derivatives and sweeps work as on any model. The same text gives the
    same class, so that a program compiled for it is found again.
    """
    state = scalars("State", text.variables)
    members = {
        "__doc__": text.description,
        "__module__": __name__,
        "__annotations__": dict.fromkeys(text.parameters, Scalar),
        **{name: parameter("", "") for name in text.parameters},
        "State": state,
        "_made_by": (make_model, text),  # no parameter has a name with _ in front
        "discontinuities": lambda self: text.discontinuities,
        **text.members(state),
    }
    return types.new_class(text.name, (text.base,), {}, lambda namespace: namespace.update(members))


def environment(model: Any, text: AbstractText, t: Any, y: Any) -> dict[str, Any]:
    """The values of the names in equations."""
    fields = vars(model)
    return {**{name: fields[name] for name in text.parameters}, **y._asdict(), "t": t}


def discontinuities_of(*expressions: Expression, noise: bool = False) -> tuple[Discontinuity, ...]:
    """Where expressions, of the noise or not, jump, or their slopes do."""
    known = [each.discontinuities for each in expressions]
    places = [Discontinuity(place.names, place.kink, noise) for each in known for place in each.differences]
    return *places, *(Discontinuity(frozenset(each.roots), True, noise) for each in known if each.roots)
