"""Roots at which the Jacobian vanishes: found, as near as their errors say, and told from what is no root."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steady_examples import Linear, assert_within_errors, numbers, ode, states_of

import simkit
from simkit import NumericalError
from simkit.steady_states.newton import Fixed


def test_a_double_root_has_an_error_of_half_of_the_digits_and_no_stability():
    (state,) = states_of(ode({"x": "-(x**2 - 2*x + 1)"}, {"x": 2.0}))
    assert_within_errors(state, {"x": 1.0}, worst=1e-6)
    assert state["values"]["x"]["error"] > 1e-9
    assert (state["kind"], state["stable"]) == ("degenerate", False)
    assert state["relaxation_time"]["value"] is None


class Power(Linear):
    """-y^p, without rounding."""

    def __init__(self, power: int):
        super().__init__(np.ones((1, 1)), np.zeros(1))
        self.power = power

    def __call__(self, y):
        return -(y**self.power)

    each = __call__

    def jacobian(self, y):
        return -self.power * y[:, None] ** (self.power - 1)

    def rounding(self, y):
        return np.zeros(1)


@given(st.integers(5, 9), st.floats(0.5, 2.0))
def test_a_multiple_root_is_as_near_as_its_error_says(power, start):
    """Newton's method gets nearer by a factor 1 - 1/p in each iteration, and ends after some of them."""
    fixed = Fixed(Power(power), np.zeros((0, 1)), np.asarray([start]), np.asarray([start]))
    root = fixed.root_from(np.asarray([start]))
    distance = abs(root.state[0])
    assert 0 < distance <= root.error[0] * (1 + 1e-6)
    assert root.error[0] <= 1.01 * distance


MULTIPLE = {
    "-(x**3 - 3*x**2 + 3*x - 1)": (1.0, 1e-4),
    "-(x**3 - 2.1*x**2 + 1.47*x - 0.343)": (0.7, 1e-4),
    "-(x - 1.1)**3": (1.1, 1e-6),
    "-(x - 1.1)**4": (1.1, 1e-5),
    "-(x - 1.1)**5": (1.1, 1e-4),
    "1 - 4*x + 6*x**2 - 4*x**3 + x**4": (1.0, 1e-3),
}


@pytest.mark.user_code
@pytest.mark.parametrize("rate", MULTIPLE)
def test_a_root_of_any_multiplicity_is_found_with_its_error(rate):
    """Written out, its terms cancel, and rounding leaves a third of the digits of a triple root."""
    exact, worst = MULTIPLE[rate]
    (state,) = states_of(ode({"x": rate}, {"x": 3.0}))
    assert_within_errors(state, {"x": exact}, worst=worst)
    assert state["kind"] == "degenerate"


@pytest.mark.user_code
@pytest.mark.parametrize(
    "rates",
    [{"x": "(x - 1)**2 + 1e-13"}, {"x": "-x**2 - 1e-14"}, {"x": "-1e-13 - (x - 1)**2", "y": "x - y"}],
)
def test_a_minimum_next_to_zero_is_no_root(rates):
    with pytest.raises(NumericalError, match="no steady state was found"):
        simkit.steady(ode(rates, dict.fromkeys(rates, 2.0)), search=50)


def test_roots_as_near_as_a_billionth_are_two():
    found = states_of(ode({"x": "-(x - 1)*(x - 1 - 1e-9)*(x - 3)"}, {"x": 0.0}), search=50)
    assert [state["kind"] for state in found] == ["stable node", "unstable node", "stable node"]
    for state, exact in zip(found, (1.0, 1 + 1e-9, 3.0), strict=True):
        assert_within_errors(state, {"x": exact}, worst=1e-11)


def test_equal_amounts_that_use_each_other_up_end_at_a_double_root():
    """Of A + B -> C: rounding of the conserved A - B must not pass for an excess of one of them."""
    network = {"reactions": {"together": {"equation": "A + B -> C", "rate": 1.0}}}
    (state,) = states_of({"model": network, "initial": {"A": 10, "B": 10, "C": 0}, "time": {"t1": 1.0}})
    assert state["kind"] == "degenerate"
    assert numbers(state)["C"] == pytest.approx(10)
