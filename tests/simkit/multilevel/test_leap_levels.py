"""Levels of ever shorter leaps: coupled paths, exact means, honest errors, and paths that fail."""

import itertools
import math

import jax
import numpy as np
import pytest

import simkit
from simkit import NumericalError
from simkit.multilevel.level_paths import LevelPaths, levels_on

ALPHA, START, T1 = 400.0, 2000, 2.0
FALLEN = (START - ALPHA) * math.exp(-T1)
EXACT = {"X": ALPHA + FALLEN, "held": ALPHA * T1 + START - ALPHA - FALLEN}
NETWORK = {
    "model": {"type": "ImmigrationDeath", "alpha": ALPHA, "mu": 1.0},
    "initial": {"X": START},
    "solver": {"type": "TauLeaping", "epsilon": 0.3},
    "time": {"t1": T1},
    "ensemble": {"method": "multilevel", "target": {"total_error": 1.0}, "seed": 1},
}


def changed(**changes):
    ensemble = {**NETWORK["ensemble"], **changes.pop("ensemble", {})}
    return {**NETWORK, **changes, "ensemble": ensemble}


HELD = {"held": {"value": "integral(X)", "exact": EXACT["held"]}}


def averages(level, paths=2048, **changes):
    with jax.enable_x64(True):
        return LevelPaths.of(levels_on(simkit.load(changed(**changes))), level, paths).averages()


@pytest.mark.more
def test_means_of_levels_add_up_to_the_exact_one_and_their_variances_fall():
    """The bias is of first order in the leap, and halves from level to level."""
    levels = [averages(level) for level in range(7)]
    mean, leaps, cost = ([float(each.mean[place][-1]) for each in levels] for place in range(3))
    error = [float(each.stderr[0][-1]) for each in levels]
    sd = [float(each.sd[0][-1]) for each in levels]
    assert abs(mean[0] - EXACT["X"]) > 10 * error[0]  # what levels have to take out
    assert sd[2] < 0.5 * sd[0]
    assert sd[6] < 0.6 * sd[2]
    rest = mean[6]  # further levels add as much again
    assert abs(sum(mean) + rest - EXACT["X"]) < 4.9 * math.hypot(*error, error[6])
    ratios = [fine / coarse for coarse, fine in itertools.pairwise(leaps)]
    assert all(1.2 < ratio < 2.5 for ratio in ratios)  # of a few leaps the last is cut short
    assert all(1.9 < ratio < 2.1 for ratio in ratios[3:])
    assert all(pair > one for one, pair in zip(leaps[1:], cost[1:], strict=True))


@pytest.mark.more
def test_integrals_over_a_path_are_those_of_infinitely_short_leaps():
    levels = [averages(level, 512, observe=HELD, time={"t1": 0.2}) for level in range(4)]
    exact = ALPHA * 0.2 + (START - ALPHA) * -math.expm1(-0.2)
    means = [float(each.mean[1][-1]) for each in levels]
    errors = [float(each.stderr[1][-1]) for each in levels]
    assert abs(means[1]) > 5 * errors[1]
    assert abs(sum(means) + means[3] - exact) < 4.9 * math.hypot(*errors, errors[3])


@pytest.mark.more
def test_the_true_error_is_as_wanted_and_the_quoted_one_is_honest():
    errors, z = [], []
    for seed in range(60):
        dataset = simkit.run(changed(ensemble={"seed": seed}))
        errors.append(float(dataset["X_mean"]) - EXACT["X"])
        doubt = math.hypot(*(float(dataset[f"X_{end}"]) for end in ("stderr", "bias_stderr")))
        z.append((errors[-1] - float(dataset["X_bias"])) / doubt)
    assert np.sqrt(np.mean(np.square(errors))) < 1.1
    assert 0.8 < np.std(z) < 1.2
    assert abs(np.mean(z)) * 60**0.5 < 3.3


@pytest.mark.more
def test_a_run_says_what_its_leaps_cost():
    dataset = simkit.run(NETWORK)
    assert dataset.attrs["level_unit"] == "leap"
    assert dataset.attrs["cost"] == pytest.approx(dataset["cost"].values.sum(), rel=1e-6)
    assert 0.5 < dataset.attrs["gamma"] < 1.1
    assert dataset.attrs["gamma_stderr"] < 0.1
    assert abs(float(dataset["X_z"])) < 5


@pytest.mark.more
def test_where_every_event_is_exact_levels_do_not_differ():
    dataset = simkit.run(
        changed(
            model={"type": "ImmigrationDeath", "alpha": 2.0, "mu": 1.0},
            initial={"X": 0},
            ensemble={"target": {"total_error": 0.1}},
        )
    )
    assert np.all(dataset["X_level_variance"].values[1:] == 0)
    assert float(dataset["X_bias"]) == 0
    assert abs(float(dataset["X_z"])) < 5


@pytest.mark.more
def test_a_path_that_takes_too_many_leaps_is_named_with_its_level():
    with pytest.raises(
        NumericalError, match=r"path \d+ of level [1-9]: max_steps = 12 .*larger time.max_steps"
    ):
        simkit.run(changed(time={"t1": T1, "max_steps": 12}))
