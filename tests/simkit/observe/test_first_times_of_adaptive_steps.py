"""First times and values at given times on adaptive steps: exact solutions, events, derivatives."""

import math

import numpy as np
import pytest
from derivative_examples import LIMIT, last
from slow_cases import slow_but

import simkit
from simkit import sensitivity

RTOL = 1e-8
OSCILLATOR = {
    "constants": {"w": 1.0},
    "model": {"ode": {"x": "w*v", "v": "-w*x"}},
    "initial": {"x": 0.0, "v": 1.0},
    "solver": "Tsit5",
    "time": {"t1": 5.0, "rtol": RTOL, "atol": RTOL},
    "observe": {
        "rising": "hitting_time(x > 0.5)",
        "falling": "hitting_time(v < -0.9)",
        "speed": "first(v*t, x > 0.5)",
        "then": "at(x*t, 0.3)",
        "never": "hitting_time(x > 2)",
    },
}
HALF = math.asin(0.5)
EXACT = {
    "rising": HALF,
    "falling": math.acos(-0.9),
    "speed": math.cos(HALF) * HALF,
    "then": math.sin(0.3) * 0.3,
    "never": 5.0,
}


@pytest.mark.parametrize(
    "solver",
    ["Tsit5", pytest.param("Rodas5P", marks=pytest.mark.more), *slow_but((), ("Dopri8", "Kvaerno5"))],
)
def test_first_times_of_an_oscillator_are_as_good_as_what_is_said_of_them(solver):
    """The error by other tolerances holds for times too. Dense output of Rodas5P is of a lower order."""
    result = simkit.run({**OSCILLATOR, "solver": solver})
    for name, wanted in EXACT.items():
        error = float(result[f"{name}_mean"]) - wanted
        if f"{name}_bias_bound" in result and np.isfinite(result[f"{name}_bias_bound"]):
            assert abs(error) <= 1.5 * float(result[f"{name}_bias_bound"]), name
        else:
            bias, stderr = (float(result[f"{name}_{key}"]) for key in ("bias", "bias_stderr"))
            assert abs(error - bias) <= 5 * stderr + 1e-14, name  # 4.3 for `falling` by Dopri8
        assert abs(error) < 1000 * RTOL, name


def test_a_condition_that_holds_within_a_step_is_seen():
    """Steps are as long as those of a smooth flow: far longer than the time above the level."""
    lenient = {"time": {"t1": 3.0, "rtol": 1e-3, "atol": 1e-3}, "solver": "Dopri8"}
    result = simkit.run({**OSCILLATOR, **lenient, "observe": {"top": "hitting_time(x > 0.97)"}})
    assert float(result.top_mean) == pytest.approx(math.asin(0.97), abs=5e-3)


@pytest.mark.parametrize("solver", ["Tsit5", pytest.param("Rodas5P", marks=pytest.mark.slow)])
def test_events_are_seen_before_and_after(solver):
    """A row, and what is saved anyway, come at the time of an event too."""
    result = simkit.run(
        {
            "model": {"ode": {"x": 1}},
            "initial": {"x": 0.0},
            "solver": solver,
            "time": {"t1": 5.0, "rtol": RTOL, "atol": RTOL},
            "events": {"back": {"at": 2, "set": {"x": "x - 10"}}},
            "save": {"points": 10},
            "observe": {
                "rising": {"value": "hitting_time(x >= 1.6)", "at": "each"},
                "low": "hitting_time(x < -5)",
                "value": "first(t*x, x < -5)",
                "at_event": "at(x, 2)",
                "before": "at(x*t, 1.7)",
                "at_row": "at(x, 1.5)",
                "never": "hitting_time(x > 2.3)",
                "begun": "hitting_time(x > -1)",
            },
        }
    )
    rising = np.minimum(np.arange(11) / 2, 1.6)
    np.testing.assert_allclose(result.rising_mean.values, rising, rtol=1e-9)
    wanted = {"low": 2, "value": -16, "at_event": -8, "before": 1.7**2, "at_row": 1.5, "never": 5, "begun": 0}
    assert {n: float(result[f"{n}_mean"]) for n in wanted} == pytest.approx(wanted, rel=1e-9)


@pytest.mark.slow
def test_derivatives_of_times_and_of_values_at_times():
    """x = sin(w t): it passes 1/2 at asin(1/2)/w, and its slope by w is t cos(w t)."""
    observe = {"rising": "hitting_time(x > 0.5)", "then": "at(x, 0.3)"}
    experiment = {**OSCILLATOR, "observe": observe}
    result = sensitivity({**experiment, "sensitivity": {"wrt": ["w"], "of": list(observe)}})
    assert last(result, "rising_derivative") == pytest.approx(-HALF, rel=1e-5)
    assert last(result, "then_derivative") == pytest.approx(0.3 * math.cos(0.3), rel=1e-6)
    assert result.then_derivative_estimator.values.item() == "pathwise"


def test_values_at_saved_times_of_adaptive_stochastic_steps():
    """Discounted, a price is as much as it was: S exp(-r (t - s)) - at(S, s) has the mean 0."""
    result = simkit.run(
        {
            "constants": {"r": 0.05},
            "model": {"type": "GBM", "mu": "r", "sigma": 0.3},
            "initial": {"S": 100.0},
            "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2},
            "save": {"points": 4},
            "ensemble": {"paths": 2048, "seed": 4, "devices": 1},
            "observe": {
                "since": {"value": "S*exp(-r*(t - 0.5)) - at(S, 0.5)", "at": "each"},
                "clock": {"value": "at(t, 0.5)", "at": "each"},
            },
        }
    )
    assert result.clock_mean.values.tolist() == [0, 0.25, 0.5, 0.5, 0.5]
    z = result.since_mean.values[3:] / result.since_stderr.values[3:]
    assert np.abs(z).max() < LIMIT
    assert result.since_stderr.values[2] == 0
