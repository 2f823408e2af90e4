"""Means that their step bias makes: which are no result, and how a run says so."""

import json
import re
import warnings

import pytest
from step_bias_examples import GROWTH, table
from typer.testing import CliRunner

import simkit
from simkit.cli.app import app
from simkit.derivatives.table import notes
from simkit.ensemble.step_bias.resolution import resolution
from simkit.ensemble.step_bias.step_error import StepError
from simkit.results.table import summary

pytestmark = pytest.mark.more


UNSTABLE = {
    "model": {"sde": {"x": {"drift": "-50*x", "noise": {"W": 0.1}}}},
    "initial": {"x": 200.0},
    "time": {"t1": 1.0, "steps": 22},
    "ensemble": {"paths": 500, "devices": 1},
}


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


@pytest.mark.parametrize(
    ("bias", "stderr", "noise", "paths"),
    [
        (0.0, 2.0, 2.0, 16),  # a half takes a sixteenth of the noise
        (0.0, 6.0, 6.0, 150),
        (0.0, 2.0, 1.2, 0),  # most of it is what the extrapolation leaves out
        (7.0, 1.0, 1.0, 0),  # the bias is known, and steps lower it
    ],
)
def test_paths_are_recommended_where_noise_hides_the_bias(bias, stderr, noise, paths):
    """As many as make the noise a twentieth of the value, or a little more."""
    judged = resolution(StepError(bias, stderr, noise, "estimate", 1.0), 10.0, 100.0, 0.2, 100)
    assert judged.paths == paths
    assert judged.steps > 100


@pytest.mark.parametrize(
    ("stderr", "paths"),
    [
        (0.2, 4),  # four times as many leave 0.5 of the noise, and 0.1 of an error, of which five count
        (0.04, 4),  # the noise is a twentieth of the value
        (0.5, 0),
    ],
)
def test_what_one_path_could_add_is_less_with_each_path(stderr, paths):
    """Half as much with twice as many paths, where other noise takes four times as many."""
    error = StepError(0.0, 2.0, 2.0, "estimate", 1.0, unseen=True)
    assert resolution(error, 10.0, 100.0, stderr, 100).paths == paths


def test_as_many_paths_run_again_as_make_a_rare_value_a_result():
    """A payoff on 2 of 200,000 paths: the first 4096, and a tenth of the work, have none."""
    rare = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 200_000, "seed": 1, "unresolved": "keep"},
        "observe": {"high": "S > 240"},
    }
    result = simkit.run(rare)
    assert float(result["high_mean"]) == pytest.approx(2 / 200_000)
    assert "!" not in table(result)
    assert float(result["high_bias_stderr"]) < 5 * float(result["high_stderr"])


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


@pytest.mark.parametrize("t1", [10.0, 30.0])
def test_a_state_variable_is_marked_as_an_observable_of_the_same_value(t1):
    """x decays below what its tolerances know; only of its curve it is known that it was larger before."""
    decay = {
        "model": {"ode": {"x": "-5*x"}},
        "initial": {"x": 1.0},
        "time": {"t1": t1, "rtol": 1e-3, "atol": 1e-6},
        "ensemble": {"unresolved": "keep"},
        "observe": {"same": "x"},
    }
    result = simkit.run(decay)
    assert result.attrs["unresolved"].split()[0] == "same"
    assert result.attrs["noticeable_bias"].split()[0] == "x"
    rows = [line for line in table(result).splitlines() if "│" in line]
    assert [" ! " in row for row in rows] == [True, True]


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
    again = run_command(tmp_path, UNSTABLE, "--out", str(target), "--resume")
    assert again.exit_code == 3
    assert again.stderr.startswith(f"{target}: is complete already\n{line}")
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


def test_a_solution_that_has_blown_up_is_called_stiff():
    """At 20 steps of 0.05 each doubling of steps multiplies x by hundreds of digits, which is no chaos."""
    stiff = {"model": {"ode": {"x": "-1000*x"}}, "initial": {"x": 1.0}, "time": {"t1": 1.0, "steps": 20}}
    with pytest.warns(UserWarning, match="use Rodas5P if the problem is stiff, or many more steps") as caught:
        simkit.run(stiff)
    assert not any("80 steps" in str(each.message) for each in caught)


def test_a_sensitivity_of_an_observable_alone_calls_it_stiff_too():
    """Its dataset has no means of the variables, from which the size of the start is known otherwise."""
    stiff = {
        "constants": {"k": 1000.0},
        "model": {"ode": {"x": "-k*x"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 20},
        "observe": {"y": "2*x"},
        "sensitivity": {"of": ["y"], "wrt": ["k"]},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = notes(simkit.sensitivity(stiff))
    assert any("use Rodas5P if the problem is stiff, or many more steps" in line for line in lines)


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


def test_what_is_made_of_a_variable_that_has_blown_up_is_no_result():
    """Though it be bounded itself and the same on all steps: e^x is never above 1.2 where x is huge."""
    capped = {"capped": "minimum(abs(x), 1.2)", "other": "y", "late": "hitting_time(abs(x) > 1e4)"}
    two = {"x": {"drift": "-400*x", "noise": {"W": 0.1}}, "y": {"drift": "-y", "noise": {"V": 0.1}}}
    initial = {"initial": {"x": 1.0, "y": 1.0}, "observe": capped, "time": {"t1": 1.0, "steps": 12}}
    with pytest.warns(
        simkit.UnresolvedWarning, match="x, capped, late: no result, the steps are unstable; use"
    ):
        result = simkit.run(UNSTABLE | {"model": {"sde": two}} | initial)
    assert float(result["capped_bias"]) == 0
    figures = summary(result)
    resolved = {
        name for part in ("observables", "state") for name, row in figures[part].items() if row["resolved"]
    }
    assert resolved == {"y", "other"}
