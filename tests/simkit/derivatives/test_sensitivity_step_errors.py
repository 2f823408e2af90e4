"""Derivatives of stochastic runs less their step bias are the exact ones, within the errors stated."""

import numpy as np
import pytest
from derivative_examples import FEW_STEPS, rows
from scipy.stats import chi2

import simkit
from simkit.closed_forms.black_scholes import black_scholes_gamma

GREEKS = {
    ("call", "S"): 0.636830651175619,
    ("call", "sigma"): 37.5240346916938,
    ("call", "r"): 53.2324815453763,
    ("call", "S, S"): black_scholes_gamma(S=100, K=100, r=0.05, sigma=0.2, T=1),
    ("digital", "S"): 0.0187620173458469,
    ("digital", "sigma"): -0.656670607104641,
    ("digital", "S, S"): -0.000328335303552,
    ("square", "sigma"): 2 * 0.2 * 1e4 * np.exp(0.1 + 0.04),
    ("square", "r"): 2 * 1e4 * np.exp(0.1 + 0.04),
}


def covered(experiment, exact, seeds, crossing=(), **overrides):
    """By derivative the sum of z² over seeds, with and without the step bias, which must be a chi² one.

    Those of `crossing`, whose bias changes its sign with the step, may have no order.
    """
    with_bias, without, unclaimed = {}, {}, set()
    for seed in range(seeds):
        result = rows(simkit.sensitivity(experiment, overrides={"ensemble.seed": seed} | overrides))
        for key, value in exact.items():
            row = result[key]
            off = row["derivative"] - value
            if row.get("bias_bound") is not None:
                unclaimed.add(key)
                continue
            error = np.hypot(row["stderr"], row["bias_stderr"])
            with_bias[key] = with_bias.get(key, 0) + ((off - row["bias"]) / error) ** 2
            without[key] = without.get(key, 0) + (off / max(row["stderr"], 1e-9)) ** 2
    assert unclaimed <= {*crossing}
    assert all(value < chi2.ppf(1 - 1e-6, seeds) for value in with_bias.values()), with_bias
    return without


@pytest.mark.slow
def test_derivatives_less_their_step_bias_are_the_exact_ones():
    """Of eight steps: pathwise, smoothed and mixed estimators, of first and second order."""
    covered(FEW_STEPS, GREEKS, 12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "score",
        pytest.param("finite_differences", marks=pytest.mark.slow),
        pytest.param("reverse", marks=pytest.mark.slow),
    ],
)
def test_other_estimators_have_the_same_step_bias(method):
    changes = {
        "score": {"sensitivity.of": ["digital"]},
        "finite_differences": {"sensitivity.of": ["square", "call"]},
        "reverse": {"sensitivity.of": ["square", "call"]},
    }[method]
    wanted = {
        key: x for key, x in GREEKS.items() if key[0] in changes["sensitivity.of"] and "," not in key[1]
    }
    covered(FEW_STEPS, wanted, 12, **changes, **{"sensitivity.method": method, "sensitivity.second": None})


def ornstein_uhlenbeck(x, theta, mu, sigma):
    slow = np.exp(-0.7 * theta)
    mean = mu + (x - mu) * slow
    return mean, mean**2 + sigma**2 / (2 * theta) * (1 - slow**2)


def square_root(x, kappa, theta, sigma):
    slow = np.exp(-0.7 * kappa)
    mean = theta + (x - theta) * slow
    spread = x * sigma**2 / kappa * (slow - slow**2) + theta * sigma**2 / (2 * kappa) * (1 - slow) ** 2
    return mean, mean**2 + spread


PROCESSES = [
    ("OrnsteinUhlenbeck", ornstein_uhlenbeck, "X", 3.0, {"theta": 2.0, "mu": 1.0, "sigma": 0.5}),
    pytest.param(
        *("CIR", square_root, "r", 0.09, {"kappa": 1.5, "theta": 0.06, "sigma": 0.2}), marks=pytest.mark.slow
    ),
]


@pytest.mark.more
@pytest.mark.parametrize(("model", "moments", "variable", "start", "parameters"), PROCESSES)
def test_processes_that_revert(model, moments, variable, start, parameters):
    """The mean and the second moment, by the start and all parameters, against the exact distributions."""
    experiment = {
        "model": {"type": model} | parameters,
        "initial": {variable: start},
        "solver": "EulerMaruyama",
        "time": {"t1": 0.7, "steps": 16},
        "ensemble": {"paths": 2048, "devices": 1},
        "observe": {"mean_of_it": f"1*{variable}", "square": f"{variable}**2"},
        "sensitivity": {"wrt": [variable, *parameters], "of": ["mean_of_it", "square"]},
    }
    exact, point = {}, [start, *parameters.values()]
    for i, label in enumerate([variable, *parameters]):
        moved = [x + 1e-30j * (i == j) for j, x in enumerate(point)]
        for quantity, value in zip(("mean_of_it", "square"), moments(*moved), strict=True):
            exact[quantity, label] = value.imag / 1e-30
    without = covered(experiment, exact, 8, crossing=[("square", "theta")])
    assert without["mean_of_it", variable] > 100  # the step bias is what makes them right


@pytest.mark.slow
def test_where_dates_are_those_of_steps_they_stay_when_steps_are_halved():
    """The level has twice as many steps and uses every other one: what is left is exact."""
    changes = {
        "observe": {"knocked": "max(S) > 120", "above": "mean(maximum(S - 100, 0))"},
        "sensitivity": {"wrt": ["S", "sigma"]},
        "ensemble": {"paths": 2**15, "devices": 1},
        "time": {"t1": 1.0, "steps": 4},
    }
    euler = rows(simkit.sensitivity(FEW_STEPS | changes))
    exact = rows(simkit.sensitivity(FEW_STEPS | changes, overrides={"solver": "ExactSampling"}))
    assert euler["knocked", "S"]["estimator"] == "smoothing"
    for key, row in euler.items():
        off = row["derivative"] - row["bias"] - exact[key]["derivative"]
        assert abs(off) < 5 * np.hypot(row["bias_stderr"], np.hypot(row["stderr"], exact[key]["stderr"])), key
    assert euler["above", "S"]["bias_stderr"] < euler["above", "S"]["stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("steps", [60, pytest.param(100, marks=pytest.mark.slow)])
def test_a_derivative_has_an_order_of_its_own(steps):
    """Four times the steps are unstable, and nothing of the size of the smallest may be claimed."""
    fast = {
        "constants": {"s": 0.1},
        "model": {"sde": {"X": {"drift": "-50*X", "noise": {"W": "s"}}}},
        "initial": {"X": 200.0},
        "time": {"t1": 1.0, "steps": steps},
        "ensemble": {"paths": 5000, "seed": 8, "devices": 1, "unresolved": "keep"},
        "observe": {"f": "X**2"},
        "sensitivity": {"wrt": ["s"]},
    }
    row = rows(simkit.sensitivity(fast))["f", "s"]
    error = np.hypot(row["stderr"], row["bias_stderr"])
    assert abs(row["derivative"] - row["bias"] - 2 * 0.1 / 100) < 4 * error
    assert row["bias_stderr"] < 0.003


@pytest.mark.slow
def test_what_the_mean_does_not_see_is_seen_by_its_derivative():
    """The variance of a stiff process, 0.05, counts in the derivative alone: there is no order."""
    hidden = {
        "constants": {"part": 0.0},
        "model": {
            "sde": {
                "X": {"drift": "-X", "noise": {"W": 1.0}},
                "Y": {"drift": "-1000*Y", "noise": {"V": 10.0}},
            }
        },
        "initial": {"X": 1.0, "Y": 0.0},
        "solver": "DriftImplicitEuler",
        "time": {"t1": 2.0, "steps": 200},
        "ensemble": {"paths": 4096, "devices": 1, "unresolved": "keep"},
        "observe": {"f": "X + part*Y**2"},
        "sensitivity": {"wrt": ["part"]},
    }
    row = rows(simkit.sensitivity(hidden))["f", "part"]
    assert row["resolved"] is False
    assert row.get("bias_stderr") is None
    assert 0.003 < row["bias_bound"] < 0.0417


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
def test_where_longer_steps_say_little_shorter_ones_are_taken(method):
    """Steps twice as long swing and those four times as long explode: nothing follows for the run."""
    swinging = {
        "model": {"sde": {"x": {"drift": "-30*x", "noise": {"W": 0.1}}}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 32},
        "ensemble": {"paths": 256, "devices": 1, "normals": "float64", "unresolved": "keep"},
        "precision": "float64",
        "sensitivity": {"wrt": ["x"], "of": ["x"], "method": method},
    }
    row = rows(simkit.sensitivity(swinging))["x", "x"]
    assert abs(row["derivative"] - np.exp(-30.0)) < 1e-9
    assert row.get("bias") is None  # no order fits shorter steps either, and the bound is from these
    assert row["bias_bound"] < 1e-9
