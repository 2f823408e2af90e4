"""Experiments by exact sampling: step errors of what is computed from exact states, and what is refused."""

import dataclasses

import numpy as np
import pytest
from grids import factors
from scipy import stats
from simkit_physics import MODELS

import simkit
from simkit import InputError, load
from simkit.closed_forms.bonds import vasicek_bond
from simkit.derivatives.table import summary
from simkit.ensemble import run_ensemble

LIMIT = 5  # in standard errors: once in a million


def experiment(model, initial, solver, steps, **more):
    described = {"type": model, **MODELS[model].example}
    return {
        "model": described,
        "initial": initial,
        "solver": solver,
        "time": {"t1": 1.0, "steps": steps},
    } | more


def test_exact_samples_have_no_step_bias():
    assert factors(load(experiment("CIR", {"r": 0.1}, "ExactSampling", 4))) == ()
    assert factors(load(experiment("CIR", {"r": 0.1}, "AndersenQE", 16))) == (2, 4)


def trapezoid(steps, f):
    return float(np.trapezoid(f(np.linspace(0.0, 1.0, steps + 1)), dx=1 / steps))


@pytest.mark.more
@pytest.mark.parametrize("steps", [16, pytest.param(10, marks=pytest.mark.slow), 1])
def test_the_error_of_an_integral_over_exact_states_covers_a_known_one(steps):
    """By the run's own path, or where its steps cannot be joined by one with shorter steps; an end has none.

    A decision that is made at an extreme does not hide what the integral leaves.
    """
    observe = {"area": "integral(S)", "both": "max(S) - max(S) + integral(S)", "end": "S", "top": "max(S)"}
    observe["watched"] = {"value": "integral(S)", "every": 1}
    given = experiment("GBM", {"S": 1.0}, "ExactSampling", steps, observe=observe)
    given |= {"ensemble": {"paths": 500, "devices": 1}}
    given["model"] = {"type": "GBM", "mu": 2.0, "sigma": 0.1}
    simulation = load(given)
    exact_bias = trapezoid(steps, lambda t: np.exp(2 * t)) - (np.exp(2) - 1) / 2
    results = [run_ensemble(dataclasses.replace(simulation, seed=seed)).bias for seed in range(20)]
    for name in ("area", "both"):
        z = [(each[name].bias - exact_bias) / each[name].stderr for each in results]
        assert np.mean(np.abs(z) < 2) >= 0.9
        assert all(abs(each[name].bias) > 0.5 * exact_bias for each in results)
    assert set(results[0]) == {"area", "both"}


@pytest.mark.slow
def test_bridges_between_exact_states_have_a_step_error():
    """The volatility of a square root process changes between them."""
    observe = {"safe": "no_touch(r - 0.02, sigma*sqrt(r))"}
    given = experiment("CIR", {"r": 0.05}, "ExactSampling", 16, observe=observe)
    given["model"] = {"type": "CIR", "kappa": 1.0, "theta": 0.04, "sigma": 0.25}
    results = {}
    for steps, paths in ((16, 100_000), (256, 50_000)):
        there = {
            "time": {"t1": 1.0, "steps": steps},
            "ensemble": {"paths": paths, "seed": steps, "devices": 1},
        }
        results[steps] = simkit.run(given | there)
    coarse, fine = (
        (
            float(x["safe_mean"]),
            float(x["safe_stderr"]),
            float(x["safe_bias"]),
            float(x["safe_bias_stderr"]),
        )
        for x in results.values()
    )
    off = coarse[0] - coarse[2] - fine[0] + fine[2]
    assert abs(off) < LIMIT * np.linalg.norm([coarse[1], coarse[3], fine[1], fine[3]])


@pytest.mark.slow
def test_derivatives_of_an_integral_over_exact_states_have_a_step_error():
    """d/dmu of the trapezoid of exp(mu t); that of the end has none."""
    given = experiment("GBM", {"S": 1.0}, "ExactSampling", 16, observe={"area": "integral(S)", "end": "S"})
    given |= {"ensemble": {"paths": 2000, "devices": 1}, "sensitivity": {"wrt": ["mu"]}}
    given["model"] = {"type": "GBM", "mu": 2.0, "sigma": 0.1}
    result = summary(simkit.sensitivity(given))["quantities"]
    area, end = (result[name]["derivatives"]["mu"] for name in ("area", "end"))
    exact_bias = trapezoid(16, lambda t: t * np.exp(2 * t)) - (np.exp(2) + 1) / 4
    assert abs(area["bias"] - exact_bias) < 4 * area["bias_stderr"]
    assert area["bias"] > 0.5 * exact_bias
    assert "bias" not in end


@pytest.mark.more
@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "steps", [pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(5, marks=pytest.mark.slow)]
)
def test_derivatives_over_a_few_exact_steps_are_right_less_their_bias(steps, method):
    """No steps can be left out here, so that other paths of the same distribution show the error."""
    given = experiment("GBM", {"S": 1.0}, "ExactSampling", steps, observe={"area": "integral(S)", "end": "S"})
    given["model"] = {"type": "GBM", "mu": 1.0, "sigma": 0.2}
    given["sensitivity"] = {"wrt": ["mu"], "method": method}
    exact_bias = trapezoid(steps, lambda t: t * np.exp(t)) - 1.0
    z_of_bias, z = [], []
    for seed in range(6):
        ensemble = {"paths": 1000, "seed": seed, "devices": 1}
        result = summary(simkit.sensitivity(given | {"ensemble": ensemble}))["quantities"]
        area, end = (result[name]["derivatives"]["mu"] for name in ("area", "end"))
        assert "bias" not in end
        assert "not measured" not in area["reason"]
        z_of_bias.append((area["bias"] - exact_bias) / area["bias_stderr"])
        error = np.hypot(area["stderr"], area["bias_stderr"])
        z.append((area["derivative"] - area["bias"] - 1.0) / error)
    for each in (z_of_bias, z):
        assert np.sum(np.square(each)) < stats.chi2.ppf(1 - 1e-6, len(each)), each
    assert abs(area["bias"]) > 0.5 * exact_bias


@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_where_fewer_exact_states_say_little_a_derivative_is_compared_on_more(method):
    """d/dtheta of the trapezoid of exp(-theta t), where four steps at once are too long for any order."""
    given = experiment("OrnsteinUhlenbeck", {"X": 1.0}, "ExactSampling", 16, observe={"area": "integral(X)"})
    given["model"] = {"type": "OrnsteinUhlenbeck", "theta": 30.0, "mu": 0.0, "sigma": 0.1}
    given |= {"ensemble": {"paths": 500, "devices": 1, "unresolved": "keep"}}
    given["sensitivity"] = {"wrt": ["theta"], "of": ["area"], "method": method}
    row = summary(simkit.sensitivity(given))["quantities"]["area"]["derivatives"]["theta"]
    exact = -(1 - 31 * np.exp(-30.0)) / 900
    exact_bias = trapezoid(16, lambda t: -t * np.exp(-30 * t)) - exact
    assert abs(row["bias"] - exact_bias) < 2 * row["bias_stderr"] < exact_bias
    error = np.hypot(row["stderr"], row["bias_stderr"])
    assert abs(row["derivative"] - row["bias"] - exact) < 2 * error


REFUSED = [
    (("SABR", {"F": 100.0, "alpha": 0.2}), "ExactSampling", {}, "SABR gives none .*; use EulerMaruyama"),
    (("GBM", {"S": 100.0}), "AndersenQE", {}, "GBM has none .*; use SRIW1"),
    (
        ("Heston", {"S": 100.0, "v": 0.1}),
        "AndersenQE",
        {"xi": 0.0},
        "that of Heston is 0; use EulerMaruyama",
    ),
]


@pytest.mark.parametrize(("model", "solver", "change", "message"), REFUSED)
def test_what_is_refused(model, solver, change, message):
    name, _ = model
    initial = MODELS[name].example_initial
    given = experiment(name, initial, solver, 4)
    given["model"] |= change
    with pytest.raises(InputError, match=message):
        load(given)


def test_adaptive_steps_are_refused():
    given = experiment("GBM", {"S": 100.0}, "ExactSampling", 4) | {
        "time": {"t1": 1.0, "rtol": 0.1, "atol": 0.1}
    }
    with pytest.raises(
        InputError, match="solver ExactSampling has no error estimate for adaptive steps; give"
    ):
        load(given)


@pytest.mark.slow
def test_a_bond_by_exact_rates():
    """The integral of the rate is by the trapezoidal rule."""
    observe = {
        "bond": {
            "value": "exp(-integral(r))",
            "exact": vasicek_bond(r=0.01, kappa=0.5, theta=0.04, sigma=0.015, T=1.0),
        }
    }
    given = experiment(
        "Vasicek", {"r": 0.01}, "ExactSampling", 50, observe=observe, ensemble={"paths": 20_000}
    )
    assert abs(float(simkit.run(given)["bond_z"])) < LIMIT
