"""Ranges hold every value, and are no wider than they are to be."""

import itertools
import math

import pytest

from simkit.expressions import compile_expression
from simkit.expressions.value_range import value_range

ANY = (-math.inf, math.inf)
KNOWN = {"a": (-1.0, 2.0), "b": (0.5, 4.0), "p": (0.0, math.inf)}
VALUES = {"a": (-1.0, 0.0, 2.0), "b": (0.5, 4.0), "p": (0.0, 1e3), "x": (-1e3, 0.0, 7.0)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0*x", (0, 0)),
        ("(x > 1) * p", (0, math.inf)),
        ("(x > 1) * x", ANY),
        ("a * b", (-4, 8)),
        ("-a * p", ANY),
        ("p * (b - 0.5)", (0, math.inf)),
        ("a / b", (-2, 4)),
        ("(a - 2) / b", (-6, 0)),
        ("b / a", ANY),
        ("abs(a) - b", (-4, 1.5)),
        ("exp(-p)", (0, 1)),
        ("maximum(x, 0)", (0, math.inf)),
        ("clip(x, -b, b)", (-4, 4)),
        ("where(x > 0, a, b)", (-1, 4)),
    ],
)
def test_ranges_hold_every_value_and_end_where_they_are_to(text, expected):
    """Where a number may be of any size, zero times it is zero, and no end is undefined."""
    expression = compile_expression(text, list(VALUES))
    low, high = value_range(expression.tree, KNOWN)
    assert (low, high) == pytest.approx(expected)
    for values in itertools.product(*VALUES.values()):
        names = dict(zip(VALUES, values, strict=True))
        if names["a"] or "/ a" not in text:
            assert low <= float(expression(names)) <= high, names
