"""What a condition does that no path has met: its effects are 0 without an error, and a line says so."""

import pytest

import simkit
from simkit.derivatives.table import notes
from simkit.results.step_notes import step_notes

RARE = {
    "model": {"sde": {"x": {"drift": "-x", "noise": {"W": 0.1}}}, "parameters": {"b": 0.5}},
    "initial": {"x": 1.0},
    "time": {"t1": 2.0, "steps": 64},
    "ensemble": {"paths": 600, "seed": 1},
    "events": {"kick": {"when": "x < limit", "set": {"x": "x + b"}}},
    "constants": {"limit": -3.0},
}
OFTEN = RARE | {"constants": {"limit": 0.3}}


@pytest.mark.parametrize(("experiment", "said"), [(RARE, True), (OFTEN, False)])
def test_a_derivative_that_no_path_shows(experiment, said):
    lines = [line for line in notes(simkit.sensitivity(experiment, "b")) if "x by b: 0 on all" in line]
    assert len(lines) == said
    assert all("600 paths; rarer paths (below 0.5 % of all, by the rule of three)" in line for line in lines)


@pytest.mark.parametrize(("experiment", "said"), [(RARE, True), (OFTEN, False)])
def test_variants_that_differ_on_no_path(experiment, said):
    variants = {"low": {"model.parameters.b": 0.5}, "high": {"model.parameters.b": 0.7}}
    both = simkit.run(experiment | {"variants": variants})
    lines = [line for line in step_notes(both) if "do not differ on any of 600 paths" in line]
    assert len(lines) == said
    assert all(line.startswith("x: high and low") for line in lines)


def test_variants_of_which_one_met_its_condition_have_no_line():
    """What the event does not change is the same, however rarely the other variant meets it."""
    still = {"y": {"drift": "-y", "noise": {"V": 0.1}}}
    experiment = OFTEN | {
        "model": {"sde": OFTEN["model"]["sde"] | still},
        "initial": {"x": 1.0, "y": 1.0},
        "events": {"kick": {"when": "x < limit", "set": {"x": "x + 0.5"}}},
    }
    both = simkit.run(experiment | {"variants": {"low": {"constants.limit": -3.0}, "high": {}}})
    assert float(both["y_difference"].sel(variant="high")) == 0
    assert not [line for line in step_notes(both) if "do not differ" in line]


def test_what_no_path_can_change_has_no_line():
    """A price does not depend on the strike of an option on it, on any path whatever."""
    option = {
        "constants": {"K": 100.0},
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 16},
        "ensemble": {"paths": 500, "seed": 1},
        "observe": {"call": "max(S) - K"},
        "sensitivity": {"of": ["S", "call"], "wrt": ["K"]},
    }
    assert not [line for line in notes(simkit.sensitivity(option)) if "rarer" in line]
    both = simkit.run(option | {"variants": {"high": {}, "low": {"constants.K": 90}}})
    assert float(both["S_difference"].sel(variant="low")) == 0
    assert not [line for line in step_notes(both) if "rarer" in line]
