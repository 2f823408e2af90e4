"""Reactions as chemists write them."""

import pytest
from simkit_solvers import reaction


@pytest.mark.parametrize(
    ("equation", "said"),
    [
        ("S + I", "is not a reaction: write reactants -> products"),
        ("A <-> B", "two directions as two reactions"),
        ("A -> B -> C", "is not a reaction"),
        ("1.5 A -> B", "the number of A must be a whole one from 1, got 1.5"),
        ("-2 A -> B", "the number of A must be a whole one from 1, got -2"),
        ("0 A -> B", "the number of A must be a whole one from 1, got 0"),
        ("A - B -> C", "'A - B' is not a species with a number before it"),
        (" -> B", "write 0 for nothing"),
    ],
)
def test_what_is_no_reaction(equation, said):
    with pytest.raises(ValueError, match=said):
        reaction(equation)


@pytest.mark.parametrize("equation", ["2 A + B -> C", "A + B + A -> C", "2A+B->C", "2*A + B -> C"])
def test_ways_to_write_a_reaction(equation):
    parsed = reaction(equation)
    assert (dict(parsed.reactants), dict(parsed.products)) == ({"A": 2, "B": 1}, {"C": 1})
    assert parsed.change == {"A": -2, "B": -1, "C": 1}
    assert parsed.order == 3
