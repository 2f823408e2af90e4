"""The step bias of runs: by which grids, on how many paths, and what is said where there is none."""

import dataclasses
import io
import json
import math
import re

import numpy as np
import pytest
from dataset_examples import PROVENANCE, gbm
from grids import factors
from hypothesis import given, settings
from hypothesis import strategies as st
from simkit_solvers import AbstractODE
from typer.testing import CliRunner

import simkit
from simkit import load
from simkit.cli.app import app
from simkit.ensemble import run_ensemble
from simkit.ensemble.step_bias.coupled_steps import BIAS_PATHS, bias_run, orders
from simkit.ensemble.step_bias.coupled_steps import step_error_of_paths as error_of_values
from simkit.ensemble.step_bias.resolution import resolution
from simkit.ensemble.step_bias.step_error import StepError
from simkit.results.dataset import to_dataset
from simkit.results.table import print_table, summary

pytestmark = pytest.mark.more

GROWTH = {
    "model": {"type": "GBM", "mu": 0.5, "sigma": 0.3},
    "initial": {"S": 1.0},
    "time": {"t1": 1.0, "steps": 16},
    "ensemble": {"paths": 500, "devices": 1},
}
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
UNSTABLE = {
    "model": {"sde": {"x": {"drift": "-50*x", "noise": {"W": 0.1}}}},
    "initial": {"x": 200.0},
    "time": {"t1": 1.0, "steps": 22},
    "ensemble": {"paths": 500, "devices": 1},
}


def table(dataset) -> str:
    file = io.StringIO()
    print_table(dataset, file)
    return file.getvalue()


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
    assert "bonus: 0 on all 3,000 paths, so no bound on" in text


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


def run_command(tmp_path, experiment, *options):
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(experiment))
    return CliRunner().invoke(app, ["run", str(file), "--no-plot", *options])


@pytest.mark.parametrize(
    ("claim", "part", "kind"),
    [
        ("estimate", 0.3, "noticeable"),
        ("estimate", 0.6, "unresolved"),
        ("at least", 0.1, "noticeable"),
        ("at least", 0.3, "unresolved"),
    ],
)
@pytest.mark.parametrize(("size", "spread"), [(10.0, 0.0), (0.0, 10.0)])
def test_a_bound_leaves_less_of_a_mean_than_an_estimate(claim, part, kind, size, spread):
    """What is only known to be off by a third may be off by all."""
    error = StepError(10.0 * part, 0.01, 0.01, claim, 1.0)
    judged = resolution(error, size, spread, 0.01, 100)
    assert judged.kind == kind
    assert judged.steps > 100


@pytest.mark.parametrize(("bias", "kind"), [(0.99, "resolved"), (1.01, "noticeable")])
def test_a_step_bias_is_sure_from_five_standard_errors_on(bias, kind):
    """Errors of 0.12 and 0.16 are 0.2 together; the bias is a tenth of the mean."""
    assert resolution(StepError(bias, 0.16, 0.16, "estimate", 1.0), 10.0, 0.0, 0.12, 100).kind == kind


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
    assert "the step bias is unknown (all): the largest or smallest value is one at a step" in table(result)
    noisy = {"sde": {"x": {"drift": "-x", "noise": {"W": 1}}}}
    random = wave | {"model": noisy, "initial": {"x": 0.0}, "solver": "EulerMaruyama"}
    figures = summary(simkit.run(random | {"ensemble": {"paths": 500}}))["observables"]
    assert figures["all"]["bias"] is not None


@pytest.mark.parametrize(
    ("noise", "stderr", "spread", "kind"),
    [
        (6.0, 1.0, 100.0, "unresolved"),
        (2.0, 0.3, 100.0, "noticeable"),
        (6.0, 2.0, 100.0, "resolved"),  # more paths would decide
        (0.4, 0.01, 1.0, "resolved"),  # of a value of 10
        (6.0, 0.0, 0.0, "resolved"),  # the same on all paths
        (6.0, 1.0, 230.0, "noticeable"),  # paths so far apart that other steps make others of them
    ],
)
@pytest.mark.parametrize("bias", [0.0, -0.04])
def test_noise_that_hides_a_step_bias_counts_as_one(bias, noise, stderr, spread, kind):
    error = StepError(bias, noise, noise, "estimate", 1.0)
    assert resolution(error, 10.0, spread, stderr, 100).kind == kind


@pytest.mark.slow
def test_a_mean_made_by_rare_paths_is_no_result():
    """At a volatility of 3 twelve steps know the step bias of the price to about its own size."""
    wide = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 3.0},
        "initial": {"S": 100.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 12},
        "ensemble": {"paths": 100_000, "unresolved": "keep"},
        "observe": {"call": "exp(-0.05*t) * maximum(S - 100, 0)"},
    }
    result = simkit.run(wide)
    assert summary(result)["observables"]["call"]["resolved"] is False
    assert re.search(r"! call: no result, the step bias is known only to ± .* of the value; ", table(result))


def test_a_mean_that_its_step_bias_makes_ends_the_command_with_3(tmp_path):
    """Each step of -50x multiplies by -1.27: the results are there, marked, and the command fails."""
    target = tmp_path / "x.nc"
    shown = run_command(tmp_path, UNSTABLE, "--out", str(target))
    assert shown.exit_code == 3
    assert target.exists()
    row = next(line for line in shown.stdout.splitlines() if "│ x " in line)
    assert " ! │" in row
    line = "! x: no result, the step bias is as large as the value; use 88 steps or more"
    assert line in shown.stdout
    outcome = run_command(tmp_path, UNSTABLE, "--json")
    assert outcome.exit_code == 3
    assert json.loads(outcome.stdout)["state"]["x"]["resolved"] is False
    assert line in outcome.stderr
    kept = run_command(tmp_path, UNSTABLE, "--set", "ensemble.unresolved=keep")
    assert kept.exit_code == 0
    assert line in kept.stdout
    enough = run_command(tmp_path, UNSTABLE, "--set", "time.steps=88")
    assert enough.exit_code == 0
    assert "no result" not in enough.stdout


def test_python_warns_of_a_mean_that_its_step_bias_makes():
    with pytest.warns(UserWarning, match="^! x: no result"):
        result = simkit.run(UNSTABLE)
    assert result.attrs["unresolved"] == "x 88"


def test_an_ordinary_equation_beyond_its_limit_is_no_result():
    """Tsit5 at a hundred times its limit ends at 1e294, and at half the step beyond the largest number."""
    stiff = {
        "model": {"ode": {"x": "-1000*x"}},
        "initial": {"x": 1.0},
        "solver": "Tsit5",
        "time": {"t1": 1.0, "steps": 100},
    }
    with pytest.warns(UserWarning, match="or Rodas5P if the problem is stiff"):
        result = simkit.run(stiff)
    assert result.attrs["unresolved"] == "x 400"


@pytest.mark.parametrize(
    "steps", [{"steps": 1000}, pytest.param({"rtol": 1e-6, "atol": 1e-6}, marks=pytest.mark.slow)]
)
def test_a_chaotic_solution_is_not_called_stiff(steps):
    """Lorenz at t = 40, where no solver and no number of steps gives digits of a single path."""
    lorenz = {
        "model": {"type": "Lorenz63", "sigma": 10.0, "rho": 28.0, "beta": "8/3"},
        "initial": {"x": 1.0, "y": 1.0, "z": 1.0},
        "solver": "Tsit5",
        "time": {"t1": 40.0, **steps},
    }
    with pytest.warns(UserWarning, match=r"or an earlier time\.t1 if the solution is chaotic") as caught:
        simkit.run(lorenz)
    assert not any("stiff" in str(each.message) for each in caught)


CALM = [
    # The mean is 0 by symmetry, and so is its bias.
    {"model": {"sde": {"X": {"drift": "X - X**3", "noise": {"W": 0.5}}}}, "initial": {"X": 0}},
    # Five paths.
    {"ensemble": {"paths": 5, "devices": 1}},
    # Random starts on a chaotic attractor: noise beyond a few time units.
    {
        "model": {"type": "Lorenz63", "sigma": 10, "rho": 28, "beta": 8 / 3},
        "initial": {"x": {"normal": [1, 5]}, "y": {"normal": [1, 5]}, "z": {"normal": [25, 5]}},
        "solver": "Tsit5",
        "time": {"t1": 20.0, "steps": 1000},
        "ensemble": {"paths": 200, "devices": 1},
    },
    # The largest of the path at each step: a contract of its own for each number of steps.
    {"observe": {"top": "max(S)"}},
]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("changes", CALM)
def test_noise_is_no_alarm(changes, seed):
    experiment = GROWTH | {"time": {"t1": 2.0, "steps": 100}} | changes
    if "model" in changes and "solver" not in changes:
        experiment = {"ensemble": GROWTH["ensemble"], "time": {"t1": 2.0, "steps": 100}} | changes
    experiment["ensemble"] = experiment["ensemble"] | {"seed": seed}
    result = simkit.run(experiment)
    assert not result.attrs.keys() & {"unresolved", "noticeable_bias"}
    assert not [name for name in result if str(name).endswith("_bias_bound")]


def test_what_no_path_has_met_on_any_grid_is_known_to_one_path():
    """A constant is known but for rounding, and what has no limit is not known at all."""
    expected = {
        "X > 9": (1 / 500, "0.00000 ± 0.00200"),
        "3 - 2.5*(X > 9)": (2.5 / 500, "0.00000 ± 0.00500"),
        "maximum(X - 9, 0)": (math.inf, "0 ± inf"),
        "1 + 0*t": (0.0, "(0.00 ± 4.44)e-16"),
    }
    names = [f"p{i}" for i in range(len(expected))]
    rare = {
        "model": {"sde": {"X": {"noise": {"W": 1}}}},
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
