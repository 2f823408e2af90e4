"""The interval in which the value of an expression must lie, whatever the state is."""

import math
import operator
from collections.abc import Callable, Mapping

from simkit.expressions.functions import both, divide, either
from simkit.expressions.tree import (
    Call,
    Chain,
    Comparison,
    ExpressionNode,
    FunctionalCall,
    Name,
    NumberLiteral,
)
from simkit.functionals.functional import ANY, Range

CONDITION: Range = (0.0, 1.0)


def value_range(tree: ExpressionNode, known: Mapping[str, Range]) -> Range:
    """The least and the largest value of an expression, given those of the names in it that have such."""
    parts = [value_range(part, known) for part in tree.parts]
    match tree:
        case Comparison():
            return CONDITION
        case NumberLiteral():
            return tree.value, tree.value
        case Name():
            return known.get(tree.name, ANY)
        case Chain():
            total, *others = parts
            for operation, other in zip(tree.operations, others, strict=True):
                total = OPERATIONS[operation](total, other)
            return total
        case FunctionalCall():
            return tree.functional.bounds(*parts, time=known.get("t", ANY))
        case Call() if tree.name in CALLS:
            return CALLS[tree.name](*parts)
    return ANY


def _quotient(a: Range, b: Range) -> Range:
    return _hull(*(_times(x, 1 / y) for x in a for y in b)) if b[0] > 0 or b[1] < 0 else ANY


def _times(x: float, y: float) -> float:
    """A product in which nothing of anything is nothing."""
    return 0.0 if x == 0 or y == 0 else x * y


def _hull(*values: float) -> Range:
    return min(values), max(values)


def _exp(x: Range) -> Range:
    low, high = (math.inf if end > 700 else math.exp(end) for end in x)
    return low, high


def _abs(x: Range) -> Range:
    return (0.0 if x[0] <= 0 <= x[1] else min(map(abs, x))), max(map(abs, x))


OPERATIONS: dict[Callable, Callable[[Range, Range], Range]] = {
    operator.add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    operator.sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    operator.mul: lambda a, b: _hull(*(_times(x, y) for x in a for y in b)),
    divide: _quotient,
    both: lambda a, b: CONDITION,
    either: lambda a, b: CONDITION,
}
CALLS: dict[str, Callable[..., Range]] = {
    "negative": lambda x: (-x[1], -x[0]),
    "not": lambda x: CONDITION,
    "as_number": lambda x: x,
    "where": lambda _, a, b: _hull(*a, *b),
    "maximum": lambda *parts: (max(a for a, _ in parts), max(b for _, b in parts)),
    "minimum": lambda *parts: (min(a for a, _ in parts), min(b for _, b in parts)),
    "clip": lambda x, low, high: (min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])),
    "exp": _exp,
    "abs": _abs,
}
