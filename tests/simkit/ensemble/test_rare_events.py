"""What no path did: how likely it may be, and how well its step bias is known."""

import dataclasses
import math

import numpy as np
import pytest
from step_bias_examples import table

import simkit
from simkit import load
from simkit.ensemble import run_ensemble
from simkit.results.table import summary

pytestmark = pytest.mark.more


RARE = {
    "model": {"sde": {"X": {"noise": {"W": 1}}}},
    "initial": {"X": 0},
    "time": {"t1": 1, "steps": 4},
    "ensemble": {"paths": 3000, "devices": 1},
    "observe": {
        "never": {"value": "X > 5.5", "exact": 1.9e-8},
        "always": "X < 5.5",
        "digital": "20*exp(-0.1*t)*(max(X) > 5.5)",
        "bonus": "maximum(X - 5.5, 0)",
        "capped": "minimum(maximum(X - 5.5, 0), 2)",
        "fixed": "integral(t)",
        "half": "X > 0",
    },
}


def test_what_no_path_did_has_a_limit_where_there_is_one():
    """The rule of three: an event that none of n paths met has a probability below 3/n, with 95 %."""
    result = simkit.run(RARE)
    figures = summary(result)["observables"]
    n = 3 / 3000
    ends = {name: (row.get("lower"), row.get("upper")) for name, row in figures.items()}
    assert ends["never"] == (0, n)
    assert ends["always"] == (1 - n, 1)
    assert ends["digital"] == (0, pytest.approx(20 * n))
    assert ends["capped"] == (0, 2 * n)
    assert ends["bonus"] == (0, None)
    assert ends["fixed"] == ends["half"] == (None, None)
    text = table(result)
    rows = {line.split()[1]: line for line in text.splitlines() if line.startswith("│")}
    assert " 0 (below 0.001) " in rows["never"]
    assert " 1 (above 0.999) " in rows["always"]
    assert " 0 ± 0 " in rows["bonus"]
    assert "%" not in rows["never"]  # the exact value is below the limit
    assert "bonus: the same on all 3,000 paths, so no bound on" in text


@pytest.mark.slow
def test_first_times_that_no_path_has_come_to_have_a_limit():
    """Of 500 paths none reaches 6 by t = 4: fewer than 0.006 of all would, and wait between 0 and 4."""
    result = simkit.run(
        {
            "model": {"type": "DoubleWell", "gamma": 1, "u": 1, "b": 2, "a": 1},
            "initial": {"x": -1},
            "solver": "EulerMaruyama",
            "time": {"t1": 4.0, "steps": 400},
            "ensemble": {"paths": 500, "devices": 1},
            "observe": {
                "tau": "hitting_time(x > 6)",
                "hit": "first(2, x > 6)",
                "missed": "1 - first(1, x < 6)",
            },
        }
    )
    assert result["tau_mean"].values.reshape(-1)[-1] == 4
    assert result["tau_lower"].item() == pytest.approx(4 - 0.006 * 4)
    assert result["hit_upper"].item() == pytest.approx(2 * 0.006)
    assert result["missed_upper"].item() == pytest.approx(0.006)


def test_what_no_path_has_met_on_any_grid_is_known_to_one_path():
    """A constant is known but for rounding, and what has no limit is not known at all."""
    expected = {
        "X > 9": (1 / 500, "0.00000 ± 0.00200"),
        "3 - 2.5*(X > 9)": (2.5 / 500, "0.00000 ± 0.00500"),
        "maximum(X - 9, 0)": (math.inf, "0 ± inf"),
        "1 + 0*t": (0.0, "(0.00 ± 8.88)e-16"),
    }
    names = [f"p{i}" for i in range(len(expected))]
    rare = {
        "model": {"sde": {"X": {"drift": "-0.1*X", "noise": {"W": 1}}}},
        "initial": {"X": 0},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 500, "devices": 1},
        "observe": {
            name: {"value": text, "exact": 0.001} for name, text in zip(names, expected, strict=True)
        },
    }
    result = simkit.run(rare)
    for name, (error, text) in zip(names, expected.values(), strict=True):
        assert float(result[f"{name}_bias"]) == 0
        assert float(result[f"{name}_bias_stderr"]) == pytest.approx(error, abs=1e-12)
        row = next(line for line in table(result).splitlines() if line.startswith(f"│ {name}"))
        assert row.split("│")[3].strip() == text
        assert math.isnan(float(result[f"{name}_z"]))  # no path that says how the mean varies
        assert summary(result)["observables"][name]["resolved"]


def test_what_only_other_paths_of_the_run_have_met_is_known_to_one_of_those_compared():
    """On other grids run 4096 paths, and only path 4500 of 5000 has the payment of 3, and 2 whole fives.

    The latter have no largest value, but in the run they differ by 2 at most.
    """
    start = [0.0] * 4500 + [10.0] + [0.0] * 499
    result = simkit.run(
        {
            "model": {"sde": {"X": {"drift": "-0.1*X", "noise": {"W": 0.1}}}},
            "initial": {"X": {"values": start}},
            "solver": "EulerMaruyama",
            "time": {"t1": 1.0, "steps": 4},
            "ensemble": {"paths": 5000, "devices": 1, "unresolved": "keep"},
            "observe": {"pays": "3*(X > 5)", "fives": "floor(X/5 + 0.5)"},
        }
    )
    for name, change in (("pays", 3), ("fives", 2)):
        assert float(result[f"{name}_mean"]) == pytest.approx(change / 5000)
        assert float(result[f"{name}_bias"]) == 0
        assert float(result[f"{name}_bias_stderr"]) == pytest.approx(change / 4096)


def test_sides_that_no_path_switches_are_known_to_one_path():
    """By symmetry steps leave each well its half; often four times the steps move a path, and twice none."""
    wells = {
        "model": {"sde": {"x": {"drift": "x - x**3", "noise": {"W": 0.7746}}}},
        "initial": {"x": 0.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 5.0, "steps": 48},
        "observe": {"right": "x > 0", "half": "0.5*(x > 0)"},
    }
    n = 100
    for seed in range(20):
        result = simkit.run(wells | {"ensemble": {"paths": n, "seed": seed, "devices": 1}})
        for name, change in (("right", 1), ("half", 0.5)):
            bias, error = (float(result[f"{name}_{key}"]) for key in ("bias", "bias_stderr"))
            assert error >= 0.999 * change / n
            assert abs(bias) < 4 * error
            assert float(result[f"{name}_variance_bias_stderr"]) >= 0.5 * (change / n) ** 2
        assert "!" not in table(result)


def test_sides_of_variables_without_step_bias_have_none():
    """Euler's steps of a Brownian motion are exact, and no other grid could move a path across."""
    walk = {
        "model": {"sde": {"X": {"noise": {"W": 1}}, "Y": {"drift": "-Y", "noise": {"V": 1}}}},
        "initial": {"X": 0, "Y": 0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 16},
        "ensemble": {"paths": 300, "devices": 1},
        "observe": {"up": "X > 0", "far": "X > 9", "either": "(X > 0) + (Y > 9)", "top": "max(X) > 9"},
    }
    result = simkit.run(walk)
    for name, least, most in (("up", 0, 1e-6), ("far", 0, 1e-6), ("either", 1 / 300, 1), ("top", 1 / 300, 1)):
        assert float(result[f"{name}_bias"]) == 0
        assert least <= 1.001 * float(result[f"{name}_bias_stderr"]) <= 1.001 * most


def test_any_variable_may_be_another_where_one_more_path_has_an_event():
    """Of 32 paths of 100 seeds the last event of few comes before the end on one grid and not on another.

    The bias is that of 50 000 paths.
    """
    neuron = {
        "model": {"sde": {"x": {"drift": 1, "noise": {"W": 0.3}}, "last": {"drift": 0}}},
        "initial": {"x": 0, "last": 0},
        "solver": "EulerMaruyama",
        "time": {"t1": 2.4, "steps": 256},
        "events": {"fire": {"when": "x > 1", "set": {"x": 0, "last": "t"}}},
        "ensemble": {"paths": 32, "devices": 1},
        "observe": {"square": "last**2"},
    }
    simulation = load(neuron)
    known = run_ensemble(dataclasses.replace(simulation, paths=50_000, seed=1000)).bias
    each = [run_ensemble(dataclasses.replace(simulation, seed=seed)).bias for seed in range(100)]
    for name in ("x", "last", "square"):
        z = [(bias[name].bias - known[name].bias) / bias[name].stderr for bias in each]
        assert np.mean(np.abs(z) < 2) >= 0.9, name
