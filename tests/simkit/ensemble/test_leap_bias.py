"""The step bias of tau-leaping: of the mean and of the variance it covers exact values over seeds."""

import dataclasses
import io
import math

import numpy as np
import pytest
from scipy.linalg import expm

import simkit
from simkit import load
from simkit.ensemble import run_ensemble
from simkit.results.dataset import to_dataset
from simkit.results.step_notes import step_notes
from simkit.results.table import print_table

SEEDS = range(8)

ARRIVALS = {
    "model": {"type": "ImmigrationDeath", "alpha": 200.0, "mu": 1.0},
    "initial": {"X": 0},
    "solver": {"type": "TauLeaping", "epsilon": 0.1},
    "time": {"t1": 1.5},
    "ensemble": {"paths": 4000, "devices": 1},
}
PAIRS = {
    "model": {
        "reactions": {
            "bind": {"equation": "2 A -> B", "rate": 0.005},
            "part": {"equation": "B -> 2 A", "rate": 0.4},
        },
    },
    "initial": {"A": 300, "B": 0},
    "solver": {"type": "TauLeaping", "epsilon": 0.1},
    "time": {"t1": 1.0},
    "ensemble": {"paths": 4000, "devices": 1},
}


def arrivals():
    """Poisson: mean and variance are one."""
    mean = -200 * math.expm1(-1.5)
    return {"X": (mean, mean)}


def pairs():
    """Mean and variance of A by the master equation over the number of pairs."""
    b = np.arange(151.0)
    a = 300 - 2 * b
    up, down = 0.005 * a * (a - 1) / 2, 0.4 * b
    generator = np.diag(up[:-1], -1) + np.diag(down[1:], 1) - np.diag(up + down)
    distribution = expm(generator)[:, 0]
    mean = distribution @ a
    return {"A": (mean, distribution @ a**2 - mean**2)}


@pytest.mark.more
@pytest.mark.parametrize(
    ("experiment", "exact"), [pytest.param(ARRIVALS, arrivals, marks=pytest.mark.slow), (PAIRS, pairs)]
)
def test_means_and_variances_are_exact_but_for_the_bias(experiment, exact):
    """Off by many standard errors without it, and by what chance would do with it."""
    simulation, z, plain = load(experiment), [], []
    for seed in SEEDS:
        result = run_ensemble(dataclasses.replace(simulation, seed=seed))
        moments = result.statistics["moments"]
        for name, (mean, variance) in exact().items():
            seen = moments[f"{name}_variance"][-1]
            for value, reference, stderr, bias in (
                (moments[f"{name}_mean"][-1], mean, moments[f"{name}_stderr"][-1], result.bias[name]),
                (seen, variance, seen * math.sqrt(2 / result.paths), result.variance_bias[name]),
            ):
                assert bias.claim == "estimate"
                z.append((value - reference - bias.bias) / math.hypot(stderr, bias.stderr))
                plain.append((value - reference) / stderr)
    assert np.mean(np.square(plain)) > 10
    assert np.abs(z).max() < 4
    assert np.mean(np.square(z)) < 2


def test_the_table_and_the_dataset_show_the_bias_of_the_variance():
    simulation = load(ARRIVALS)
    result = run_ensemble(simulation)
    dataset = to_dataset(simulation, result, {})
    bias, error = float(dataset["X_variance_bias"]), float(dataset["X_variance_bias_stderr"])
    assert (bias, error) == (result.variance_bias["X"].bias, result.variance_bias["X"].stderr)
    assert (
        dataset["X_variance_bias"].attrs["long_name"] == "step bias of the variance of molecules at the end"
    )
    variance = float(dataset["X_variance"][-1])
    file = io.StringIO()
    print_table(dataset, file)
    expected = (
        f"leaps change the variance by: X {100 * bias / variance:+.1f} % ± {100 * error / variance:.1f} %"
    )
    assert expected in file.getvalue()
    assert abs(float(dataset["X_z"])) < 4


def test_exact_events_have_no_step_bias():
    simulation = load(ARRIVALS | {"solver": "DirectMethod"})
    result = run_ensemble(dataclasses.replace(simulation, paths=100))
    assert (result.bias, result.variance_bias) == ({}, {})
    few = load(ARRIVALS | {"model": {"type": "ImmigrationDeath", "alpha": 5.0, "mu": 1.0}})
    error = run_ensemble(dataclasses.replace(few, paths=100)).bias["X"]
    assert error.bias == 0
    assert error.stderr == pytest.approx(1 / 64)  # of so many paths none differed


MERTON = {
    "model": {"type": "Merton", "mu": 0.0, "sigma": 0.2, "lam": 1.0, "m": 0.0, "delta": 0.1},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 7},
    "ensemble": {"paths": 100, "devices": 1},
}


def test_a_jump_diffusion_without_longer_steps_says_that_its_step_bias_is_unknown():
    """Seven steps have no half, and jumps are not split between halves of a step."""
    simulation = load(MERTON)
    dataset = to_dataset(simulation, run_ensemble(simulation), {})
    assert math.isnan(float(dataset["S_bias"]))
    assert "unresolved" not in dataset.attrs
    file = io.StringIO()
    print_table(dataset, file)
    assert "the step bias is unknown (S): jumps are not split between halves of a step" in file.getvalue()


@pytest.mark.parametrize(
    ("steps", "observe", "remedy"),
    [
        (8, {"asian": "mean(S)"}, "dates; give every: 2 for what is monitored more often (asian)"),
        (
            *(7, {"asian": "mean(S)"}),
            "use an even number of steps and give every: 2 for what is monitored more often (asian)",
        ),
        (7, {}, "dates; use an even number of steps"),
    ],
)
def test_a_jump_diffusion_is_told_what_gives_its_step_bias(steps, observe, remedy):
    """And what it is told helps."""
    experiment = MERTON | {"observe": observe} | {"time": {"t1": 1.0, "steps": steps}}
    dataset = simkit.run(experiment)
    (line,) = [line for line in step_notes(dataset) if "jumps are not split" in line]
    assert line.endswith(remedy)
    mended = {name: {"value": value, "every": 2} for name, value in observe.items()}
    dataset = simkit.run(experiment | {"observe": mended} | {"time": {"t1": 1.0, "steps": steps + steps % 2}})
    assert np.isfinite(float(dataset["S_bias"]))
