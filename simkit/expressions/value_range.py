"""Between which values an expression must lie, whatever the state is: what its conditions and bounds say."""

import ast
import math
from collections.abc import Callable, Mapping

from simkit.expressions.functions import NUMBERS
from simkit.functionals import FUNCTIONALS
from simkit.functionals.functional import ANY, Range

TRUTH: Range = (0.0, 1.0)


def value_range(text: str, known: Mapping[str, Range]) -> Range:
    """The least and the largest value of an expression, given those of the names in it that have such."""
    numbers = {name: (value, value) for name, value in NUMBERS.items()}
    return _of(ast.parse(" ".join(text.split()), mode="eval").body, {**numbers, **known})


def _of(node: ast.expr, known: Mapping[str, Range]) -> Range:
    match node:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return TRUTH
        case ast.Constant():
            return float(node.value), float(node.value)  # pyright: ignore[reportArgumentType]
        case ast.Name() if node.id in known:
            return known[node.id]
        case ast.UnaryOp(op=ast.USub()):
            low, high = _of(node.operand, known)
            return -high, -low
        case ast.UnaryOp(op=ast.UAdd()):
            return _of(node.operand, known)
        case ast.BinOp():
            return _combined(node.op, _of(node.left, known), _of(node.right, known))
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONALS:
            return FUNCTIONALS[name].bounds(
                *(_of(part, known) for part in node.args), time=known.get("t", ANY)
            )
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            return CALLS[name](*(_of(part, known) for part in node.args))
    return ANY


def _combined(operator: ast.operator, a: Range, b: Range) -> Range:
    match operator:
        case ast.Add():
            return a[0] + b[0], a[1] + b[1]
        case ast.Sub():
            return a[0] - b[1], a[1] - b[0]
        case ast.Mult():
            return _hull(*(_times(x, y) for x in a for y in b))
        case ast.Div() if b[0] > 0 or b[1] < 0:
            return _hull(*(_times(x, 1 / y) for x in a for y in b))
    return ANY


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


CALLS: dict[str, Callable[..., Range]] = {
    "where": lambda _, a, b: _hull(*a, *b),
    "maximum": lambda *parts: (max(a for a, _ in parts), max(b for _, b in parts)),
    "minimum": lambda *parts: (min(a for a, _ in parts), min(b for _, b in parts)),
    "clip": lambda x, low, high: (min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])),
    "exp": _exp,
    "abs": _abs,
}
