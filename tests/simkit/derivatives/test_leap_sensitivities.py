"""The step bias of derivatives of tau-leaping covers exact values over seeds, whatever the estimator."""

import math

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import chi2

import simkit
from simkit.derivatives.table import summary

SEEDS = 6
ARRIVALS = {
    "model": {"type": "ImmigrationDeath", "alpha": 200.0, "mu": 1.0},
    "initial": {"X": 500},
    "solver": {"type": "TauLeaping", "epsilon": 0.05},
    "time": {"t1": 1.0},
    "ensemble": {"paths": 4000, "devices": 1, "unresolved": "keep"},
    "sensitivity": {"wrt": ["alpha", "mu"]},
}
PAIRS = {
    "constants": {"k": 0.005, "c": 0.4},
    "model": {
        "reactions": {
            "bind": {"equation": "2 A -> B", "rate": "k"},
            "part": {"equation": "B -> 2 A", "rate": "c"},
        },
    },
    "initial": {"A": 300, "B": 0},
    "solver": {"type": "TauLeaping", "epsilon": 0.1},
    "time": {"t1": 1.0},
    "ensemble": {"paths": 2000, "devices": 1, "unresolved": "keep"},
    "sensitivity": {"wrt": ["k", "c"], "of": ["A"]},
}


def arrivals():
    """X is the sum of a binomial and a Poisson number, with a mean that is known."""
    slow = math.exp(-1.0)
    return {"X by alpha": 1 - slow, "X by mu": -500 * slow - 200 * (1 - slow) + 200 * slow}


def pairs():
    """By the master equation over the number of pairs, and differences whose error is far below any other."""
    b = np.arange(151.0)
    a = 300 - 2 * b

    def mean(k, c):
        up, down = k * a * (a - 1) / 2, c * b
        return expm(np.diag(up[:-1], -1) + np.diag(down[1:], 1) - np.diag(up + down))[:, 0] @ a

    return {
        "A by k": (mean(0.00501, 0.4) - mean(0.00499, 0.4)) / 2e-5,
        "A by c": (mean(0.005, 0.401) - mean(0.005, 0.399)) / 2e-3,
    }


def figures(experiment, **overrides):
    """Those of each derivative, by quantity and parameter."""
    each = summary(simkit.sensitivity(experiment, overrides=overrides))["quantities"].items()
    return {f"{name} by {label}": row for name, x in each for label, row in x["derivatives"].items()}


def z_of(experiment, exact, seeds, **overrides):
    """By derivative z over seeds, less the step bias and with its error, and without either."""
    corrected, plain = {name: [] for name in exact}, {name: [] for name in exact}
    for seed in range(seeds):
        result = figures(experiment, **{"ensemble.seed": seed} | overrides)
        for name, value in exact.items():
            row = result[name]
            assert row["bias"] is not None, row
            off = row["derivative"] - value
            corrected[name].append((off - row["bias"]) / math.hypot(row["stderr"], row["bias_stderr"]))
            plain[name].append(off / row["stderr"])
    return corrected, plain


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "exact"), [(ARRIVALS, arrivals), (PAIRS, pairs)])
@pytest.mark.parametrize("method", ["coupled_differences", "score", "finite_differences"])
def test_derivatives_less_their_step_bias_are_the_exact_ones(method, experiment, exact):
    """They would not be without it where noise does not hide it, as that of scores and differences does."""
    corrected, plain = z_of(experiment, exact(), SEEDS, **{"sensitivity.method": method})
    for name, z in corrected.items():
        assert np.sum(np.square(z)) < chi2.ppf(1 - 1e-5, SEEDS), (name, z)
        assert abs(np.mean(z)) * SEEDS**0.5 < 4, (name, z)
    largest = max(abs(np.mean(z)) * SEEDS**0.5 for z in plain.values())
    hidden = (method, experiment) not in (("coupled_differences", ARRIVALS), ("score", PAIRS))
    assert hidden or largest > 4


@pytest.mark.more
@pytest.mark.parametrize(
    "method", [pytest.param("coupled_differences", marks=pytest.mark.slow), "score", "finite_differences"]
)
def test_the_step_bias_of_a_derivative_is_reported(method):
    result = figures(ARRIVALS, **{"sensitivity.method": method, "ensemble.paths": 1000})
    for name, value in arrivals().items():
        row = result[name]
        off = row["derivative"] - row["bias"] - value
        assert abs(off) < 4 * math.hypot(row["stderr"], row["bias_stderr"])
        assert row["bias_stderr"] > 0
        assert "not measured" not in row["reason"]
