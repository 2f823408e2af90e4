"""Steady states of models that begin at zero, in any units, and the time after which they are near."""

import math

import pytest
from steady_examples import ISOMERS, assert_within_errors, ode, states_of

import simkit

NEAR = "reached_within_10_percent_after"


@pytest.mark.parametrize("unit", [1e-13, 1e-9, 1.0, 1e9])
@pytest.mark.parametrize("beside", [False, True])
def test_units_change_no_steady_state_that_is_reached_from_zero(unit, beside):
    """A gene that activates itself, alone or beside a variable of size 1000."""
    drifts = {"x": "s*(a + (x/s)**2/(1 + (x/s)**2) - b*x/s)"} | ({"z": "1000 - z"} if beside else {})
    initial = {"x": 0.0} | ({"z": 2000.0} if beside else {})
    same = simkit.steady(ode(drifts, initial, a=0.05, b=0.5, s=1.0))
    dataset = simkit.steady(ode(drifts, initial, a=0.05, b=0.5, s=unit))
    lowest = float(same["value"].sel(root=1, quantity="x"))
    assert 0.05 + lowest**2 / (1 + lowest**2) == pytest.approx(0.5 * lowest, rel=1e-12)
    assert float(dataset["value"].sel(root=1, quantity="x")) == pytest.approx(lowest * unit, rel=1e-12)
    assert float(dataset["value_error"].sel(root=1, quantity="x")) < 1e-12 * unit
    assert bool(dataset["reached"].sel(root=1))
    assert dataset.attrs[NEAR] == pytest.approx(same.attrs[NEAR], rel=1e-3)


@pytest.mark.parametrize("unit", [1e-9, 1.0])
def test_a_chain_fills_from_zero(unit):
    """The second and third variable have no rate of change at the start."""
    chain = {"x": "k - x", "y": "x - 2*y", "z": "y - 4*z"}
    (state,) = states_of(ode(chain, {"x": 0.0, "y": 0.0, "z": 0.0}, k=unit))
    for name, value in {"x": unit, "y": unit / 2, "z": unit / 8}.items():
        assert state["values"][name]["value"] == pytest.approx(value, rel=1e-12)
    assert state["reached"]


@pytest.mark.parametrize("end", [0.0, 5.0])
@pytest.mark.parametrize("start", [0.0, 3.0])
def test_what_cancels_along_the_run_has_no_size_of_its_own(start, end):
    """The difference of two equal variables is rounding, and zero at the end."""
    drifts = {"u": "k - u", "v": "k - v", "x": "u - v - x"}
    (state,) = states_of(ode(drifts, {"u": start, "v": start, "x": 0.0}, k=end))
    assert state["reached"]
    assert_within_errors(state, {"u": end, "v": end, "x": 0.0})


EXPONENTIAL = {
    "from zero": (ode({"x": "0.05 - 0.25*x"}, {"x": 0.0}), math.log(10) / 0.25),
    "to zero": (ode({"x": "-x"}, {"x": 2.0}), math.log(10)),
    "from above": (ode({"x": "1 - x"}, {"x": 5.0}), math.log(4 / 0.5)),
    "beside a large one": (ode({"x": "1 - x", "y": "0*x"}, {"x": 0.0, "y": 1e4}), math.log(10)),
    "there and back": (ode({"y": "-y", "x": "y - x"}, {"x": 0.0, "y": 1.0}), 4.889720169867),
    "isomers": (ISOMERS, math.log(7.8 / 0.88) / 2.5),
    "from nearby": (ode({"x": "2.1 - x"}, {"x": 2.0}), 0.0),
}


@pytest.mark.parametrize("case", EXPONENTIAL)
def test_the_time_until_all_variables_are_within_10_percent(case):
    """Of the value at the end or that at the start; of x = t exp(-t), both zero, of the largest value 1/e."""
    source, exact = EXPONENTIAL[case]
    dataset = simkit.steady(source)
    assert bool(dataset["reached"].sel(root=1))
    assert dataset.attrs[NEAR] == pytest.approx(exact, rel=2e-3)
