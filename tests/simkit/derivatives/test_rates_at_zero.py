"""Derivatives of jump processes in a rate that is zero, or near it."""

import math

import jax
import pytest
from derivative_examples import ARRIVALS, LIMIT, derivative, run_of

from simkit import NumericalError, sensitivity
from simkit.derivatives.targets import is_in_range


@pytest.mark.more
def test_at_a_rate_of_zero_one_event_more_tells():
    written = {
        "reactions": {
            "arrival": {"equation": "0 -> X", "rate": "alpha"},
            "loss": {"equation": "X -> 0", "rate": 1},
        }
    }
    for model in (ARRIVALS["model"], written):
        estimate, error, estimator, _ = derivative(
            {**ARRIVALS, "model": model, "initial": {"X": 2}}, "alpha", "count"
        )
        assert estimator == "weak derivative"
        assert abs(estimate - (1 - math.exp(-1))) < LIMIT * error < 0.1
    section = {"wrt": ["alpha"], "of": ["count"], "check": True}
    checked = sensitivity({**ARRIVALS, "model": written, "sensitivity": section})
    assert float(checked["count_derivative_check_stderr"][0]) > 0
    assert abs(float(checked["count_derivative_z"][0])) < LIMIT
    # From two molecules the third to come is one too many, if both live.
    estimate, error, estimator, _ = derivative({**ARRIVALS, "initial": {"X": 2}}, "alpha", "many")
    assert estimator == "weak derivative"
    wanted = math.exp(-2) * (1 - math.exp(-1))
    assert abs(estimate - wanted) < LIMIT * error < 0.25 * wanted
    with pytest.raises(NumericalError, match="there is no score: a rate of zero changes"):
        derivative(ARRIVALS, "alpha", "count", method="score")


def test_no_differences_at_a_rate_below_zero():
    """Of a reaction in the file, whose rate is an expression: paths failed there, and the run with them."""
    reactions = {
        "birth": {"equation": "X -> 2 X", "rate": "0.1 + alpha"},
        "loss": {"equation": "X -> 0", "rate": 1},
    }
    experiment = {**ARRIVALS, "model": {"reactions": reactions}, "initial": {"X": 9}}
    counted = {
        **reactions,
        "pair": {"equation": "2 X -> X", "propensity": "X - 1"},
    }  # not asked without counts
    with jax.enable_x64(True):
        run = run_of({**experiment, "model": {"reactions": counted}}, "alpha")
        steps = [is_in_range(run.simulation, run.targets, [step]) for step in (0.2, -0.05, -0.1, -0.11)]
    assert steps == [True, True, True, False]
    reactions["birth"]["rate"] = "alpha"
    given, error, estimator, _ = derivative(experiment, "alpha", "count", method="finite_differences")
    assert estimator == "finite differences"
    assert abs(given - 9 * math.exp(-1)) < LIMIT * error


@pytest.mark.slow
def test_leaps_have_no_path_to_put_one_event_more_into():
    leaping = {**ARRIVALS, "solver": "TauLeaping", "ensemble": {"paths": 2**9, "seed": 1, "devices": 1}}
    estimate, error, estimator, _ = derivative(leaping, "alpha", "count")
    assert estimator == "finite differences"
    assert abs(estimate - (1 - math.exp(-1))) < LIMIT * error
    assert error < 1


@pytest.mark.slow
def test_copies_that_leap_have_no_rate_below_zero():
    """A fused product less its rounded self is below zero: each path of TauLeaping failed."""
    leaping = {
        "model": {"type": "ImmigrationDeath", "alpha": 300.0, "mu": 1.0},
        "initial": {"X": 100},
        "solver": "TauLeaping",
        "time": {"t1": 0.5},
        "ensemble": {"paths": 256, "seed": 1, "devices": 1},
    }
    estimate, error, estimator, _ = derivative(leaping, "mu", "X")
    assert estimator == "coupled differences"
    # The mean is a/m + (100 - a/m) e^(-m t).
    e = math.exp(-0.5)
    assert abs(estimate - (-300 + 300 * e + 200 * 0.5 * e)) < LIMIT * error + 0.03 * 60
