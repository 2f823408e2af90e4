"""The named constants of an experiment, and expressions of them in its fields."""

import copy
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import Document, KeyPath
from simkit.expressions import Expression, ExpressionError, check_name, compile_expression, name_expression

OWN = ("the constants",)  # no names: these hold a space


class Constants:
    """The named constants: `names` are all that were given, `values` those that could be evaluated.

    `changing` are names among them whose values change with time, see `with_curves`. What is wrong with
    a field is added to `diagnostics`.
    """

    def __init__(self, given: Mapping[str, float | str], names: Collection[str], diagnostics: Diagnostics):
        self.diagnostics = diagnostics
        self.names = tuple(names)
        self.changing: frozenset[str] = frozenset()
        self.expressions: dict[str, Expression] = {}
        self.values: dict[str, float] = {}
        self.numbers: dict[KeyPath, Expression] = {}  # that fields were asked for
        self.shifts: dict[KeyPath, float] = {}
        for name, text in given.items():
            path = ("constants", name)
            reason = check_name(name)
            if reason:
                diagnostics.add(path, reason, at_key=True)
            expression = self.compiled(path, text, closed_forms=CLOSED_FORMS)
            if expression is None:
                continue
            later = expression.names - set(self.names[: self.names.index(name)])
            if name in later:
                diagnostics.add(path, f"{name} is defined by itself")
            elif later:
                first = min(later)
                diagnostics.add(path, f"uses {first}, which is defined further down; move {first} up")
            else:
                number = self.evaluated(path, expression)
                if number is not None:
                    self.expressions[name] = expression
                    self.values[name] = number

    def compiled(
        self,
        path: KeyPath,
        text: float | str,
        names: Collection[str] | None = OWN,
        *,
        ambiguous: Collection[str] = (),
        functionals: bool = False,
        closed_forms: Mapping[str, Callable[..., float]] | None = None,
    ) -> Expression | None:
        """The expression in a field, of the constants or of other `names`, any for `None`.

        It is `None` where it is wrong. The `ambiguous` names are those of a constant and of a parameter too.
        """
        names = self.names if names is OWN else names
        try:
            expression = compile_expression(text, names, functionals=functionals, closed_forms=closed_forms)
        except ExpressionError as error:
            self.diagnostics.add(path, str(error))
            return None
        for name in sorted(expression.names & {*ambiguous}):
            self.diagnostics.add(
                path,
                f"{name} is a constant and also a parameter of the model; rename the constant, or give the "
                f"parameter as {name}: {name}",
            )
        return expression

    def evaluated(
        self, path: KeyPath, expression: Expression | None, values: Mapping[str, float] | None = None
    ) -> float | None:
        """The number that a field means, `None` where it is wrong or depends on something wrong."""
        values = self.values if values is None else values
        if expression is None or not expression.names <= values.keys():
            return None
        try:
            number = float(expression(values))
        except ExpressionError as error:
            self.diagnostics.add(path, str(error))
            return None
        if not math.isfinite(number):
            self.diagnostics.add(path, f"must be finite, but {expression.text} is {number}")
            return None
        return number

    def number(self, path: KeyPath, text: float | str) -> tuple[Expression, float] | None:
        """A field of constants alone, and the number that it means; `None` where it is wrong."""
        expression = self.compiled(path, text)
        number = self.evaluated(path, expression)
        if expression is None or number is None:
            return None
        self.numbers[path] = expression
        return expression, self.number_at(path)

    def number_at(self, path: KeyPath) -> float:
        """The number of a field that was asked for before."""
        return float(self.numbers[path](self.values)) + self.shifts.get(path, 0.0)

    def moved(self, name: str | KeyPath, by: float, diagnostics: Diagnostics) -> "Constants":
        """These constants where one of them, or the number at a key path, is larger by `by`."""
        result = copy.copy(self)
        result.diagnostics, result.numbers = diagnostics, dict(self.numbers)
        if isinstance(name, str):
            result.values = self.bound({name: self.values[name] + by})
        else:
            result.shifts = {name: by}
        return result

    def with_curves(self, curves: Collection[str], start: Mapping[str, float]) -> "Constants":
        """The constants together with curves and `t`, with their values at the start of the run."""
        result = copy.copy(self)
        result.names = (*self.names, *curves, "t")
        result.changing = frozenset([*curves, "t"])
        result.values = self.values | dict(start)
        result.expressions = self.expressions | {n: name_expression(n) for n in curves if n in start}
        return result

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


def remark_unused(document: Document, whole: Document | None = None) -> None:
    """Say which constants, curves and parameters no expression uses, in a variant or outside.

    `whole` is the document of which this one is a variant; what others of its variants use is not remarked.
    """
    diagnostics = Diagnostics(document, with_text=False)
    sections: tuple[KeyPath, ...] = (("constants",), ("curves",), ("model", "parameters"))
    given = [(*section, name) for section in sections for name in diagnostics.written(*section)]
    for path in unused(document if whole is None else whole, given):
        diagnostics.remark(path, "no expression uses it; use it, or remove it", at_key=True)


def unused(document: Document, paths: Iterable[KeyPath]) -> list[KeyPath]:
    """Those of the key paths that give a constant, curve or parameter which no expression uses.

    Expressions are those of the document with all of its variants and its sweep.
    """
    if document.functions:  # which may use any of them
        return []
    written = Diagnostics(document, with_text=False).written
    parameters = written("model", "parameters")
    equations = {key: value for key, value in written("model").items() if key != "parameters"}
    # No curve is made of another, and the name of a file is no use of one.
    curves, model = ({k: v for k, v in document.data.items() if k != each} for each in ("curves", "model"))
    used = {"constants": _words(document.data), "curves": _words(curves), "model": _words([model, equations])}
    result = []
    for path in paths:
        match path:
            case ("constants" | "curves" as section, name):
                words = used[section]
            case ("model" as section, "parameters", name):
                # What is called like a constant, as in `k: k`, is no use of itself.
                words = used[section] | _words([v for other, v in parameters.items() if other != name])
            case _:
                continue
        if name not in words:
            result.append(path)
    return result


def _words(value: Any) -> set[str]:
    """The words in all texts of a document, but for its keys."""
    if isinstance(value, str):
        return set(re.findall(r"\w+", value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {word for part in parts for word in _words(part)}
