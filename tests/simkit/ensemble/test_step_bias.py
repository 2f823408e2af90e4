"""The step bias of runs: by which grids, on how many paths, and what is said where there is none."""

import dataclasses
import math
from statistics import NormalDist

import numpy as np
import pytest
from dataset_examples import PROVENANCE, gbm
from grids import factors
from hypothesis import given, settings
from hypothesis import strategies as st
from simkit_solvers import AbstractODE
from step_bias_examples import GROWTH, table

import simkit
from simkit import load
from simkit.ensemble import run_ensemble
from simkit.ensemble.step_bias.coupled_steps import BIAS_PATHS, bias_run, orders
from simkit.ensemble.step_bias.coupled_steps import step_error_of_paths as error_of_values
from simkit.results.dataset import to_dataset
from simkit.results.step_notes import step_notes
from simkit.results.table import summary

pytestmark = pytest.mark.more


MEANS = {  # of one step of length h, over the state before it
    "EulerMaruyama": lambda h: 1 + 0.5 * h,
    "PlatenWeak2": lambda h: 1 + 0.5 * h + 0.125 * h * h,
}


STIFF = {
    "model": {"sde": {"X": {"drift": "-1000*X", "noise": {"W": 10}}}},
    "initial": {"X": 0},
    "solver": "DriftImplicitEuler",
    "time": {"t1": 0.4, "steps": 40},
    "ensemble": {"paths": 2000, "devices": 1},
    "observe": {"v": {"value": "X**2", "exact": 0.05}},
}


@settings(max_examples=200)
@given(st.integers(1, 400))
def test_other_grids_have_the_same_times_and_enough_steps(steps):
    simulation = load(GROWTH | {"time": {"t1": 1.0, "steps": steps}})
    result = factors(simulation)
    assert len(result) == 2
    pairs = {(2, 4): 4, (3, 9): 9}
    whole = [pair for pair, least in pairs.items() if steps % least == 0 and steps >= 4 * least]
    if whole:
        assert result == whole[0]
    else:
        longer = [f for f in (2, 3) if steps % f == 0 and steps > f]
        assert result == ((0.5, longer[0]) if longer else (0.5, 0.25))


@pytest.mark.parametrize(
    "steps",
    [
        16,
        pytest.param(7, marks=pytest.mark.slow),
        pytest.param(36, marks=pytest.mark.slow),
        pytest.param(10, marks=pytest.mark.slow),
        15,
    ],
)
def test_all_grids_see_the_same_path(steps):
    """A Brownian motion ends where it does, whatever the steps."""
    brownian = {
        "model": {"sde": {"X": {"noise": {"W": 1}}}},
        "initial": {"X": 0},
        "time": {"t1": 1.0, "steps": steps},
        "ensemble": {"paths": 64, "devices": 1},
    }
    step = run_ensemble(load(brownian)).bias["X"]
    assert abs(step.bias) < 1e-6


@pytest.mark.parametrize("steps", [16, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", ["EulerMaruyama", pytest.param("PlatenWeak2", marks=pytest.mark.slow)])
def test_its_error_covers_a_known_bias(solver, steps):
    """Of 60 seeds 95 % within two errors, by longer steps and by halves, with much noise and with little.

    With little the next order is most of the error, and has one sign.
    """
    simulation = load(GROWTH | {"solver": solver, "time": {"t1": 1.0, "steps": steps}})
    exact_bias = MEANS[solver](1 / steps) ** steps - math.exp(0.5)
    for sigma, seeds in ((0.3, 40), (0.003, 20)):
        problem = dataclasses.replace(simulation.problem, sigma=sigma)
        each = [
            run_ensemble(dataclasses.replace(simulation.with_run(problem=problem), seed=seed)).bias["S"]
            for seed in range(seeds)
        ]
        assert {step.claim for step in each} == {"estimate"}
        z = [(step.bias - exact_bias) / step.stderr for step in each]
        assert np.mean(np.abs(z) < 2) >= 0.9
        assert abs(np.mean(z)) < 1.1


def test_a_stiff_mean_has_a_bound_and_no_z():
    """The variance of the method is known: 0.05 / (1 + 1000 h / 2) once the start is forgotten."""
    result = simkit.run(STIFF | {"ensemble": {"paths": 2000, "devices": 1, "unresolved": "keep"}})
    assert float(result["v_mean"]) == pytest.approx(0.05 / 6, rel=0.1)
    assert 0.01 < float(result["v_bias_bound"]) < 0.05 - 0.05 / 6
    for name in ("v_bias", "v_bias_stderr", "v_z"):
        assert np.isnan(float(result[name]))
    text = table(result)
    row = next(line for line in text.splitlines() if "│ v " in line)
    assert f"at least {float(result['v_bias_bound']):.3g}" in row
    assert "the steps are too long for an estimate of the step bias (v)" in text
    figures = summary(result)["observables"]["v"]
    assert figures["bias"] is None
    assert figures["bias_bound"] == float(result["v_bias_bound"])
    assert figures["z"] is None
    assert not figures["resolved"]


@pytest.mark.slow
def test_an_integral_along_the_path_has_the_order_of_its_own_rule():
    """The trapezoidal rule of t² over 8 steps to 2 is off by 1/48, whatever the solver."""
    observe = {"I": {"value": "integral(t**2)", "exact": 8 / 3}, "A": "integral(S)", "S2": "S**2"}
    simulation = load(GROWTH | {"time": {"t1": 2.0, "steps": 8}, "observe": observe})
    assert orders(simulation) == {"S": 1, "I": 2, "A": 1, "S2": 1}
    assert orders(load(GROWTH | {"solver": "PlatenWeak2", "observe": observe}))["A"] == 2
    result = simkit.run(GROWTH | {"time": {"t1": 2.0, "steps": 8}, "observe": observe})
    assert float(result["I_bias"]) == pytest.approx(1 / 48, rel=1e-9)
    assert abs(float(result["I_z"])) < 5


def test_rounding_is_no_distance_from_an_exact_value():
    curve = {"times": [0, 0.5, 1, 2], "values": [0.01, 0.06, 0.02, 0.05], "interpolation": "previous"}
    result = simkit.run(
        {
            "curves": {"r": curve},
            "model": {"type": "GBM", "mu": "r", "sigma": 0.3},
            "initial": {"S": 1.0},
            "time": {"t1": 2.0, "steps": 8},
            "ensemble": {"paths": 500, "devices": 1},
            "observe": {
                "I": {"value": "integral(r)", "exact": 0.055},
                "J": {"value": "integral(r)", "exact": 0.06},
            },
        }
    )
    assert abs(float(result["I_z"])) < 3
    assert 1e-17 < float(result["I_stderr"]) < 1e-15
    assert summary(result)["observables"]["I"]["stderr"] == float(result["I_stderr"])
    assert np.isnan(float(result["J_z"]))  # off by 8 %, which no error says
    row = next(line for line in table(result).splitlines() if "│ J " in line)
    assert "-8.3 %" in row


@pytest.mark.parametrize("steps", [200, 2000, 8000])
def test_a_variable_that_ends_at_zero_has_the_rounding_of_its_way(steps):
    """Half a turn of an oscillator ends at v = -sin(pi), to 1.2e-16."""
    half = {"model": {"ode": {"x": "v", "v": "-x"}}, "initial": {"x": 1.0, "v": 0.0}, "solver": "Tsit5"}
    result = run_ensemble(load(half | {"time": {"t1": math.pi, "steps": steps}}))
    error, value = result.bias["v"], result.statistics["moments"]["v_mean"][-1]
    assert error.claim == "estimate"
    assert abs(value - error.bias + math.sin(math.pi)) < 2 * error.stderr
    assert error.stderr < 1e-12


@pytest.mark.parametrize("steps", [4000, 40000])
def test_steps_are_not_too_long_where_rounding_has_one_sign(steps):
    """At rest rates are lost in rounding, and a constant one is rounded alike in each step.

    `max` has half and a quarter of the step compared, which round more often than the run.
    """
    model = {
        "ode": {"v": "v - v**3/3 - w + I", "w": "(v + a - b*w)/tau", "x": "k"},
        "parameters": {"a": 0.7, "b": 0.8, "tau": 12.5, "I": 0.06, "k": 0.0015},
    }
    experiment = {"model": model, "initial": {"v": -1.0, "w": -0.5, "x": 1.0}, "solver": "Tsit5"}
    experiment |= {"time": {"t1": 200.0, "steps": steps}, "observe": {"most": "max(v)"}}
    result = run_ensemble(load(experiment))
    for name in "vwx":
        error = result.bias[name]
        assert error.claim == "estimate", name
        assert abs(error.bias) < 4 * error.stderr < 3e-15 * steps, name
    error, value = result.bias["x"], result.statistics["moments"]["x_mean"][-1]
    assert abs(value - error.bias - 1.3) < 2 * error.stderr


def test_a_rate_may_be_a_whole_number():
    """Of a model whose drift is 1, and of an equation in the file."""
    simulation = load(
        {
            "model": {"ode": {"x": 1}},
            "initial": {"x": 0.0},
            "solver": "Heun",
            "time": {"t1": 1.0, "steps": 4},
        }
    )

    class Drifting(AbstractODE):
        State = simulation.problem.State

        def drift(self, t, y):
            return self.State(x=1)

    for problem in (simulation.problem, Drifting()):
        result = run_ensemble(simulation.with_run(problem=problem))
        assert abs(result.bias["x"].bias) <= 2 * result.bias["x"].stderr < 1e-14


def test_one_path_has_no_z():
    """It has no standard error: that of zero, which other paths would not be, is infinite."""
    call = {"value": "maximum(S - 2, 0)", "exact": 0.001}
    simulation = load(
        {
            "model": {"type": "GBM", "mu": 0.0, "sigma": 0.2},
            "initial": {"S": 1.0},
            "time": {"t1": 1.0, "steps": 4},
            "ensemble": {"paths": 1, "seed": 1},
            "observe": {"call": call},
        }
    )
    assert np.isnan(float(to_dataset(simulation, run_ensemble(simulation), {})["call_z"]))


@pytest.mark.slow
def test_the_bias_takes_as_many_paths_as_make_it_as_good_as_the_mean():
    """Within a tenth of the work, the same on one device and two; at first, and of few paths, 4096."""
    many = load(GROWTH | {"observe": {"digital": "S > 1.5"}, "ensemble": {"paths": 120_000}})
    each = [
        run_ensemble(dataclasses.replace(many, devices=devices, chunk=chunk))
        for devices, chunk in ((1, 9000), (2, None))
    ]
    assert each[0].bias == each[1].bias
    run = bias_run(many)
    assert run is not None
    assert (run.paths, run.most) == (BIAS_PATHS, 16_000)
    stderr = float(each[0].statistics["moments"]["digital_stderr"][-1])
    few = run_ensemble(dataclasses.replace(many, paths=BIAS_PATHS, devices=1)).bias["digital"]
    assert few.noise > 1.2 * stderr
    assert each[0].bias["digital"].noise == pytest.approx(stderr, rel=0.05)
    assert len(each[0].ends["digital"]) == BIAS_PATHS


def test_where_longer_steps_fail_shorter_ones_tell():
    """Euler's steps of -x³ from 1 blow up at twice the length; the solution is 1 / sqrt(1 + 2t)."""
    cubic = {
        "model": {"ode": {"x": "-x**3"}},
        "initial": {"x": {"uniform": [0.99, 1.01]}},
        "solver": "Euler",
        "time": {"t1": 24.0, "steps": 16},
        "ensemble": {"paths": 64, "devices": 1, "unresolved": "keep"},
    }
    assert factors(load(cubic)) == (2, 4)
    result = simkit.run(cubic)
    exact = 1 / 7  # to the second order in the width of the start
    step = float(result["x_mean"][-1]) - exact
    assert abs(float(result["x_bias"]) - step) < 2 * float(result["x_bias_stderr"]) + 1e-4
    assert "bias_left_out" not in result.attrs


def test_survivors_are_no_estimate():
    """Of 4096 paths 4095 fail with other steps; of 1000 the few that fail are left out and counted."""
    values = np.outer(np.ones(4096), [1, 2, 3])
    values[1:, 1:] = np.nan
    assert error_of_values(values, (2, 4), 1.0, 0.0, 1.0) == (None, 4095)
    values = np.outer(np.arange(1000) % 7, [0, 1, 2]) + np.array([1.0, 2.0, 4.0])
    values[:3, 2] = np.inf
    error, lost = error_of_values(values, (2, 4), 1.0, 0.0, 1.0)
    assert lost == 3
    assert error is not None
    assert error.bias == pytest.approx(1 + np.mean(np.arange(3, 1000) % 7))
    values[:30, 2] = np.inf  # too many at four times the steps: twice the steps alone
    error, lost = error_of_values(values, (2, 4), 1.0, 0.0, 1.0)
    assert lost == 30
    assert error is not None
    assert error.bias == pytest.approx(1 + np.mean(np.arange(1000) % 7))
    values[:30, 1], values[:, 2] = np.inf, 5.0
    assert error_of_values(values, (2, 4), 1.0, 0.0, 1.0) == (None, 30)


def test_whole_numbers_that_no_steps_change_may_change_to_the_next():
    """One path of n may have another number of molecules M, and then M² is another by 2M + 1."""
    molecules = np.random.default_rng(1).integers(8, 17, 4000)
    for values, change in (
        (molecules, 1),
        (molecules**2, np.where(molecules < 16, 2 * molecules + 1, 2 * molecules - 1)),
        (1000 * (molecules > 8), 1000),
        (0 * molecules, 7.0),
    ):
        error, lost = error_of_values(np.outer(values, [1, 1, 1]), (2, 4), 1.0, 0.0, 7.0)
        assert error is not None
        assert (error.bias, lost) == (0.0, 0)
        assert error.stderr == pytest.approx(np.mean(change) / 4000, rel=0.1)


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize(("noise", "shift"), [(0.01, 0.0), (0.03, 0.01), (0.1, 0.02)])
def test_errors_are_honest_where_few_paths_change_sides(noise, shift, scale):
    """Of 100 paths, from none to a few: a step of length h moves z by shift h + noise h w, both normal."""
    n, seeds, lengths = 100, 400, np.array([1.0, 2.0, 4.0])
    draw = np.random.default_rng(3)
    exact = scale * (NormalDist().cdf(shift / math.hypot(1, noise)) - 0.5)
    missed = 0
    for _ in range(seeds):
        z, w = draw.normal(size=(2, n, 1))
        values = scale * (z + lengths * (shift + noise * w) > 0)
        error, _ = error_of_values(values, (2, 4), 1.0, 1e-8, scale)
        assert error is not None
        assert error.noise >= 0.999 * scale / n
        missed += abs(error.bias - exact) > 4 * error.stderr
    assert missed <= 0.01 * seeds


def test_a_time_that_few_paths_reach_may_be_reached_by_others():
    """Of 4000 paths 40 meet a condition, between 0.5 and 1, on each grid; another may, half a unit before."""
    draw = np.random.default_rng(2)
    times = np.ones((4000, 3))
    times[:40] = draw.uniform(0.5, 1.0, (40, 1)) + 1e-7 * draw.normal(size=(40, 3))
    error, _ = error_of_values(times, (2, 4), 1.0, 0.0, 1.0)
    assert error is not None
    assert error.stderr >= 0.9 * np.mean(1 - times[:40, 0]) / 4000
    times[5] = [0.8, 0.8, 1.0]  # one that another grid changes says itself how rare they are
    error, _ = error_of_values(times, (2, 4), 1.0, 0.0, 1.0)
    assert error is None or error.stderr < 3 * 0.2 / 4000


def test_the_dataset_and_the_table_say_how_many_are_left_out():
    simulation, result = gbm()
    left_out = dataclasses.replace(result, bias_left_out={"call": 7, "S": 1200})
    dataset = to_dataset(simulation, left_out, PROVENANCE)
    assert dataset.attrs["bias_left_out"] == "call 7, S 1200"
    figures = summary(dataset)
    assert figures["observables"]["call"]["bias_left_out"] == 7
    assert figures["state"]["S"]["bias_left_out"] == 1200
    assert "bias_left_out" not in figures["observables"]["level"]
    assert (
        "\nthe step bias leaves out paths without a finite value at its other steps (call: 7, S: 1,200); "
        "use more steps\n"
    ) in table(dataset)


def test_the_step_bias_of_a_first_time_at_steps_is_unknown():
    """It is late by up to a step on any grid that keeps the dates; by tolerances it is located."""
    experiment = {
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": 1.0},
        "solver": "Tsit5",
        "time": {"t1": 3.0, "steps": 30},
        "observe": {"half": "hitting_time(x < 0.5)", "third": {"value": "first(x, x < 1/3)", "every": 10}},
    }
    result = simkit.run(experiment)
    assert "the step bias is unknown (half): the largest or smallest value, or the first time" in table(
        result
    )
    assert summary(result)["observables"]["third"]["bias"] is not None
    located = {
        "time": {"t1": 3.0, "rtol": 1e-10, "atol": 1e-10},
        "observe": {"half": "hitting_time(x < 0.5)"},
    }
    half = simkit.run(experiment | located)
    error, bias = float(half["half_mean"]) - math.log(2), float(half["half_bias"])
    assert 0 < abs(error - bias) < 4 * float(half["half_bias_stderr"]) < 1e-10


LATE = {
    "model": {"sde": {"x": {"drift": 1, "noise": {"W": 1}}, "met": {"drift": 0}}},
    "initial": {"x": 0, "met": 0},
    "solver": "EulerMaruyama",
    "events": {"meets": {"when": "x > 1", "set": {"met": 1}}},
    "time": {"t1": 16, "steps": 64},
    "ensemble": {"paths": 10_000, "devices": 1},
    "observe": {
        "when": {"value": "hitting_time(x > 1)", "exact": 1},
        "event": {"value": "hitting_time(met > 0.5)", "exact": 1},
        "rebate": {"value": "first(exp(-t), x > 1)", "exact": math.exp(1 - math.sqrt(3))},
    },
}
SAMPLED = {  # exp of the same walk
    "model": {"type": "GBM", "mu": 1.5, "sigma": 1},
    "initial": {"S": 1},
    "solver": "ExactSampling",
    "time": {"t1": 16, "steps": 64},
    "ensemble": {"paths": 10_000, "devices": 1},
    "observe": {
        "when": {"value": "hitting_time(S > exp(1))", "exact": 1},
        "dates": {"value": "hitting_time(S > exp(1))", "every": 1},
    },
}


@pytest.mark.parametrize("steps", [64, 256, pytest.param(1024, marks=pytest.mark.slow)])
@pytest.mark.parametrize("run", [LATE, SAMPLED])
def test_a_first_time_is_late_by_its_step_bias(run, steps):
    """Of Brownian motion with drift its distribution is inverse Gaussian. Each grid sees its own steps."""
    result = simkit.run(run, overrides={"time.steps": steps})
    for name in [name for name in run["observe"] if name != "dates"]:
        off = float(result[f"{name}_mean"]) - run["observe"][name]["exact"]
        assert abs(off) > 8 * float(result[f"{name}_stderr"])
        assert float(result[f"{name}_bias_stderr"]) < 0.8 * abs(off)
        assert abs(float(result[f"{name}_z"])) < 3
    assert "dates_bias" not in result or np.isnan(float(result["dates_bias"]))


def test_an_extreme_at_the_ends_of_steps_says_that_nothing_lies_between():
    """With `every` the ends of steps are the dates that are asked for, and other paths move in jumps only."""
    observe = {
        "top": "max(x)",
        "gone": "x * (min(x) > -1)",
        "dates": {"value": "max(x)", "every": 1},
        "x2": "x",
    }
    small = {"observe": observe, "ensemble": {"paths": 16}, "time": {"t1": 1, "steps": 4}, "events": {}}
    (line,) = [line for line in step_notes(simkit.run(LATE | small)) if "lies between" in line]
    assert line.startswith(
        "top, gone: the largest or smallest value is one at the end of a step, and no error"
    )


@pytest.mark.slow
def test_the_step_bias_of_a_largest_value_at_steps_is_unknown():
    """That of requested dates is known, and of random paths the steps are the dates."""
    peaks = {"every": {"value": "max(x)", "every": 5}, "all": "max(x) + 1", "end": "x"}
    wave = {
        "model": {"ode": {"x": "v", "v": "-x"}},
        "initial": {"x": 0.0, "v": 1.0},
        "solver": "Tsit5",
        "time": {"t1": 3.0, "steps": 20},
        "observe": peaks,
    }
    result = simkit.run(wave)
    figures = summary(result)["observables"]
    assert [name for name in peaks if figures[name]["bias"] is None] == ["all"]
    assert "the step bias is unknown (all): the largest or smallest value, or the first time" in table(result)
    noisy = {"sde": {"x": {"drift": "-x", "noise": {"W": 1}}}}
    random = wave | {"model": noisy, "initial": {"x": 0.0}, "solver": "EulerMaruyama"}
    figures = summary(simkit.run(random | {"ensemble": {"paths": 500}}))["observables"]
    assert figures["all"]["bias"] is not None
