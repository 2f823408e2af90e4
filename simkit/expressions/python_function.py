"""A function of Python's in place of an expression, of the state, the parameters and the time."""

import collections
import dataclasses
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

import jax

from simkit.expressions.expression import Expression
from simkit.expressions.tree import Name, PythonCall
from simkit.suggestions import did_you_mean

_WITHOUT_NUMBERS = (  # what JAX raises, of which the more particular first: what to write
    (
        jax.errors.TracerBoolConversionError,
        "uses a value as a condition of Python; use jnp.where in place of if, jnp.maximum and jnp.minimum in "
        "place of max and min, & and | in place of and and or",
    ),
    (jax.errors.TracerArrayConversionError, "calls numpy; use jax.numpy in place of numpy"),
    (
        jax.errors.ConcretizationTypeError,
        "makes a value a number of Python; leave out float and int, and use jax.numpy in place of math",
    ),
)


class Parameters(types.SimpleNamespace):
    """Parameters, constants and curves by name."""


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
        return function(state(*own), Parameters(**dict(zip(others, rest, strict=True))), t)

    parts = tuple(Name(name) for name in (*variables, *others, "t"))
    return PythonExpression(text, (), PythonCall(text, call, parts), function)


def takes_three(function: Callable) -> bool:
    """Whether it can be called with a state, parameters and a time, as far as that is known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some functions in C
        return True
    try:
        signature.bind(None, None, None)
    except TypeError:
        return False
    return True


def what_is_wrong(error: Exception, variables: Sequence[str], others: Sequence[str]) -> str:
    """What a function did that raised the error when it was called without numbers, and what to write."""
    if isinstance(error, AttributeError) and error.name:
        if getattr(error.obj, "_fields", None) == tuple(variables):
            here = f"; it is in params: params.{error.name}" if error.name in others else ""
            return f"state has no {error.name!r}{here or did_you_mean(error.name, variables)}"
        if isinstance(error.obj, Parameters):
            here = f"; it is in state: state.{error.name}" if error.name in variables else ""
            return f"params has no {error.name!r}{here or did_you_mean(error.name, others)}"
    for kind, reason in _WITHOUT_NUMBERS:
        if isinstance(error, kind):
            return reason
    message = str(error).partition("\n")[0]
    return f"raises {type(error).__name__}{message and f': {message}'}"
