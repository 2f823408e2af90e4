"""Where expressions jump, and where their slopes do."""

import pytest

from simkit.expressions import compile_expression


@pytest.mark.parametrize(
    ("text", "jumps", "kinks"),
    [
        ("S * t", "", ""),
        ("maximum(S - K, 0)", "", "S K"),
        ("where(S > K, v, t)", "S K", ""),
        ("exp(v) * (S > 1) + abs(t)", "S", "t"),
        ("floor(S) + mean(v)", "S", ""),
        ("mean(S > K) * max(v)", "S K", "v"),
        ("(max(S) < 2) * t", "S", "S"),
        ("sqrt(S/K) + (2*v)**0.5 + sqrt(exp(t) + S)", "", ""),
        ("sqrt((S - K)**2) + v", "", "S K"),
        ("((S - K)*(S - K))**0.5", "", "S K"),
        ("sqrt(1 - cos(v)) * S", "", "v"),
        ("mean(sqrt(v**2))", "", "v"),
    ],
)
def test_expressions_say_where_they_jump(text, jumps, kinks):
    result = compile_expression(text, ["S", "v", "K", "t"], functionals=True)
    assert result.discontinuities.jumps == frozenset(jumps.split())
    assert result.discontinuities.kinks == frozenset(kinks.split())
