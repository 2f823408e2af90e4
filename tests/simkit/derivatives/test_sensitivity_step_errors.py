"""Step errors of derivatives of stochastic runs: right in size and sign, with an honest error."""

import io
import json

import numpy as np
import pytest
from derivative_examples import requests_of_study
from scipy.stats import chi2
from typer.testing import CliRunner

import simkit
from simkit.cli.app import app
from simkit.closed_forms.black_scholes import black_scholes_gamma
from simkit.derivatives import DerivativeProgram, levels, study
from simkit.derivatives.other_steps import on_steps
from simkit.derivatives.plot import relative
from simkit.derivatives.table import print_table, summary
from simkit.ensemble import ChunkProgram
from simkit.ensemble.step_bias import step_levels
from simkit.results.table import with_error

GBM = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 2048, "seed": 1, "devices": 1},
    "observe": {
        "call": "exp(-r*t) * maximum(S - K, 0)",
        "digital": "exp(-r*t) * (S > K)",
        "square": "S**2",
    },
    "sensitivity": {"wrt": ["S", "sigma", "r"], "second": ["S"]},
}
GREEKS = {
    ("call", "S"): 0.636830651175619,
    ("call", "sigma"): 37.5240346916938,
    ("call", "r"): 53.2324815453763,
    ("call", "S, S"): black_scholes_gamma(S=100, K=100, r=0.05, sigma=0.2, T=1),
    ("digital", "S"): 0.0187620173458469,
    ("digital", "sigma"): -0.656670607104641,
    ("digital", "S, S"): -0.000328335303552,
    ("square", "sigma"): 2 * 0.2 * 1e4 * np.exp(0.1 + 0.04),
    ("square", "r"): 2 * 1e4 * np.exp(0.1 + 0.04),
}


def rows(dataset):
    """The figures of all derivatives by quantity and what they are with respect to."""
    each = summary(dataset)["quantities"].items()
    return {(name, label): row for name, content in each for label, row in content["derivatives"].items()}


def covered(experiment, exact, seeds, crossing=(), **overrides):
    """By derivative the sum of z² over seeds, with and without the step bias, which must be a chi² one.

    Those of `crossing`, whose bias changes its sign with the step, may have no order.
    """
    with_bias, without, unclaimed = {}, {}, set()
    for seed in range(seeds):
        result = rows(simkit.sensitivity(experiment, overrides={"ensemble.seed": seed} | overrides))
        for key, value in exact.items():
            row = result[key]
            off = row["derivative"] - value
            if row.get("bias_bound") is not None:
                unclaimed.add(key)
                continue
            error = np.hypot(row["stderr"], row["bias_stderr"])
            with_bias[key] = with_bias.get(key, 0) + ((off - row["bias"]) / error) ** 2
            without[key] = without.get(key, 0) + (off / max(row["stderr"], 1e-9)) ** 2
    assert unclaimed <= {*crossing}
    assert all(value < chi2.ppf(1 - 1e-6, seeds) for value in with_bias.values()), with_bias
    return without


@pytest.mark.slow
def test_derivatives_less_their_step_bias_are_the_exact_ones():
    """Of eight steps: pathwise, smoothed and mixed estimators, of first and second order."""
    covered(GBM, GREEKS, 12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        "score",
        pytest.param("finite_differences", marks=pytest.mark.slow),
        pytest.param("reverse", marks=pytest.mark.slow),
    ],
)
def test_other_estimators_have_the_same_step_bias(method):
    changes = {
        "score": {"sensitivity.of": ["digital"]},
        "finite_differences": {"sensitivity.of": ["square", "call"]},
        "reverse": {"sensitivity.of": ["square", "call"]},
    }[method]
    wanted = {
        key: x for key, x in GREEKS.items() if key[0] in changes["sensitivity.of"] and "," not in key[1]
    }
    covered(GBM, wanted, 12, **changes, **{"sensitivity.method": method, "sensitivity.second": None})


def ornstein_uhlenbeck(x, theta, mu, sigma):
    slow = np.exp(-0.7 * theta)
    mean = mu + (x - mu) * slow
    return mean, mean**2 + sigma**2 / (2 * theta) * (1 - slow**2)


def square_root(x, kappa, theta, sigma):
    slow = np.exp(-0.7 * kappa)
    mean = theta + (x - theta) * slow
    spread = x * sigma**2 / kappa * (slow - slow**2) + theta * sigma**2 / (2 * kappa) * (1 - slow) ** 2
    return mean, mean**2 + spread


PROCESSES = [
    ("OrnsteinUhlenbeck", ornstein_uhlenbeck, "X", 3.0, {"theta": 2.0, "mu": 1.0, "sigma": 0.5}),
    pytest.param(
        *("CIR", square_root, "r", 0.09, {"kappa": 1.5, "theta": 0.06, "sigma": 0.2}), marks=pytest.mark.slow
    ),
]


@pytest.mark.more
@pytest.mark.parametrize(("model", "moments", "variable", "start", "parameters"), PROCESSES)
def test_processes_that_revert(model, moments, variable, start, parameters):
    """The mean and the second moment, by the start and all parameters, against the exact distributions."""
    experiment = {
        "model": {"type": model} | parameters,
        "initial": {variable: start},
        "solver": "EulerMaruyama",
        "time": {"t1": 0.7, "steps": 16},
        "ensemble": {"paths": 2048, "devices": 1},
        "observe": {"mean_of_it": f"1*{variable}", "square": f"{variable}**2"},
        "sensitivity": {"wrt": [variable, *parameters], "of": ["mean_of_it", "square"]},
    }
    exact, point = {}, [start, *parameters.values()]
    for i, label in enumerate([variable, *parameters]):
        moved = [x + 1e-30j * (i == j) for j, x in enumerate(point)]
        for quantity, value in zip(("mean_of_it", "square"), moments(*moved), strict=True):
            exact[quantity, label] = value.imag / 1e-30
    without = covered(experiment, exact, 8, crossing=[("square", "theta")])
    assert without["mean_of_it", variable] > 100  # the step bias is what makes them right


@pytest.mark.more
def test_the_mean_has_the_step_bias_of_a_run():
    changes = {"sensitivity.of": ["square"], "sensitivity.wrt": ["r"], "sensitivity.second": None}
    result, run = simkit.sensitivity(GBM, overrides=changes), simkit.run(GBM)
    for suffix in ("bias", "bias_stderr"):
        assert result[f"square_{suffix}"].item() == pytest.approx(run[f"square_{suffix}"].item(), rel=1e-3)
    file = io.StringIO()
    print_table(result, file)
    assert f"step bias {result['square_bias'].item():.2f}"[:14] in file.getvalue()


def requests_of_one(**overrides):
    """The programs that a study of one derivative requests, which are not compiled."""
    changes = {"sensitivity.of": ["square"], "sensitivity.wrt": ["r"], "sensitivity.second": None}
    return requests_of_study(GBM, changes | overrides)


def test_the_step_bias_of_a_mean_needs_no_program_of_its_own():
    requests = requests_of_one()
    assert not any(isinstance(request.program, ChunkProgram) for request in requests)
    assert len([request for request in requests if isinstance(request.program, DerivativeProgram)]) == 3


def test_code_is_made_quickly_for_levels_of_few_paths_alone():
    for steps, paths, quick in ((8, 2048, [False, True, True]), (800, 10**6, [False] * 3)):
        requests = requests_of_one(**{"time.steps": steps, "ensemble.paths": paths})
        assert [x.quick for x in requests if isinstance(x.program, DerivativeProgram)] == quick


@pytest.mark.slow
@pytest.mark.user_code
def test_step_errors_do_not_depend_on_how_code_is_made(monkeypatch):
    """But for the last digit of normals in float32, which a compiler may round in one way or another."""
    changes = {"sensitivity.of": ["square"], "sensitivity.wrt": ["r"], "sensitivity.second": None}
    quick = rows(simkit.sensitivity(GBM, overrides=changes))["square", "r"]
    monkeypatch.setattr(levels, "FEW_PATH_STEPS", 0)
    full = rows(simkit.sensitivity(GBM, overrides=changes))["square", "r"]
    for key in ("derivative", "stderr"):
        assert quick[key] == full[key]
    for key in ("bias", "bias_stderr"):
        assert quick[key] == pytest.approx(full[key], rel=1e-6)


@pytest.mark.slow
def test_where_dates_are_those_of_steps_they_stay_when_steps_are_halved():
    """The level has twice as many steps and uses every other one: what is left is exact."""
    changes = {
        "observe": {"knocked": "max(S) > 120", "above": "mean(maximum(S - 100, 0))"},
        "sensitivity": {"wrt": ["S", "sigma"]},
        "ensemble": {"paths": 2**15, "devices": 1},
        "time": {"t1": 1.0, "steps": 4},
    }
    euler = rows(simkit.sensitivity(GBM | changes))
    exact = rows(simkit.sensitivity(GBM | changes, overrides={"solver": "ExactSampling"}))
    assert euler["knocked", "S"]["estimator"] == "smoothing"
    for key, row in euler.items():
        off = row["derivative"] - row["bias"] - exact[key]["derivative"]
        assert abs(off) < 5 * np.hypot(row["bias_stderr"], np.hypot(row["stderr"], exact[key]["stderr"])), key
    assert euler["above", "S"]["bias_stderr"] < euler["above", "S"]["stderr"]


def test_an_exact_distribution_has_no_step_error():
    changes = {"solver": "ExactSampling", "sensitivity.of": ["call"], "sensitivity.second": None}
    result = simkit.sensitivity(GBM, overrides=changes)
    assert not [name for name in result if "bias" in name or "step_error" in name]


@pytest.mark.user_code
@pytest.mark.more
def test_a_run_that_sees_fewer_exact_states_binds_the_rows_that_it_saves():
    """Else differences on it, of other values of the targets, would be on another grid than its program."""
    simulation = simkit.load(
        {
            "model": {"type": "OrnsteinUhlenbeck", "theta": 1.0, "mu": 0.5, "sigma": 1.0},
            "initial": {"X": 0.0},
            "time": {"t1": 1.0, "steps": 64},
            "solver": "ExactSampling",
            "ensemble": {"paths": 64},
            "save": {"points": 2},
            "observe": {"area": "integral(X)"},
        }
    )
    others = [on_steps(simulation, level) for level in step_levels.levels(simulation)]
    assert len(others) == 2
    for other in others:
        assert other.bind({}).grid.rows == other.grid.rows == 3


@pytest.mark.slow
@pytest.mark.user_code
def test_bits_do_not_depend_on_threads_devices_and_chunks():
    changes = {
        "ensemble": {"paths": 60_000, "seed": 3},
        "sensitivity": {"wrt": ["S", "sigma"], "of": ["digital"]},
    }
    results = [
        simkit.sensitivity(GBM | changes, overrides=overrides)
        for overrides in (
            {"ensemble.devices": 1, "ensemble.threads": 1},
            {"ensemble.devices": 1, "ensemble.threads": 2},
            {"ensemble.devices": 2, "ensemble.chunk": 5000},
        )
    ]
    for name in ("bias", "derivative_bias", "derivative_bias_stderr", "derivative_tail_index"):
        for other in results[1:]:
            np.testing.assert_array_equal(
                other[f"digital_{name}"].values, results[0][f"digital_{name}"].values
            )


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
    result = simkit.sensitivity(GBM, overrides=changes | {"model.mu": 0.5, "constants.r": 0.5})
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
    file = io.StringIO()
    print_table(result, file)
    assert "! heavy tail: f by S, S" in file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [60, pytest.param(100, marks=pytest.mark.slow)])
def test_a_derivative_has_an_order_of_its_own(steps):
    """Four times the steps are unstable, and nothing of the size of the smallest may be claimed."""
    fast = {
        "constants": {"s": 0.1},
        "model": {"sde": {"X": {"drift": "-50*X", "noise": {"W": "s"}}}},
        "initial": {"X": 200.0},
        "time": {"t1": 1.0, "steps": steps},
        "ensemble": {"paths": 5000, "seed": 8, "devices": 1, "unresolved": "keep"},
        "observe": {"f": "X**2"},
        "sensitivity": {"wrt": ["s"]},
    }
    row = rows(simkit.sensitivity(fast))["f", "s"]
    error = np.hypot(row["stderr"], row["bias_stderr"])
    assert abs(row["derivative"] - row["bias"] - 2 * 0.1 / 100) < 4 * error
    assert row["bias_stderr"] < 0.003


@pytest.mark.slow
def test_what_the_mean_does_not_see_is_seen_by_its_derivative():
    """The variance of a stiff process, 0.05, counts in the derivative alone: there is no order."""
    hidden = {
        "constants": {"part": 0.0},
        "model": {
            "sde": {
                "X": {"drift": "-X", "noise": {"W": 1.0}},
                "Y": {"drift": "-1000*Y", "noise": {"V": 10.0}},
            }
        },
        "initial": {"X": 1.0, "Y": 0.0},
        "solver": "DriftImplicitEuler",
        "time": {"t1": 2.0, "steps": 200},
        "ensemble": {"paths": 4096, "devices": 1, "unresolved": "keep"},
        "observe": {"f": "X + part*Y**2"},
        "sensitivity": {"wrt": ["part"]},
    }
    row = rows(simkit.sensitivity(hidden))["f", "part"]
    assert row["resolved"] is False
    assert row.get("bias_stderr") is None
    assert 0.003 < row["bias_bound"] < 0.0417


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", pytest.param("finite_differences", marks=pytest.mark.slow)])
def test_where_longer_steps_say_little_shorter_ones_are_taken(method):
    """Steps twice as long swing and those four times as long explode: nothing follows for the run."""
    swinging = {
        "model": {"sde": {"x": {"drift": "-30*x", "noise": {"W": 0.1}}}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 32},
        "ensemble": {"paths": 256, "devices": 1, "normals": "float64", "unresolved": "keep"},
        "precision": "float64",
        "sensitivity": {"wrt": ["x"], "of": ["x"], "method": method},
    }
    row = rows(simkit.sensitivity(swinging))["x", "x"]
    assert abs(row["derivative"] - np.exp(-30.0)) < 1e-9
    assert row.get("bias") is None  # no order fits shorter steps either, and the bound is from these
    assert row["bias_bound"] < 1e-9


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
