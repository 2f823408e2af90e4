"""Expressions in the fields of an experiment; what is wrong with them goes to the list of mistakes."""

import copy
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import Mistakes
from simkit.config.documents import KeyPath
from simkit.expressions.expression import Expression, ExpressionError, check_name, compile_expression


def compiled(
    mistakes: Mistakes,
    path: KeyPath,
    text: float | str,
    names: Collection[str] | None,
    *,
    functionals: bool = False,
    closed_forms: Mapping[str, Callable[..., float]] | None = None,
) -> Expression | None:
    """The expression in a field, `None` where it is wrong."""
    try:
        return compile_expression(text, names, functionals=functionals, closed_forms=closed_forms)
    except ExpressionError as error:
        mistakes.add(path, str(error))
        return None


def evaluated(
    mistakes: Mistakes, path: KeyPath, expression: Expression | None, values: Mapping[str, float]
) -> float | None:
    """The number that a field means, `None` where it is wrong or depends on something wrong."""
    if expression is None or not expression.names <= values.keys():
        return None
    try:
        number = float(expression(values))
    except ExpressionError as error:
        mistakes.add(path, str(error))
        return None
    if not math.isfinite(number):
        mistakes.add(path, f"must be finite, but {expression.text} is {number}")
        return None
    return number


class Constants:
    """The named constants: `names` are all that were given, `values` those that could be evaluated.

    `changing` are names among them whose values change with time, see `beside`.
    """

    def __init__(self, given: Mapping[str, float | str], names: Collection[str], mistakes: Mistakes):
        self.names = tuple(names)
        self.changing: frozenset[str] = frozenset()
        self.expressions: dict[str, Expression] = {}
        self.values: dict[str, float] = {}
        for name, text in given.items():
            path = ("constants", name)
            reason = check_name(name)
            if reason:
                mistakes.add(path, reason, at_key=True)
            expression = compiled(mistakes, path, text, self.names, closed_forms=CLOSED_FORMS)
            if expression is None:
                continue
            later = expression.names - set(self.names[: self.names.index(name)])
            if name in later:
                mistakes.add(path, f"{name} is defined by itself")
            elif later:
                mistakes.add(path, f"uses {min(later)}, which is defined further down; move {min(later)} up")
            else:
                number = evaluated(mistakes, path, expression, self.values)
                if number is not None:
                    self.expressions[name] = expression
                    self.values[name] = number

    def beside(self, curves: Collection[str], start: Mapping[str, float]) -> "Constants":
        """The constants and, beside them, curves and `t`, with their values at the start of the run."""
        found = copy.copy(self)
        found.names = (*self.names, *curves, "t")
        found.changing = frozenset([*curves, "t"])
        found.values = self.values | dict(start)
        found.expressions = self.expressions | {n: itself(n) for n in curves if n in start}
        return found

    def place(self, name: str) -> KeyPath:
        """Where a name was given."""
        return ("curves" if name in self.changing else "constants", name)

    def bound(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All constants, those in `given` replaced and those defined by others following them."""
        unknown = given.keys() - self.expressions.keys()
        if unknown:
            raise KeyError(
                f"no constant {min(unknown)!r}; there are: {', '.join(self.expressions) or 'none'}"
            )
        values: dict[str, Any] = {}
        for name, expression in self.expressions.items():
            values[name] = given[name] if name in given else expression(values)
        return values


def itself(name: str) -> Expression:
    """The expression that is a constant's name."""
    return Expression(name, frozenset([name]), (), lambda environment: environment[name])
