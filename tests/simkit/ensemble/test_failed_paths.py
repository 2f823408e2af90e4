"""Paths that fail are named or left out; an observable without a value before the end is no failure."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from ensemble_examples import gbm
from simkit_solvers import AbstractODE
from solver_problems import Level

from simkit import NumericalError, load
from simkit.distributions import LogNormal, Uniform
from simkit.ensemble import LEAF, run_ensemble


class Explosion(AbstractODE):
    """dx/dt = 800 x: a hundredfold each step of 1/8."""

    State = Level

    def drift(self, t, y):
        return Level(792.0 * y.x)


class Threshold(AbstractODE):
    """dx/dt = log(1.5 - x): NaN from beyond 1.5."""

    State = Level

    def drift(self, t, y):
        return Level(0 * jax.numpy.log(1.5 - y.x))


def test_failures_stop_with_id_value_and_time():
    with pytest.raises(
        NumericalError, match=r"path 0: x = inf at t = 0\.5 \(step 4 of 8\).*simkit debug FILE"
    ):
        run_ensemble(gbm(3, 8, problem=Explosion(), initial={"x": 1e300}))


@pytest.mark.more
def test_excluded_failures_are_counted_and_leave_no_trace():
    distribution = Uniform(0.0, 2.0)
    simulation = gbm(4000, 8, problem=Threshold(), initial={"x": distribution}, stored_paths=4000)
    result = run_ensemble(dataclasses.replace(simulation, failures="exclude"))
    good = np.isfinite(result.stored["x"]).all(axis=1)
    moments = result.statistics["moments"]
    assert 0 < result.failed == (~good).sum()
    assert moments["n"] == good.sum()
    assert moments["x_mean"][-1] == pytest.approx(result.stored["x"][good, -1].mean(), rel=1e-12)
    early = (~good[:LEAF]).sum() - 3
    for chunk in (None, 4000, LEAF):  # which changes no word
        with pytest.raises(NumericalError, match=rf", and {early} more of the first 2,048 paths\."):
            run_ensemble(dataclasses.replace(simulation, chunk=chunk))


def test_a_failure_in_a_later_chunk_has_its_own_id_and_time():
    distribution = Uniform(0.0, 1.5003)  # with this seed no path of the first chunk fails
    simulation = gbm(3 * LEAF, 8, problem=Threshold(), initial={"x": distribution}, seed=5, chunk=LEAF)
    excluding = dataclasses.replace(simulation, failures="exclude", stored_paths=3 * LEAF)
    states = run_ensemble(excluding).stored["x"]
    bad = np.flatnonzero(~np.isfinite(states).all(axis=1))
    assert bad[0] >= LEAF
    with pytest.raises(NumericalError, match=rf"^path {bad[0]}: x = nan at t = 0.125 \(step 1 of 8\)\."):
        run_ensemble(simulation)


def test_wild_paths_leave_the_step_bias_without_a_warning():
    simulation = gbm(500, 8, problem=Explosion(), initial={"x": LogNormal(300.0, 200.0)})
    result = run_ensemble(dataclasses.replace(simulation, failures="exclude"))
    assert 0 < result.failed < 500
    assert "x" in result.bias


def with_observable(text: str, **ensemble):
    """GBM from YAML with one observable at the end."""
    return load(
        {
            "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
            "initial": {"S": 100.0},
            "time": {"t1": 1.0, "steps": 20},
            "ensemble": {"paths": 100, "devices": 1, **ensemble},
            "observe": {"x": text},
        }
    )


def test_an_observable_at_the_end_need_not_be_defined_before():
    moments = run_ensemble(with_observable("integral(S)/t")).statistics["moments"]
    assert moments["x_mean"][-1] == pytest.approx(102.5, abs=5)


@pytest.mark.slow
def test_an_observable_without_a_value_is_no_failed_path():
    with pytest.raises(NumericalError, match=r"x = nan at t = 1 \(step 20 of 20\).*The state is finite"):
        run_ensemble(with_observable("log(S - 100)"))


@pytest.mark.slow
def test_a_power_of_a_state_that_blows_up_is_no_matter_of_the_observable():
    """Explicit steps of x' = -x^3 that are too long: x^4 overflows first."""
    experiment = {
        "model": {"sde": {"x": {"drift": "-x**3", "noise": {"W": 0.1}}}},
        "initial": {"x": 100},
        "time": {"t1": 1, "steps": 4},
        "ensemble": {"paths": 3},
        "observe": {"y": "x**4"},
    }
    with pytest.raises(
        NumericalError, match=r"y = inf at t = 1 \(step 4 of 4\).*Use more steps or another"
    ) as several:
        run_ensemble(load(experiment))
    with pytest.raises(NumericalError, match=r"Use more steps or another") as single:
        run_ensemble(load(experiment, {"ensemble.paths": 1}))
    assert "failures: exclude" in str(several.value)
    assert "failures: exclude" not in str(single.value)  # or nothing would be left


@pytest.mark.more
def test_excluded_paths_leave_the_step_bias_too_and_none_left_is_an_error():
    half = run_ensemble(with_observable("log(S - 100)", failures="exclude"))
    assert 0 < half.failed < 100
    assert all(math.isfinite(step.bias) for step in half.bias.values())
    with pytest.raises(NumericalError, match="of 100 paths none has finite values"):
        run_ensemble(with_observable("log(S - 1e9)", failures="exclude"))
