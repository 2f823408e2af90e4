"""Derivatives of values that jump: conditions at rest, on a curve, given twice, and several."""

import math

import numpy as np
import pytest
from derivative_examples import LIMIT, derivative
from scipy.stats import norm

from simkit import InputError, NumericalError, sensitivity


@pytest.mark.slow
def test_a_path_that_rests_where_the_value_jumps_has_no_weight():
    experiment = {
        "constants": {"c": 0.0},
        "model": {"sde": {"x": {"drift": "c", "noise": {"W": "x"}}}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 64, "seed": 1, "devices": 1},
        "observe": {"up": "x > 0"},
        "sensitivity": {"wrt": ["c"], "method": "smoothing"},
    }
    with pytest.raises(NumericalError, match="the noise vanishes where the path is observed"):
        sensitivity(experiment)


STRIKE = {
    "constants": {"k": 1.0},
    "curves": {"K": {"times": [0, 1], "values": ["k", "k + 0.1"]}},
    "model": {"type": "GBM", "mu": 0.0, "sigma": 0.2},
    "initial": {"S": 1.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
}


D2 = (math.log(1 / 1.1) - 0.02) / 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("text", "kind"), [("S > K", "derivative"), ("maximum(S - K, 0)", "second")])
def test_a_strike_on_a_curve_is_in_the_condition(text, kind):
    wanted = norm.pdf(D2) / (1.1 * 0.2) * (-1 if kind == "derivative" else 1)
    estimate, error, estimator, _ = derivative({**STRIKE, "observe": {"value": text}}, "k", "value", kind)
    assert estimator == "smoothing"
    assert abs(estimate - wanted) < LIMIT * error < 0.1 * abs(wanted)
    if kind == "derivative":
        with pytest.raises(InputError, match="no score for value in k: k is in the condition itself"):
            derivative({**STRIKE, "observe": {"value": text}}, "k", "value", method="score")


@pytest.mark.more
@pytest.mark.parametrize("text", ["(S > 110)*(S > 110)", "(S > 110)*(S - 110 > 0)"])
def test_a_condition_that_is_there_twice_is_one(text):
    """In float32 a matrix of two equal rows is singular where S is near the strike."""
    experiment = {
        "model": {"type": "GBM", "mu": 0.0, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 2**17, "seed": 1, "devices": 1},
        "precision": "float32",
        "observe": {"digital": text},
    }
    d = (math.log(100 / 110) - 0.02) / 0.2
    estimate, error, *_ = derivative(experiment, "S", "digital", method="smoothing")
    assert abs(estimate - norm.pdf(d) / 20) < LIMIT * error < 0.05 * estimate


@pytest.mark.more
def test_functionals_of_different_conditions_are_each_smoothed():
    """Both arguments have one condition, in the same variable and the same place, at different values."""
    times = np.array([0.25, 0.5, 0.75, 1.0])
    section = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "solver": "ExactSampling",
        "ensemble": {"paths": 20000, "devices": 1},
        "observe": {"q": {"value": "mean(S > 100) + mean(S > 120)"}},
    }
    estimate, stderr, estimator, _ = derivative(section, "initial.S", "q")
    deviations = 0.2 * np.sqrt(times)
    scores = [(np.log(100 / strike) + 0.03 * times) / deviations for strike in (100, 120)]
    exact = sum((norm.pdf(score) / (100 * deviations)).mean() for score in scores)
    assert estimator == "smoothing"
    assert abs(estimate - exact) < 5 * stderr < 0.1 * exact
