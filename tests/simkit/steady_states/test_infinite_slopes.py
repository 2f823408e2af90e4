"""Steady states at which a rate of change has an infinite slope: what is known of them, and no eigenvalue."""

import math

import pytest
from steady_examples import ode, states_of

import simkit
from simkit.steady_states.table import print_table


@pytest.mark.parametrize("power", [0.25, 0.5, 0.8])
@pytest.mark.parametrize("rate", ["-x**p", "-2*x**p - x"])
def test_a_state_that_is_reached_in_a_finite_time_is_stable(rate, power, capsys):
    result = simkit.steady(ode({"x": rate.replace("p", str(power))}, {"x": 1.0}))
    assert result["kind"].values.tolist() == ["stable: infinite slope"]
    assert bool(result["stable"][0])
    assert math.isinf(float(result["eigenvalue_error"][0, 0]))
    assert abs(float(result["value"][0, 0])) <= float(result["value_error"][0, 0])
    print_table(result)
    text = capsys.readouterr().out
    assert "a rate of change has an infinite slope at steady state 1, so that no eigenvalue" in text
    (row,) = (line for line in text.splitlines() if "stable: infinite slope" in line)
    assert row.rstrip("│ ").endswith("?")


def test_a_state_from_which_pushes_grow_at_an_infinite_slope_is_unstable():
    (state,) = (
        s for s in states_of(ode({"x": "sqrt(x) - x"}, {"x": 0.0})) if s["values"]["x"]["value"] < 0.5
    )
    assert (state["kind"], state["stable"]) == ("unstable: infinite slope", False)


def test_of_several_variables_stability_is_undecided():
    tanks = ode({"x": "-sqrt(x)", "y": "sqrt(x) - sqrt(y)"}, {"x": 1.0, "y": 0.5})
    (state,) = states_of(tanks)
    assert (state["kind"], state["stable"]) == ("undecided: infinite slope", False)


@pytest.mark.parametrize("rate", ["-x**2", "-x**3", "-x**1.5", "-x*abs(x)"])
def test_a_slope_of_zero_is_degenerate_as_before(rate):
    (state,) = states_of(ode({"x": rate}, {"x": 1.0}))
    assert state["kind"] == "degenerate"


def test_of_states_at_rest_side_by_side_none_is_named():
    """All x below 0 are at rest, and the model comes to 0 and stays there."""
    with pytest.raises(simkit.NumericalError, match="no steady state"):
        simkit.steady(ode({"x": "-maximum(x, 0)**0.9"}, {"x": 1.0}))
