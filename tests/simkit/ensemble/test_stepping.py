"""Every kind of grid: how its paths go on, and what their dataset says of the steps."""

import pytest
from simkit_solvers import AdaptiveGrid, Grid, JumpGrid, TracedGrid

import simkit
from simkit.ensemble.stepping import KINDS

SDE = {"model": {"sde": {"x": {"drift": "-x", "noise": {"W": "0.1*x"}}}}, "initial": {"x": 1.0}}
ODE = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}}
NETWORK = {"model": {"type": "ImmigrationDeath", "alpha": 5.0, "mu": 1.0}, "initial": {"X": 3}}
FIXED = {"time": {"t1": 2.0, "steps": 8}}
ADAPTIVE = {"time": {"t1": 2.0, "rtol": 1e-2, "atol": 1e-2}}
COUNTED = {"accepted_steps_mean", "accepted_steps_max", "rejected_steps_mean", "rejected_steps_max"}


def test_every_kind_of_grid_has_its_stepping():
    assert {*KINDS} == {Grid, TracedGrid, AdaptiveGrid, JumpGrid}
    for ordinary, stochastic in KINDS.values():
        assert ordinary.description
        assert stochastic.remedy
    assert [ordinary.whole for ordinary, _ in KINDS.values()] == [False, False, False, True]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (ODE | FIXED, {"steps", "dt"}),
        (SDE | FIXED, {"steps", "dt"}),
        (ODE | ADAPTIVE, {"rtol", "atol", "max_steps"} | COUNTED),
        (SDE | ADAPTIVE, {"rtol", "atol", "max_steps"} | COUNTED),
        (NETWORK | {"time": {"t1": 2.0}}, {"max_steps", "events_mean", "events_max"}),
    ],
    ids=["ode", "sde", "adaptive ode", "adaptive sde", "events"],
)
def test_a_dataset_says_what_steps_its_paths_took(data, names):
    attributes = simkit.run({**data, "ensemble": {"paths": 16, "devices": 1}}).attrs
    assert names <= attributes.keys()
    others = {"steps", "dt", "rtol", "events_mean", "accepted_steps_mean"} - names
    assert not others & attributes.keys()
    for name in (name for name in names if name.endswith("_mean")):
        assert 0 <= attributes[name] <= attributes[name.replace("_mean", "_max")] < 1000
    if "dt" in names:
        assert attributes["dt"] * attributes["steps"] == 2.0
