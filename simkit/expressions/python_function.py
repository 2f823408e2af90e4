"""A function of Python's in place of an expression, of the state, the parameters and the time."""

import collections
import dataclasses
import types
from collections.abc import Callable, Sequence
from typing import Any

from simkit.expressions.expression import Expression
from simkit.expressions.tree import Name, PythonCall


@dataclasses.dataclass(frozen=True)
class PythonExpression(Expression):
    """The value of a function of Python's. Two are equal where they have the same function."""

    function: Callable[[Any, Any, Any], Any]


def python_expression(
    text: str, function: Callable, variables: Sequence[str], others: Sequence[str]
) -> PythonExpression:
    """The expression `function(state, params, t)`.

    `state` is a named tuple of the state `variables`; `params` has the `others`, parameters, constants and
    curves, as attributes.
    """
    state = collections.namedtuple("State", variables)

    def call(*values: Any) -> Any:
        *numbers, t = values
        own, rest = numbers[: len(variables)], numbers[len(variables) :]
        return function(state(*own), types.SimpleNamespace(**dict(zip(others, rest, strict=True))), t)

    parts = tuple(Name(name) for name in (*variables, *others, "t"))
    return PythonExpression(text, (), PythonCall(text, call, parts), function)
