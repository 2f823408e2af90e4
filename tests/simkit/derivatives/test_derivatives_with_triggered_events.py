"""Derivatives of means of paths with events that depend on conditions."""

import numpy as np
import pytest
from scipy.stats import norm, poisson

import simkit

pytestmark = pytest.mark.more


def test_the_derivative_sees_the_time_of_a_bounce_move():
    """A ball falls for sqrt(2 h/g), and then rises with the velocity e sqrt(2 g h)."""
    ball = {
        "constants": {"h0": 1.0, "g": 9.81},
        "model": {"ode": {"h": "v", "v": "-g"}},
        "initial": {"h": "h0", "v": 0.0},
        "time": {"t1": 0.8, "rtol": 1e-9, "atol": 1e-9},
        "precision": "float64",
        "events": {"bounce": {"when": "h < 0", "set": {"h": 0, "v": "-0.8*v"}}},
        "observe": {"height": "h"},
        "sensitivity": {"wrt": ["h0", "g"]},
    }

    def height(h0, g):
        since = 0.8 - np.sqrt(2 * h0 / g)
        return 0.8 * np.sqrt(2 * g * h0) * since - g * since**2 / 2

    result = simkit.sensitivity(ball)
    assert float(result["height_mean"]) == pytest.approx(height(1.0, 9.81), abs=1e-8)
    step = 1e-6
    for name, h, g in (("h0", step, 0.0), ("g", 0.0, step)):
        exact = (height(1 + h, 9.81 + g) - height(1 - h, 9.81 - g)) / (2 * step)
        of = result.sel(parameter=name)
        assert str(of["height_derivative_estimator"].values) == "finite differences"
        error = float(of["height_derivative_step_error"])
        assert abs(float(of["height_derivative"]) - exact) < 2 * error < 1e-3


def test_the_score_of_an_event_that_a_condition_allows():
    """The mean falls by the probability that x, which is normal, is above 0.7 half way."""
    gated = {
        "model": {"sde": {"x": {"drift": "a", "noise": {"W": 0.4}}}, "parameters": {"a": 1.0}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 8},
        "ensemble": {"paths": 20000, "seed": 2, "devices": 1},
        "events": {"cut": {"at": 0.5, "when": "x > 0.7", "set": {"x": "x - 1"}}},
        "observe": {"last": "x"},
        "sensitivity": {"wrt": ["model.a"]},
    }
    result = simkit.sensitivity(gated).sel(parameter="model.a")
    sd = 0.4 * np.sqrt(0.5)
    z = (0.7 - 0.5) / sd
    exact = 1 - 0.5 / sd * norm.pdf(z)
    assert str(result["last_derivative_estimator"].values) == "score"
    assert abs(float(result["last_mean"]) - (1 - norm.sf(z))) < 4.5 * float(result["last_mean_stderr"])
    assert abs(float(result["last_derivative"]) - exact) < 4.5 * float(result["last_derivative_stderr"])


def test_counts_with_a_triggered_event_have_differences_only():
    """The counts are a Poisson process modulo 20."""
    harvest = {
        "model": {"reactions": {"birth": {"equation": "0 -> X", "rate": "k"}}, "parameters": {"k": 8.0}},
        "initial": {"X": 0},
        "time": {"t1": 2.0},
        "ensemble": {"paths": 40000, "seed": 5, "devices": 1},
        "events": {"harvest": {"when": "X >= 20", "set": {"X": 0}}},
        "observe": {"last": "X"},
        "sensitivity": {"wrt": ["model.k"]},
    }
    result = simkit.sensitivity(harvest).sel(parameter="model.k")
    assert str(result["last_derivative_estimator"].values) == "finite differences"
    assert "a condition decides when an event happens" in str(result["last_derivative_reason"].values)
    events = np.arange(200)
    up, down = (np.sum(poisson.pmf(events, 2 * k) * (events % 20)) for k in (8.001, 7.999))
    error = np.hypot(result["last_derivative_stderr"], result["last_derivative_step_error"])
    assert abs(float(result["last_derivative"]) - (up - down) / 0.002) < 4.5 * float(error)
