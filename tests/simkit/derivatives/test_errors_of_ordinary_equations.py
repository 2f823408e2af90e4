"""Sensitivities of ordinary equations from a file: solved together with the state, with an honest error."""

import io
import json
import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import simkit
from simkit import load
from simkit.cli import app
from simkit.derivatives import find_target, program_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.offers import first_offer
from simkit.derivatives.other_steps import with_tighter_tolerances
from simkit.derivatives.table import notes, print_table

# At rest the state needs no steps at all, and its derivatives do.
REST = {
    "model": {
        "ode": {"x": "-k*(x - c)", "y": "x - y"},
        "parameters": {"k": 3.0, "c": 1.0},
    },
    "initial": {"x": 1.0, "y": 1.0},
    "solver": "Tsit5",
    "time": {"t1": 2.0, "rtol": 1e-7, "atol": 1e-9},
    "save": {"points": 4},
    "observe": {"x_over_time": {"value": "x", "at": "each"}, "scaled": "c*y"},
    "sensitivity": {"wrt": ["x", "c", "k"]},
}


def exact(t, k=3.0):
    """The derivatives of x by its start and by c, and of c y by its three."""
    fast, slow = np.exp(-k * t), np.exp(-t)
    y_by_x = (slow - fast) / (k - 1)
    y_by_c = 1 - slow - y_by_x
    return {"x_over_time": [fast, 1 - fast, 0 * t], "scaled": [y_by_x, 1 + y_by_c, 0 * t]}


def check(solver, within):
    result = simkit.sensitivity(REST, overrides={"solver": solver})
    t = result["time"].values
    for name, values in exact(t).items():
        for i, value in enumerate(values):
            derivative = result[f"{name}_derivative"].values[i]
            error = np.abs(derivative - (value if derivative.ndim else value[-1]))
            reported = result[f"{name}_derivative_step_error"].values[i]
            assert np.all(error <= within), (name, i, error)
            assert np.all(error <= 3 * reported + 1e-12), (name, i, error, reported)
            assert np.all(reported <= 10 * within)


@pytest.mark.slow
def test_derivatives_take_the_steps_that_they_need():
    """Those of the state would be off by more than the derivative."""
    check("Tsit5", 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["Rodas5P", "Kvaerno5"])
def test_the_same_by_implicit_steps(solver):
    check(solver, 2e-5)


@pytest.mark.more
def test_the_end_of_time_moves_the_state_along_its_slope(tmp_path, monkeypatch):
    """By the command, whose table and figures have the error of the steps."""
    monkeypatch.chdir(tmp_path)
    decay = {
        "model": {"ode": {"x": "-k*x"}, "parameters": {"k": 0.5}},
        "initial": {"x": 2.0},
        "time": {"t1": 2.0, "rtol": 1e-6, "atol": 1e-8},
        "sensitivity": {"wrt": ["t1", "k"]},
    }
    (tmp_path / "decay.yaml").write_text(json.dumps(decay))
    result = CliRunner().invoke(app, ["sensitivity", "decay.yaml", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["quantities"]["x"]["derivatives"]
    for label, value in (("t1", -math.exp(-1)), ("k", -4 * math.exp(-1))):
        off = abs(rows[label]["derivative"] - value)
        assert off < 1e-5
        assert off < 3 * rows[label]["step_error"] < 1e-4


def test_the_run_for_the_error_has_a_tenth_of_both_tolerances():
    """Down to what the precision resolves."""
    with jax.enable_x64(True):
        _, inputs = program_of(load(REST))
        tighter = with_tighter_tolerances(inputs, "float64")
        own, tenth = inputs.grid.tolerances, tighter.grid.tolerances
        assert float(own.rtol) == 1e-7
        assert float(own.atol) == 1e-9
        assert float(tenth.rtol) == pytest.approx(1e-8)
        assert float(tenth.atol) == pytest.approx(1e-10)
        assert float(tighter.grid.span) == float(inputs.grid.span)
        finest = inputs._replace(
            grid=eqx.tree_at(lambda g: g.tolerances.rtol, inputs.grid, jnp.asarray(1e-15))
        )
        assert float(with_tighter_tolerances(finest, "float64").grid.tolerances.rtol) == 8 * 2.0**-52


@pytest.mark.parametrize("method", ["auto", "finite_differences"])
def test_steps_of_fixed_length_show_the_error_of_kinked_values(method):
    """y, the integral of x - 1, bends as x = e^(kt)/8 passes 1: dy/dk = (t x - y - t) / k.

    No step of the grid, nor of the finer one, ends there.
    """
    k, t1 = 1.3, 2.0
    experiment = {
        "model": {"ode": {"x": "k*x", "y": "maximum(x - 1, 0)"}, "parameters": {"k": k}},
        "initial": {"x": 1 / 8, "y": 0.0},
        "solver": "Tsit5",
        "time": {"t1": t1, "steps": 50},
        "observe": {"bent": "y*1", "area": "integral(maximum(x - 1, 0))"},
        "sensitivity": {"wrt": ["k"], "method": method},
    }
    result = simkit.sensitivity(experiment)
    x = math.exp(k * t1) / 8
    y = (x - 1) / k - (t1 - math.log(8) / k)
    for name in ("bent", "area"):
        off = abs(result[f"{name}_derivative"].item() - (t1 * x - y - t1) / k)
        reported = result[f"{name}_derivative_step_error"].item()
        assert 1e-6 < off < 4 * reported < 40 * off, (name, off, reported)


def test_steps_of_fixed_length_show_the_error_at_every_time():
    """Heun's is of second order: twice as many steps take away three quarters of it, of second ones too."""
    k = 1.3
    result = simkit.sensitivity(
        {
            "model": {"ode": {"x": "k*x"}, "parameters": {"k": k}},
            "initial": {"x": 1.0},
            "solver": "Heun",
            "time": {"t1": 2.0, "steps": 100},
            "save": {"points": 4},
            "sensitivity": {"wrt": ["k"], "second": [["k", "k"]]},
        }
    )
    t = result["time"].values
    for kind, exact in (("derivative", t * np.exp(k * t)), ("second", t**2 * np.exp(k * t))):
        off = np.abs(result[f"x_{kind}"].values[0] - exact)
        assert result[f"x_{kind}_step_error"].values[0] == pytest.approx(0.75 * off, rel=0.05)
        assert off[-1] > 1e-4 * exact[-1]


@pytest.mark.parametrize("extreme", ["max(x)", "min(-x)"])
def test_extremes_of_steps_have_no_step_error(extreme):
    """The largest of twice as many steps is often the same; that of requested dates is what is meant."""
    result = simkit.sensitivity(
        {
            "model": {"ode": {"x": "v", "v": "-w*w*x"}, "parameters": {"w": 1.0}},
            "initial": {"x": 0.0, "v": 1.0},
            "solver": "Tsit5",
            "time": {"t1": 2.7, "steps": 30},
            "observe": {
                "all": extreme,
                "some": {"value": extreme, "every": 10},
                "area": "integral(maximum(x - 0.5, 0))",
                "average": "mean(x)",
            },
            "sensitivity": {"wrt": ["w"]},
        }
    )
    assert "all_derivative_step_error" not in result
    assert "the extreme is that of a step" in result["all_derivative_reason"].item()
    assert "the extreme is the value at a step" in result["all_derivative_unknown"].item()
    assert np.isnan(result["all_bias_bound"].item())
    assert abs(result["some_bias"].item()) < 1e-6
    assert "some_derivative_unknown" not in result
    assert any(re.match("error of all by w unknown: the extreme is", line) for line in notes(result))
    assert result["some_derivative_step_error"].item() < 1e-6
    assert result["some_derivative_reason"].item() == "continuous in the path"
    assert 1e-5 < result["area_derivative_step_error"].item() < 0.1
    assert result["average_derivative_step_error"].item() > 1e-3


def test_derivatives_of_extremes_show_their_sampling_error():
    """What the steps add is unknown, and said once; the elasticity has an error of the same kind."""
    result = simkit.sensitivity(
        {
            "model": {"ode": {"x": "v", "v": "-w*w*x", "w": 0.0}},
            "initial": {"x": 0.0, "v": 1.0, "w": {"normal": ["w0", "spread"]}},
            "constants": {"w0": 1.0, "spread": 0.1},
            "time": {"t1": 2.7, "steps": 30},
            "ensemble": {"paths": 200, "seed": 1, "devices": 1},
            "observe": {"all": "max(x)"},
            "sensitivity": {"of": ["all"], "wrt": ["w0", "spread"]},
        }
    )
    file = io.StringIO()
    print_table(result, file)
    rows = [[cell.strip() for cell in line.split("│")] for line in file.getvalue().splitlines()]
    row = next(row for row in rows if "w0" in row)
    stderr = float(result["all_derivative_stderr"][0])
    assert float(row[3].partition(" ± ")[2]) == pytest.approx(stderr, rel=0.01)
    assert row[4] == "unknown"
    assert "?" not in file.getvalue()
    (line,) = (line for line in notes(result) if "unknown" in line)
    assert line.startswith("step error of all derivatives of all unknown: the extreme is the value at a step")


def test_a_value_that_jumps_is_neither_smoothed_nor_scored_without_noise():
    experiment = {
        "model": {"ode": {"x": "-a * x"}, "parameters": {"a": 1.5}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 4},
        "solver": "Heun",
        "observe": {"high": "x > 0.1"},
        "sensitivity": {"wrt": ["a"]},
    }
    simulation = load(experiment)
    with jax.enable_x64(True):
        run = DifferentiatedRun.of(simulation, [find_target(simulation, "a")])
        (choice,) = first_offer(run, "high", 0).rivals
    assert choice.method == "finite differences"
    assert choice.reason == (
        "the value jumps; no score: a score needs noise on a fixed grid; no smoothing: smoothing needs noise "
        "on a fixed grid"
    )


@pytest.mark.slow
def test_paths_that_fail_are_left_out_of_the_step_error_too():
    """x' = a x² goes to infinity before t = 1 where x begins above 1."""
    explodes = {
        "model": {"ode": {"x": "a*x**2"}, "parameters": {"a": 1.0}},
        "initial": {"x": {"uniform": [0, 1.02]}},
        "time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-5},
        "ensemble": {"paths": 256, "seed": 1, "failures": "exclude"},
    }
    result = simkit.sensitivity(explodes, wrt=["a"])
    assert result.attrs["failed_paths"] > 0
    assert np.isfinite(result["x_derivative_step_error"]).all()


@pytest.mark.parametrize("event", [{"at": 10.0, "set": {"x": "x"}}, {"when": "x > 2", "set": {"x": 0}}])
def test_derivatives_know_the_error_of_steps_that_end_at_saved_times(event):
    """Tolerances would let steps be longer than between saved times: smaller ones alone show no error."""
    swing = {
        "model": {"ode": {"x": "y", "y": "-k*x"}, "parameters": {"k": 1.0}},
        "initial": {"x": 1.0, "y": 0.0},
        "time": {"t1": 20.0, "rtol": 1e-3, "atol": 1e-3},
        "save": {"points": 100},
        "events": {"event": event},
        "sensitivity": {"wrt": ["k"]},
    }
    result = simkit.sensitivity(swing)
    derivatives = {"x": -10 * math.sin(20), "y": -math.sin(20) / 2 - 10 * math.cos(20)}
    for name, value in derivatives.items():
        off = abs(float(np.ravel(result[f"{name}_derivative"])[-1]) - value)
        assert 1e-9 < off < 3 * float(np.ravel(result[f"{name}_derivative_step_error"])[-1])
        mean = {"x": math.cos(20), "y": -math.sin(20)}[name]
        off = float(np.ravel(result[f"{name}_mean"])[-1]) - mean
        assert abs(off - float(result[f"{name}_bias"])) < 3 * float(result[f"{name}_bias_stderr"]) < abs(off)
