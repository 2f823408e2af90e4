"""Derivatives that are flagged or no result: step errors that are large or unknown, and heavy tails."""

import io
import json

import numpy as np
import pytest
from derivative_examples import FEW_STEPS, rows
from typer.testing import CliRunner

import simkit
from simkit.cli.app import app
from simkit.derivatives import study
from simkit.derivatives.plot import relative
from simkit.derivatives.table import print_table
from simkit.results.table import with_error

STEEP = {  # each step of -50x multiplies by -1.27, and the derivative of y by x ends at 201 in place of 0
    "model": {"sde": {"x": {"drift": "-50*x", "noise": {"W": 1e-9}}}},
    "initial": {"x": 1e-5},
    "time": {"t1": 1.0, "steps": 22},
    "ensemble": {"paths": 100, "devices": 1},
    "observe": {"y": "10 + x"},
    "sensitivity": {"wrt": ["x"], "of": ["y"]},
}


@pytest.mark.slow
def test_a_derivative_that_its_step_bias_makes_ends_the_command_with_3(tmp_path):
    """The mean is 10 all the same: the derivative alone is marked and named, and the command fails."""
    file, target = tmp_path / "steep.yaml", tmp_path / "steep.nc"

    def command(*options):
        file.write_text(json.dumps(STEEP))
        return CliRunner().invoke(app, ["sensitivity", str(file), "--no-plot", *options])

    shown = command("--out", str(target))
    assert shown.exit_code == 3
    assert target.exists()
    row = next(line for line in shown.stdout.splitlines() if "│ y = " in line)
    assert row.count(" !") == 1
    line = "! y by x: no result, the step bias is as large as the value; use 88 steps or more"
    assert line in shown.stdout
    outcome = command("--json")
    assert outcome.exit_code == 3
    assert line in outcome.stderr
    content = json.loads(outcome.stdout)["quantities"]["y"]
    assert content["resolved"] is True
    assert content["derivatives"]["x"]["resolved"] is False
    kept = command("--set", "ensemble.unresolved=keep")
    assert kept.exit_code == 0
    assert line in kept.stdout
    enough = command("--set", "time.steps=200")
    assert enough.exit_code == 0
    assert "no result" not in enough.stdout


@pytest.mark.slow
def test_python_warns_of_a_mean_and_a_derivative_that_step_biases_make():
    with pytest.warns(UserWarning, match=r"^! y, y by x: no result") as caught:
        result = simkit.sensitivity(STEEP, overrides={"observe.y": "x"})
    assert len(caught) == 1
    assert json.loads(result.attrs["unresolved"]) == {"y": 88, "y by x": 88}
    variants = STEEP | {"variants": {"few": {}, "enough": {"time.steps": 200}}}
    with pytest.warns(UserWarning, match=r"^! y by x of variant few: no result") as caught:
        simkit.sensitivity(variants)
    assert "enough" not in str(caught[0].message)


def test_a_derivative_of_nothing_but_rounding_is_a_result():
    """In binary 0.1 + 0.2 is more than 0.3: the derivative is 2e-17, and the steps are too long for it."""
    experiment = {
        "constants": {"theta": 0.7},
        "model": {"sde": {"x": {"drift": "theta*(0.1 + 0.2 - x)", "noise": {"W": "0*x"}}}},
        "initial": {"x": 0.3},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 4, "devices": 1},
        "observe": {"y": "x"},
        "sensitivity": {"wrt": ["theta"], "of": ["y"]},
    }
    result = simkit.sensitivity(experiment)
    assert json.loads(result.attrs["unresolved"]) == json.loads(result.attrs["too_few_steps"]) == {}


@pytest.mark.slow
def test_steps_that_matter_are_reported():
    """Eight steps leave more than 5 % of the derivative."""
    changes = {
        "time.steps": 8,
        "ensemble.paths": 20_000,
        "sensitivity.of": ["square"],
        "sensitivity.second": None,
    }
    result = simkit.sensitivity(FEW_STEPS, overrides=changes | {"model.mu": 0.5, "constants.r": 0.5})
    assert "square by S" in json.loads(result.attrs["too_few_steps"])
    file = io.StringIO()
    print_table(result, file)
    assert "the step bias matters; use" in file.getvalue()
    bias, error = (result[f"square_derivative_bias{x}"].values[0] for x in ("", "_stderr"))
    assert bias < 0
    assert with_error(bias, error) in file.getvalue()
    assert "step error" not in file.getvalue()


FELLER = {
    "model": {"type": "Heston", "mu": 0.03, "kappa": 1.5, "theta": 0.04, "xi": 0.6, "rho": -0.7},
    "initial": {"S": 100.0, "v": 0.04},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 252},
    "ensemble": {"paths": 8192, "seed": 1, "devices": 1},
    "observe": {"call": "exp(-0.03*t)*maximum(S-105,0)"},
    "sensitivity": {"wrt": ["v"]},
}


@pytest.mark.slow
def test_an_estimator_whose_variance_grows_with_the_steps_is_no_result():
    """Heston where the variance touches zero: 228 ± 263 was printed where 49.34 is right."""
    result = simkit.sensitivity(FELLER, overrides={"sensitivity.method": "reverse"})
    row = rows(result)["call", "v"]
    assert row["flag"] == "no result"
    assert row["derivative"] is None
    assert row["stderr"] is None
    assert row["tail_index"] < 1.5
    assert "AndersenQE" in row["reason"]
    file = io.StringIO()
    print_table(result, file)
    assert "none !" in file.getvalue()
    assert "! no result: call by v" in file.getvalue()
    values, errors, *_ = relative(result, "call", "derivative")
    assert np.isnan([*values, *errors]).all()
    remedied = rows(simkit.sensitivity(FELLER, overrides={"solver": "AndersenQE", "time.steps": 32}))[
        "call", "v"
    ]
    assert remedied["flag"] == ""
    error = np.hypot(remedied["stderr"], remedied["bias_stderr"])
    assert abs(remedied["derivative"] - remedied["bias"] - 49.34) < 5 * error
    assert error < 10


@pytest.mark.slow
def test_a_heavy_tail_is_flagged(monkeypatch):
    """The second derivative of a Heston digital, smoothed: few paths make the variance, at any step.

    Without the pilot, which takes another estimator.
    """
    monkeypatch.setattr(
        study, "select_estimators", lambda run, offers, _: ([each.rivals[0] for each in offers], 0.0)
    )
    digital = {
        "model": {"type": "Heston", "mu": 0.03, "kappa": 2, "theta": 0.06, "xi": 0.4, "rho": -0.6},
        "initial": {"S": 100.0, "v": 0.05},
        "time": {"t1": 1.0, "steps": 50},
        "ensemble": {"paths": 20_000, "seed": 84, "devices": 1},
        "observe": {"f": "S > 105"},
        "sensitivity": {"wrt": ["S"], "second": ["S"]},
    }
    result = simkit.sensitivity(FELLER | digital)
    first, second = rows(result)["f", "S"], rows(result)["f", "S, S"]
    assert (first["flag"], second["flag"]) == ("", "heavy tail")
    assert second["tail_index"] < 2 < first["tail_index"]
    assert second["reason"].endswith("; or another sensitivity.method")
    file = io.StringIO()
    print_table(result, file)
    assert "! heavy tail: f by S, S" in file.getvalue()


@pytest.mark.more
@pytest.mark.user_code
def test_a_heavy_tail_names_an_estimator_that_has_none():
    """The least of a population that grows only above 2: most paths end on one side, and a few in between."""
    allee = {
        "model": {
            "sde": {"N": {"drift": "r*N*(N/A - 1)*(1 - N/K)", "noise": {"W": "s*N"}}},
            "parameters": {"r": 0.5, "A": 2.0, "K": 10.0, "s": 0.3},
        },
        "initial": {"N": 2.2},
        "time": {"t1": 20.0, "steps": 500},
        "ensemble": {"paths": 4000, "seed": 1, "devices": 1},
        "observe": {"low": "min(N)"},
        "sensitivity": {"wrt": ["A"]},
    }
    usual = rows(simkit.sensitivity(allee))["low", "A"]
    assert usual["flag"] in ("heavy tail", "no result")
    assert "sensitivity.method: score" in usual["reason"]
    other = rows(simkit.sensitivity(allee, overrides={"sensitivity.method": "score"}))["low", "A"]
    assert other["flag"] == ""
    assert other["tail_index"] > 2


# Ten steps are the same at all tolerances, and their mean is a tenth below the exact one.
LIMITED = {
    "model": {"type": "GBM", "mu": 2.0, "sigma": 0.2},
    "initial": {"S": 1.0},
    "solver": "Milstein",
    "time": {"t1": 1.0, "rtol": 0.9, "atol": 50},
    "save": {"points": 10},
    "ensemble": {"paths": 1024, "seed": 1},
    "sensitivity": {"wrt": ["mu"]},
}


@pytest.mark.more
def test_steps_that_the_saved_times_limit_have_no_known_error():
    found = simkit.sensitivity(LIMITED)
    assert np.isnan(found["S_bias"]).all()
    assert "S_derivative_step_error" not in found
    said = str(found["S_derivative_reason"].values)
    assert "step error unknown: most steps are as long as first_step or the saved times allow" in said


@pytest.mark.slow
def test_a_mean_on_steps_that_the_saved_times_limit_has_no_known_bias():
    assert np.isnan(simkit.run(LIMITED)["S_bias"])


@pytest.mark.slow
def test_steps_that_the_saved_times_do_not_limit_have_a_known_error():
    free = {"time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}, "save": {"points": 1}}
    found = simkit.sensitivity(LIMITED | free)
    assert not np.isnan(found["S_bias"]).all()
    assert "S_derivative_step_error" in found
    assert "unknown" not in str(found["S_derivative_reason"].values)
