"""Derivatives of what begins at random."""

import math

import jax
import numpy as np
import pytest
from derivative_examples import LIMIT, derivative, first_choice, second_choice
from scipy.stats import norm

from simkit import InputError, load, sensitivity
from simkit.derivatives import find_target
from simkit.derivatives.targets import is_in_range


def test_of_a_uniform_distribution_the_lower_end_stays_in_the_range():
    experiment = {
        "constants": {"low": 0.0},
        "model": {"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": 0.3},
        "initial": {"r": {"uniform": ["low", 0.1]}},
        "time": {"t1": 1.0, "steps": 2},
    }
    with jax.enable_x64(True):
        simulation = load(experiment)
        targets = [find_target(simulation, "low")]
        assert [is_in_range(simulation, targets, [step]) for step in (0.001, -0.001)] == [True, False]


@pytest.mark.slow
def test_differences_stay_where_there_is_a_distribution():
    experiment = {
        "constants": {"s": 0.0},
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": {"normal": [1.0, "s"]}},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 256, "seed": 1, "devices": 1},
        "observe": {"square": "x*x"},
    }
    given, checked = (
        derivative(experiment, "s", "square", method=method)[0] for method in ("auto", "finite_differences")
    )
    assert checked == pytest.approx(given, rel=1e-6)


SPREAD = {
    "constants": {"m": 0.0, "s": 0.5, "b": 0.4, "c": 0.1},
    "model": {"sde": {"X": {"drift": "c", "noise": {"W": 1.0}}}},
    "initial": {"X": {"normal": ["m", "s"]}},
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
    "observe": {
        "stays": "max(X) < b",
        "below": "integral(X < b)",
        "late": "mean(X) > b",
        "fraction": "mean(X > b)",
        "fractions": {"value": "mean(X > b)", "at": "each"},
        "each": {"value": "X > b", "at": "each"},
        "end": "X > b",
    },
}


@pytest.mark.more
@pytest.mark.parametrize("wrt", ["m", "s", "b", "c"])
def test_no_noise_affects_an_observation_at_a_random_start(wrt):
    """Smoothing and the score held it fixed: the barrier's derivative lacked the paths that begin beyond."""
    chosen = {name: first_choice(SPREAD, wrt, name).method for name in SPREAD["observe"]}
    moved = {"c": "score"}.get(wrt, "finite differences")
    inside = {"c": "score"}.get(wrt, "smoothing")
    early, late = ("stays", "below", "fractions", "each"), ("late", "fraction", "end")
    assert chosen == dict.fromkeys(early, moved) | dict.fromkeys(late, inside)
    fixed = {**SPREAD, "initial": {"X": 0.0}}
    assert wrt in "ms" or first_choice(fixed, wrt, "stays").method == inside


@pytest.mark.more
def test_a_random_start_has_its_density_in_derivatives():
    result = sensitivity({**SPREAD, "sensitivity": {"wrt": ["m", "b"], "of": ["each"]}})
    for row, wanted in enumerate((norm.pdf(0.4, 0, 0.5), norm.pdf(0.4, 0.1, math.sqrt(1.25)))):
        slopes, errors = (result[f"each_derivative{x}"].values[:, row] for x in ("", "_stderr"))
        assert np.all(np.abs(slopes - [wanted, -wanted]) < LIMIT * errors)
        assert np.all(LIMIT * errors < 0.6 * wanted)
    with pytest.raises(InputError, match="score for each in m: m moves X where it begins at random, before"):
        derivative(SPREAD, "m", "each", method="score")
    with pytest.raises(InputError, match="smoothing for each in b: X is random where it begins, before any"):
        derivative(SPREAD, "b", "each", method="smoothing")


@pytest.mark.parametrize(
    ("text", "at", "method"),
    [
        ("maximum(X - b, 0)", "each", "finite differences"),
        ("maximum(X - b, 0)", "end", "mixed"),
        ("integral(maximum(X - b, 0))", "end", "finite differences"),
    ],
)
def test_a_random_start_may_be_at_a_kink(text, at, method):
    seen = {**SPREAD, "observe": {"value": {"value": text, "at": at}}}
    assert second_choice(seen, "m", "value").method == method


def test_an_event_at_the_start_moves_what_begins_at_random():
    """Y begins at 0, and is X at once."""
    both = {"X": {"drift": 0.0, "noise": {"W": 1.0}}, "Y": {"drift": 0.0, "noise": {"B": 1.0}}}
    experiment = {
        **SPREAD,
        "model": {"sde": both},
        "initial": {"X": {"normal": ["m", "s"]}, "Y": 0.0},
        "observe": {"high": {"value": "Y > b", "at": "each"}},
    }
    assert first_choice(experiment, "b", "high").method == "smoothing"
    for at, method in ((0.0, "finite differences"), (0.5, "smoothing")):
        events = {"over": {"at": [at], "set": {"Y": "X"}}}
        assert first_choice({**experiment, "events": events}, "b", "high").method == method


@pytest.mark.slow
def test_an_integral_sees_what_is_compared_before_an_event_and_after_it():
    """Its trapezia end at the one value and begin at the other, and smoothing held the last alone."""
    experiment = {
        **SPREAD,
        "initial": {"X": 1.0},
        "events": {"fall": {"at": [0.5], "set": {"X": "X - b"}}},
        "observe": {"above": "integral(X > 0)", "late": "mean(X > 0)"},
    }
    assert first_choice(experiment, "b", "late").method == "smoothing"
    estimate, error, estimator, _ = derivative(experiment, "b", "above")
    wanted = -0.25 * (norm.pdf(0.65, 0, math.sqrt(0.5)) + norm.pdf(0.7))
    assert estimator == "finite differences"
    assert abs(estimate - wanted) < LIMIT * error
    curve = {"L": {"times": [0, 0.5], "values": [0.0, "b"], "interpolation": "previous", "outside": "hold"}}
    for text, method in (("integral(X > L)", "finite differences"), ("integral(X > 0)*L", "score")):
        jumping = {**experiment, "events": {}, "curves": curve, "observe": {"above": text}}
        assert first_choice(jumping, "b", "above").method == method
