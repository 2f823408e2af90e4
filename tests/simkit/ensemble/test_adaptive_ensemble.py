"""Ensembles with adaptive steps: the same bits however cut, what is reported, failures, derivatives."""

import dataclasses
import json
import re

import jax
import numpy as np
import pytest
from user_code import user_jit

import simkit
from simkit import NumericalError, load
from simkit.ensemble import LEAF, path_ids, path_program, run_ensemble
from simkit.ensemble.accumulator import Accumulator
from simkit.ensemble.chunks import Chunks
from simkit.ensemble.simulation import StepCounts
from simkit.ensemble.sizes import estimate, estimate_text
from simkit.results.table import closing_line, summary

VAN_DER_POL = {
    "constants": {"tol": 1e-5},
    "model": {"ode": {"x": "y", "y": "mu*(1 - x**2)*y - x"}, "parameters": {"mu": 4.0}},
    "initial": {"x": {"uniform": [-2, 2]}, "y": 0.0},
    "time": {"t1": 3.0, "rtol": "tol", "atol": "tol/100"},
    "ensemble": {"paths": LEAF + 100, "seed": 3},
    "save": {"points": 3, "paths": "all"},
    "observe": {"energy": "(x**2 + y**2)/2"},
}


@pytest.fixture(scope="module")
def reference():
    return run_ensemble(dataclasses.replace(load(VAN_DER_POL), devices=1))


@pytest.mark.user_code
@pytest.mark.more
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"devices": 2}, marks=pytest.mark.slow),
        pytest.param({"devices": 1, "chunk": 1}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_devices_and_chunks_leave_every_bit(reference, change):
    result = run_ensemble(dataclasses.replace(load(VAN_DER_POL), **change))
    for kind, statistics in reference.statistics.items():
        for name, array in statistics.items():
            np.testing.assert_array_equal(result.statistics[kind][name], array, err_msg=f"{kind} {name}")
    np.testing.assert_array_equal(result.stored["x"], reference.stored["x"])
    assert result.steps == reference.steps
    assert result.bias == reference.bias


@pytest.mark.user_code
@pytest.mark.slow
def test_few_paths_are_the_first_of_many(reference):
    few = run_ensemble(dataclasses.replace(load(VAN_DER_POL), paths=40, stored_paths=40, devices=1))
    np.testing.assert_array_equal(few.stored["y"], reference.stored["y"][:40])


def test_what_it_took_is_reported():
    result = simkit.run(VAN_DER_POL, overrides=["ensemble.paths=50", "ensemble.devices=1"])
    attributes = result.attrs
    assert (attributes["rtol"], attributes["atol"], attributes["max_steps"]) == (1e-5, 1e-5 / 100, 65536)
    assert attributes["accepted_steps_max"] > attributes["accepted_steps_mean"] > 10
    assert "steps" not in attributes
    assert abs(float(result["x_bias"])) < 1e-3
    content = json.loads(json.dumps(summary(result)))
    assert content["steps"] is None
    assert content["accepted_steps"]["max"] == attributes["accepted_steps_max"]
    assert content["rejected_steps"]["mean"] == attributes["rejected_steps_mean"]
    mean, most = attributes["accepted_steps_mean"], attributes["accepted_steps_max"]
    expected = f"50 paths × {mean:,.0f} adaptive steps on average (at most {most}, "
    assert closing_line(result).startswith(expected)
    total = 50 * (mean + attributes["rejected_steps_mean"])
    assert attributes["path_steps_per_s"] * attributes["elapsed_s"] == pytest.approx(total)
    lines = estimate_text(estimate(load(VAN_DER_POL))).splitlines()
    assert lines[0] == "2,148 paths x at most 65,536 adaptive steps, rtol 1e-05, atol 1e-07"
    assert lines[1] == "saved times: 4"


def test_the_most_steps_of_a_path_may_be_in_any_chunk():
    """The last lane of the second chunk is an empty one."""
    accumulator = Accumulator(dataclasses.replace(load(VAN_DER_POL), paths=3), {}, {}, 0)
    counts = ([4, 9], [0, 1]), ([5, 80], [2, 70])
    for chunk, (accepted, rejected) in zip(Chunks(3, 1, 2), counts, strict=True):
        accumulator.add_chunk(
            chunk, ((), {"taken": accepted, "refused": rejected}, {}, np.zeros(2, bool), False)
        )
    assert accumulator.step_counts("taken", "refused") == StepCounts(18 / 3, 9, 3 / 3, 2)


DOUBLE_WELL = {
    "model": {"sde": {"x": {"drift": "x - x**3", "noise": {"W": "0.3 + 0.4*x"}}}},
    "initial": {"x": {"uniform": [-2, 2]}},
    "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2},
    "ensemble": {"paths": LEAF + 100, "seed": 3},
    "save": {"points": 2, "paths": "all"},
}


@pytest.mark.user_code
@pytest.mark.more
def test_devices_and_chunks_leave_every_bit_of_stochastic_paths():
    one, two, cut = (
        run_ensemble(dataclasses.replace(load(DOUBLE_WELL), **change))
        for change in ({"devices": 1}, {"devices": 2}, {"devices": 1, "chunk": 1})
    )
    assert one.steps.rejected_max > 4
    for other in (two, cut):
        for kind, statistics in one.statistics.items():
            for name, array in statistics.items():
                np.testing.assert_array_equal(other.statistics[kind][name], array, err_msg=f"{kind} {name}")
        np.testing.assert_array_equal(other.stored["x"], one.stored["x"])
        assert other.steps == one.steps
        assert other.bias == one.bias


@pytest.mark.slow
def test_stochastic_paths_take_milstein_and_meet_exact_moments():
    """And an Itô model may be converted for a Stratonovich solver, on the same paths at the saved times."""
    experiment = {
        "model": {"type": "GBM", "mu": 0.3, "sigma": 0.6},
        "initial": {"S": 1.0},
        "time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3},
        "ensemble": {"paths": 4000, "seed": 5, "devices": 1},
        "save": {"paths": 100},
    }
    result = simkit.run(experiment)
    assert result.attrs["solver"] == "Milstein"
    assert abs(float(result["S_z"])) < 5
    other = simkit.run(experiment | {"solver": {"type": "Heun", "convert": True}})
    difference = (other["S_path"] - result["S_path"])[:, -1]
    assert float(np.sqrt((difference**2).mean())) < 0.02


@pytest.mark.slow
def test_normals_in_float64_reach_the_tree():
    """Where the path begins and where it is halved, the same normals to float32's accuracy and no better."""
    ends = [
        run_ensemble(dataclasses.replace(load(DOUBLE_WELL), paths=64, devices=1, normals=normals)).stored
        for normals in ("float32", "float64")
    ]
    assert (ends[0]["x"][:, 1] != ends[1]["x"][:, 1]).all()


@pytest.mark.slow
def test_a_stochastic_path_that_fails_is_named():
    steep = {
        "model": {"sde": {"x": {"drift": "x**2", "noise": {"W": 0.01}}}},
        "initial": {"x": 1.6},
        "time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3},
        "ensemble": {"paths": 1, "devices": 1},
    }
    with pytest.raises(NumericalError) as caught:
        simkit.run(steep)
    said = re.match(
        r"path 0: stopped at t = (\S+) of 1: the tolerances required a step shorter than halving gives",
        str(caught.value),
    )
    assert said
    assert float(said[1]) == pytest.approx(1 / 1.6, rel=0.05)


EXPLODING = {
    "model": {"ode": {"x": "x**2"}},
    "initial": {"x": {"uniform": [0.5, 1.2]}},
    "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-9},
    "ensemble": {"paths": 40, "seed": 1, "devices": 1},
}


@pytest.mark.slow
def test_a_failed_path_is_named_or_left_out():
    result = simkit.run(EXPLODING, overrides=["ensemble.failures=exclude", "save.paths=all"])
    starts = result["x_path"].values[:, 0]
    assert result.attrs["failed_paths"] == np.sum(starts >= 1) > 0
    assert float(result["x_min"][-1]) == pytest.approx(float(1 / (1 / starts.min() - 1)), rel=1e-3)
    with pytest.raises(NumericalError) as caught:
        simkit.run(EXPLODING)
    first = int(np.flatnonzero(starts >= 1)[0])
    said = re.match(rf"path {first}: stopped at t = (\S+) of 1; path ", str(caught.value))
    assert said
    assert str(caught.value).count(": the tolerances required a step too short for the clock") == 1
    assert float(said[1]) == pytest.approx(1 / starts[first], rel=1e-4)


@pytest.mark.slow
def test_a_path_that_takes_too_many_steps_is_named():
    with pytest.raises(
        NumericalError, match=r"^path 0: stopped at t = 0\.\d+ of 1; .*: max_steps = 2 were taken"
    ):
        simkit.run(EXPLODING, overrides=["time.max_steps=2"])


def test_refused_steps_count_towards_the_most_that_are_taken():
    """The first step is too long by far, and none of three is accepted."""
    steep = {
        "model": {"ode": {"x": "-1000*(x - cos(t))"}},
        "initial": {"x": 5.0},
        "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-9, "first_step": 0.5, "max_steps": 3},
    }
    with pytest.raises(NumericalError, match=r"^path 0: stopped at t = 0 of 1: max_steps = 3 were taken"):
        simkit.run(steep)


@pytest.mark.slow
@pytest.mark.parametrize(
    "time",
    [
        pytest.param({"t1": 1.0, "rtol": 1e-6, "atol": 1e-9}, marks=pytest.mark.more),
        pytest.param({"t1": 1.0, "steps": 50}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_implicit_solvers_run_on_every_device(time):
    """lineax compares types: nothing in them may say where they are."""
    decay = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "solver": "Kvaerno3", "time": time}
    result = simkit.run(decay, overrides=["ensemble.paths=4", "ensemble.devices=2"])
    assert float(result["x_mean"][-1]) == pytest.approx(np.exp(-1), abs=1e-5)


@pytest.mark.slow
def test_constants_reach_tolerances_and_derivatives():
    """The derivative of an ensemble's mean by a parameter, through groups of paths."""
    short = ["time.t1=1.0", "time.max_steps=256", "ensemble.paths=64", "constants.tol=1e-9"]
    simulation = load(VAN_DER_POL, short)
    assert simulation.bind({"tol": 1e-3}).grid.tolerances.rtol == 1e-3
    with jax.enable_x64(True):
        program, inputs = path_program(simulation, simulation.grid)
        ids = path_ids(0, 1, 64)

        def mean(mu):
            problem = dataclasses.replace(inputs.problem, mu=mu)
            return program(inputs._replace(problem=problem), ids)["x"][-1].mean()

        h, compiled = 1e-3, user_jit(mean)
        difference = (compiled(4.0 + h) - compiled(4.0 - h)) / (2 * h)
        _, forward = user_jit(lambda mu: jax.jvp(mean, (mu,), (1.0,)))(4.0)
        assert float(forward) == pytest.approx(float(difference), rel=1e-4)
