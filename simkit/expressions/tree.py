"""The syntax tree of an expression: each node gives its value from the values of the names in it.

Conditions, and what is computed of them, are booleans until a `Call` of `as_number` makes them 1 or 0.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, SupportsFloat

import numpy as np

from simkit.closed_forms import OF_NUMBERS
from simkit.closed_forms.numbers import is_plain
from simkit.expressions.functions import both
from simkit.expressions.tokens import ExpressionError
from simkit.functionals.functional import AbstractFunctional
from simkit.suggestions import shown

Environment = Mapping[Any, Any]

NO_DERIVATIVE = (
    "is computed from plain numbers before the run and has no derivative; leave what it depends on out of "
    "sensitivity.wrt"
)


@dataclasses.dataclass(frozen=True)
class NumberLiteral:
    """A number in the text, or one with a name such as `pi`."""

    value: float
    parts: tuple["ExpressionNode", ...] = ()

    def __call__(self, environment: Environment):
        return self.value


@dataclasses.dataclass(frozen=True)
class Name:
    """A name whose value the environment has."""

    name: str
    parts: tuple["ExpressionNode", ...] = ()

    def __call__(self, environment: Environment):
        return environment[self.name]


@dataclasses.dataclass(frozen=True)
class Call:
    """A function of its parts: one that the text calls, `-`, `**`, `not`, or `as_number` of a condition."""

    name: str
    function: Callable[..., Any]
    parts: tuple["ExpressionNode", ...]

    def __call__(self, environment: Environment):
        return self.function(*[part(environment) for part in self.parts])


@dataclasses.dataclass(frozen=True)
class Chain:
    """Operations from left to right: a sum, a product, or conditions joined by `and` or `or`."""

    operations: tuple[Callable[[Any, Any], Any], ...]
    parts: tuple["ExpressionNode", ...]

    def __call__(self, environment: Environment):
        value = self.parts[0](environment)
        for operation, part in zip(self.operations, self.parts[1:], strict=True):
            value = operation(value, part(environment))
        return value


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`a < b`, or several at once as `a < b <= c`."""

    operations: tuple[Callable[[Any, Any], Any], ...]
    parts: tuple["ExpressionNode", ...]

    def __call__(self, environment: Environment):
        values = [part(environment) for part in self.parts]
        pairs = zip(self.operations, values, values[1:], strict=False)
        value, *others = [operation(a, b) for operation, a, b in pairs]
        for other in others:
            value = both(value, other)
        return value


@dataclasses.dataclass(frozen=True)
class FunctionalCall:
    """A path functional, whose value the environment has. Its parts are the arguments as written."""

    functional: AbstractFunctional

    @property
    def parts(self) -> tuple["ExpressionNode", ...]:
        """The trees of its arguments."""
        return tuple(each.tree for each in self.functional.written)

    def __call__(self, environment: Environment):
        return environment[self.functional]


@dataclasses.dataclass(frozen=True)
class ClosedFormCall:
    """A closed form of the arguments named `keys`. Raises `ExpressionError` where it has no value."""

    name: str
    form: Callable[..., Any]
    keys: tuple[str, ...]
    parts: tuple["ExpressionNode", ...]

    def __call__(self, environment: Environment):
        values = {key: part(environment) for key, part in zip(self.keys, self.parts, strict=True)}
        if not is_plain(*values.values()):
            if self.name in OF_NUMBERS:
                raise ExpressionError(f"{self.name} {NO_DERIVATIVE}")
            return self.value(values)
        number = self.value(values)
        if np.ndim(number) or np.iscomplexobj(number) or not isinstance(number, SupportsFloat):
            raise ExpressionError(f"{self.name}: must return a real number, got {shown(number)}")
        return float(number)

    def value(self, arguments: dict[str, Any]) -> Any:
        """The closed form's value. It may be one of the user's own, which raises anything."""
        try:
            return self.form(**arguments)
        except (ValueError, ArithmeticError) as error:
            raise ExpressionError(f"{self.name}: {error}") from error
        except Exception as error:
            raise ExpressionError(f"{self.name}: {type(error).__name__}: {error}") from error


@dataclasses.dataclass(frozen=True)
class PythonCall(Call):
    """A function of Python's, of all names: nobody knows where it jumps."""


ExpressionNode = NumberLiteral | Name | Call | Chain | Comparison | FunctionalCall | ClosedFormCall


def walk(*nodes: ExpressionNode, into_functionals: bool = True) -> Iterator[ExpressionNode]:
    """The nodes and all below them, from left to right."""
    for node in nodes:
        yield node
        if into_functionals or not isinstance(node, FunctionalCall):
            yield from walk(*node.parts, into_functionals=into_functionals)


def names_in(*nodes: ExpressionNode, into_functionals: bool = True) -> frozenset[str]:
    """The names in nodes, as written."""
    below = walk(*nodes, into_functionals=into_functionals)
    return frozenset(node.name for node in below if isinstance(node, Name))


def functionals_in(*nodes: ExpressionNode) -> tuple[AbstractFunctional, ...]:
    """The different path functionals in nodes, in the order of the text."""
    below = walk(*nodes, into_functionals=False)
    return tuple(dict.fromkeys(node.functional for node in below if isinstance(node, FunctionalCall)))
