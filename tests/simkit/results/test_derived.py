"""Figures made of means: their errors over seeds, their step bias, where they are shown, what is refused."""

import csv
import json
import math

import numpy as np
import pytest
from command import simkit_command

import simkit
from simkit import InputError, load
from simkit.results.derived import mean_square_error
from simkit.results.table import make_table, print_table, summary

SEEDS = 40
MARKET = {
    "constants": {"r": 0.05, "K": 105.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.25},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "ensemble": {"paths": 1024, "seed": 1, "devices": 1},
    "observe": {"call": "exp(-r*t) * maximum(S - K, 0)", "stock": "exp(-r*t) * S"},
    "derived": {
        "vol": {
            "value": "implied_volatility(price=call, S=100, K=K, r=r, T=1)",
            "exact": "sigma",
            "unit": "1/time^0.5",
        },
        "held": {
            "value": "call - 0.5*(stock - 100)",
            "exact": "black_scholes_call(S=100, K=K, r=r, sigma=sigma, T=1)",
        },
        "ratio": {"value": "call/stock", "exact": "black_scholes_call(S=1, K=K/100, r=r, sigma=sigma, T=1)"},
        "log_mean": {"value": "log(stock)", "exact": "log(100)"},
        "square": {"value": "(stock - 100)**2", "exact": 0},
    },
}
STEEP = {
    "model": {"ode": {"X": "a - X"}, "parameters": {"a": 2.0}},
    "initial": {"X": 0.0},
    "solver": "Euler",
    "time": {"t1": 1.0, "steps": 32},
}


def with_seed(seed):
    return {**MARKET, "ensemble": {**MARKET["ensemble"], "seed": seed}}


@pytest.mark.slow
def test_errors_are_honest_over_seeds():
    """Mean z² is 1 within what 40 seeds allow; without the covariance that of `held` would be 0.14."""
    results = [simkit.run(with_seed(seed)) for seed in range(SEEDS)]
    for name in ("vol", "held", "ratio", "log_mean"):
        z = np.array([float(each[f"{name}_z"]) for each in results])
        assert 0.25 < np.mean(z**2) < 2.4, name
        assert abs(np.mean(z)) < 4.9 / math.sqrt(SEEDS), name
    square = np.array([[float(each[f"square_{key}"]) for key in ("value", "stderr")] for each in results])
    assert 0.3 < np.mean(square[:, 0] ** 2) / np.mean(square[:, 1] ** 2) < 1.5


@pytest.mark.slow
def test_the_error_is_that_of_the_delta_method():
    result = simkit.run(MARKET)
    vega = simkit.CLOSED_FORMS["black_scholes_vega"](S=100, K=105, r=0.05, sigma=float(result.vol_value), T=1)
    assert float(result.vol_stderr) == pytest.approx(float(result.call_stderr) / vega, rel=1e-3)
    both = result.covariance.sel(quantity=["call", "stock"], quantity_2=["call", "stock"]).values
    weights = np.array([1, -0.5])
    assert float(result.held_stderr) == pytest.approx(math.sqrt(weights @ both @ weights / 1024), rel=1e-12)
    assert float(result.held_stderr) < 0.6 * float(result.call_stderr)


def test_the_mean_square_error_is_exact_of_quadratic_forms():
    """Of (x, y) normal with mean 0, E[(x² + 3xy + 2x)²] by Gauss-Hermite quadrature."""
    covariance = np.array([[0.5, 0.2], [0.2, 0.4]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    u, v = np.meshgrid(nodes, nodes)
    w = np.outer(weights, weights) / (2 * math.pi)
    x, y = np.tensordot(np.linalg.cholesky(covariance), np.stack([u, v]), 1)
    wanted = np.sum(w * (x**2 + 3 * x * y + 2 * x) ** 2)
    actual = mean_square_error(np.array([2.0, 0]), np.array([[2.0, 3.0], [3.0, 0]]), covariance)
    assert actual == pytest.approx(wanted, rel=1e-12)


def test_step_biases_go_along():
    observe = {"X2": "X**2"}
    derived = {"double": "2*X", "root": "sqrt(X2)", "none": "X2/X2"}
    result = simkit.run({**STEEP, "observe": observe, "derived": derived})
    assert float(result.double_bias) == pytest.approx(2 * float(result.X_bias), rel=1e-12)
    exact = 2 * (1 - math.exp(-1))
    left = abs(float(result.root_value) - float(result.root_bias) - exact)
    assert left < float(result.root_bias_stderr) + 0.02 * abs(float(result.root_bias))
    assert abs(float(result.root_bias)) > 1e-3


def test_errors_of_step_biases_are_added_whatever_the_signs_of_the_slopes():
    observe = {"X2": "X**2", "X3": "X**3"}
    result = simkit.run({**STEEP, "observe": observe, "derived": {"difference": "X2 - 2*X3"}})
    added = float(result.X2_bias_stderr) + 2 * float(result.X3_bias_stderr)
    assert added > 0
    assert float(result.difference_bias_stderr) == pytest.approx(added, rel=1e-12)


@pytest.mark.slow
def test_without_an_estimate_of_a_mean_there_is_none():
    """Steps that are too long for X: a bound in place of a bias, and a mark."""
    stiff = {
        "model": {"sde": {"X": {"drift": "-1000*X", "noise": {"W": 10}}}},
        "initial": {"X": 0.0},
        "solver": "DriftImplicitEuler",
        "time": {"t1": 2.0, "steps": 200},
        "ensemble": {"paths": 1000, "devices": 1, "unresolved": "keep"},
        "observe": {"v": "X**2"},
        "derived": {"spread": {"value": "sqrt(v)", "exact": 0.05**0.5}},
    }
    result = simkit.run(stiff)
    slope = 0.5 / math.sqrt(float(result.v_mean))
    assert float(result.spread_bias_bound) == pytest.approx(slope * float(result.v_bias_bound), rel=1e-9)
    assert math.isnan(float(result.spread_bias))
    assert math.isnan(float(result.spread_z))
    figures = summary(result)
    assert figures["derived"]["spread"]["resolved"] == figures["observables"]["v"]["resolved"]
    assert figures["derived"]["spread"]["noticeable_bias"] == figures["observables"]["v"]["noticeable_bias"]
    assert not figures["derived"]["spread"]["resolved"] or figures["derived"]["spread"]["noticeable_bias"]


@pytest.mark.more
def test_table_json_csv_and_variants_show_them(tmp_path, capsys):
    simkit.run(MARKET, out=tmp_path / "found.csv")
    with (tmp_path / "found.csv").open() as file:
        lines = {(line["quantity"], line["time"]): line for line in csv.DictReader(file)}
    result = simkit.run(MARKET)
    assert float(lines["vol", "1.0"]["mean"]) == float(result.vol_value)
    assert float(lines["vol", "1.0"]["stderr"]) == float(result.vol_stderr)
    figures = summary(result)["derived"]
    assert list(figures) == list(MARKET["derived"])
    assert figures["vol"]["mean"] == float(result.vol_value)
    assert figures["vol"]["unit"] == "1/time^0.5"
    print_table(result)
    assert "vol" in capsys.readouterr().out
    variants = {"low": {"model.sigma": 0.2}, "high": {"model.sigma": 0.3}}
    variants["none"] = {"model.sigma": 0.3, "observe.call": "-exp(-r*t)"}
    together = simkit.run({**MARKET, "variants": variants})
    assert np.abs(together.vol_value[:2] - [0.2, 0.3]).max() < 0.05
    assert math.isnan(together.vol_value[2])
    assert make_table(together).row_count == 3 * 8
    print_table(together)
    assert "no vol of none:" in capsys.readouterr().out


def test_a_figure_without_a_value_is_reported(capsys):
    derived = {
        "vol": "implied_volatility(price=call/100, S=100, K=K, r=r, T=1)",
        "log_of": "log(-call)",
        "one": "call/call",
    }
    result = simkit.run({**MARKET, "constants": {"r": 0.05, "K": 50.0}, "derived": derived})
    print_table(result)
    text = capsys.readouterr().out
    assert "no vol: implied_volatility: price: no volatility gives" in text
    assert "no log_of: log(-call) is nan at these means" in text
    assert "vol_stderr" not in result
    assert float(result.one_stderr) < 1e-14


@pytest.mark.parametrize(
    ("derived", "message"),
    [
        ({"vol": "2*cal"}, r"derived\.vol.*: unknown name 'cal'"),
        ({"vol": "2*K"}, "has no mean in it"),
        ({"call": "2*stock"}, "call is a quantity of the run; choose another name"),
        (
            {"vol": "merton_call(S=stock, K=K, r=r, sigma=0.2, T=1, lam=1, m=0, delta=0.1)"},
            "merton_call is computed",
        ),
        ({"vol": "max(stock)"}, r"max"),
        ({"vol": {"value": "call", "exact": "stock"}}, r"derived\.vol\.exact: unknown name 'stock'"),
    ],
)
def test_what_is_no_figure_of_means_is_refused(derived, message):
    with pytest.raises(InputError, match=message):
        load({**MARKET, "derived": derived})


def test_the_command_takes_them_from_the_file_and_by_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sections = {key: MARKET[key] for key in ("constants", "model", "initial", "time", "ensemble")}
    (tmp_path / "gbm.yaml").write_text(json.dumps({**sections, "derived": {"half": "S/2"}}))
    result = simkit_command("run", "gbm.yaml", "--set", "derived.third=S/3")
    assert result.exit_code == 0, result.stderr
    assert "half" in result.stdout
    assert "third" in result.stdout
