"""Derivatives in times: of conditions on time, and of the ends of a run."""

import math

import pytest
from derivative_examples import ARRIVALS, LIMIT, derivative

from simkit import InputError, sensitivity


@pytest.mark.parametrize(
    ("changed", "wrt", "second"),
    [
        ({"model": {"ode": {"x": "where(t > tau, 1, 0)"}}}, "tau", False),
        ({"model": {"ode": {"x": "where(t > 0.45, 1, 0)"}}}, "time.t1", False),
        ({"model": {"ode": {"x": "where(c > 0.45, 1, 0)"}}}, "tau", False),
        ({"model": {"ode": {"x": "where(c > 0.45, 1, 0)"}}}, "time.t1", False),
        ({"observe": {"x_late": "integral(x*(t > tau))"}}, "tau", False),
        ({"observe": {"x_late": "max(where(t > tau, 2 - x, 0))"}}, "tau", False),
        ({"observe": {"x_late": "integral(maximum(t - tau, 0))"}}, "tau", True),
        ({"model": {"ode": {"x": "c"}}}, "tau", True),
        ({"model": {"ode": {"x": "c"}}}, "time.t1", True),
    ],
)
def test_conditions_on_time_do_not_move_against_steps(changed, wrt, second):
    """On ten steps nothing happens until one is passed."""
    experiment = {
        "constants": {"tau": 0.45},
        "curves": {"c": {"times": [0.0, "tau"], "values": [0.0, 1.0], "outside": "hold"}},
        "model": {"ode": {"x": "-x + 0*c"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 10},
        **changed,
    }
    section: dict = {"wrt": [wrt]}
    if second:
        section["second"] = [wrt]
    with pytest.raises(
        InputError, match=f"wrt: {wrt} shifts (a condition on [tc]|the knots of c) relative to"
    ):
        sensitivity({**experiment, "sensitivity": section})


@pytest.mark.slow
def test_adaptive_steps_see_a_condition_on_time():
    experiment = {
        "constants": {"tau": 0.45},
        "model": {"ode": {"x": "where(t > tau, 1, 0)"}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "rtol": 1e-8, "atol": 1e-8},
    }
    for wrt, wanted in (("tau", -1.0), ("time.t1", 1.0)):
        assert derivative(experiment, wrt, "x")[0] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("wrt", ["T", "time.t1"])
def test_a_constant_that_is_the_end_of_time_moves_it(wrt):
    """Three arrive in a unit of time, and none leaves: the number is Poisson's."""
    constants = {"T": 101.0, "alpha": 3.0}
    later = {**ARRIVALS, "constants": constants, "time": {"t0": 100.0, "t1": "T"}}
    later["model"] = {**ARRIVALS["model"], "mu": 0.0}
    for of, wanted in (("count", 3.0), ("many", 3 * math.exp(-3) * 4.5)):
        estimate, error, estimator, _ = derivative(later, wrt, of)
        assert estimator == "finite differences"
        assert abs(estimate - wanted) < LIMIT * error
        assert error < 0.5
    with pytest.raises(InputError, match=f"no score for many in {wrt}: {wrt} moves the times of the rows"):
        derivative(later, wrt, "many", method="score")


def test_differences_in_time_are_of_the_size_of_a_run():
    """The integral of sin t over a second, a thousand seconds after 0."""
    experiment = {
        "model": {"ode": {"x": "sin(t)"}},
        "initial": {"x": 0.0},
        "time": {"t0": 1000.0, "t1": 1001.0, "steps": 8},
    }
    for wrt, wanted in (("t1", math.sin(1001)), ("t0", -math.sin(1000))):
        estimate, *_ = derivative(experiment, wrt, "x", method="finite_differences")
        assert estimate == pytest.approx(wanted, abs=1e-5)
