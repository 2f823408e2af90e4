"""Sensitivities of means: the right estimator, the right number, and an honest error.

Published values: Black and Scholes' Greeks for S = K = 100, r = 5 %, sigma = 0.2, T = 1, and the standard
deviations per path of the pathwise and the likelihood-ratio estimators on the exact distribution (Glasserman
2003, Monte Carlo Methods in Financial Engineering, chapter 7).
"""

import io
import json

import numpy as np
import pytest
from derivative_examples import EXACT, STEPS
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

import simkit
from simkit import InputError, NumericalError
from simkit.cli import app
from simkit.closed_forms.black_scholes import black_scholes_gamma, black_scholes_vanna
from simkit.derivatives.table import print_table, summary

GREEKS = [
    ("call", "S", 0.636830651175619, 0.576381, "pathwise"),
    ("call", "sigma", 37.5240346916938, 75.69235, "pathwise"),
    ("call", "r", 53.2324815453763, None, "pathwise"),
    ("call", "S, S", 0.0187620173458469, 0.0279292, "mixed"),
    ("call", "S, sigma", -0.281430260187703, None, "mixed"),
    ("digital", "S", 0.0187620173458469, None, "smoothing"),
    ("digital", "sigma", -0.656670607104641, None, "smoothing"),
    ("digital", "S, S", -0.000328335303552, None, "smoothing"),
    ("digital", "S, sigma", -0.0888870, None, "smoothing"),
]


def derivatives(dataset, name):
    """(mean, standard error, standard deviation, estimator) by what the derivative is with respect to."""
    results = {}
    for kind, along in (("derivative", "parameter"), ("second", "pair")):
        if f"{name}_{kind}" not in dataset:
            continue
        for i, label in enumerate(dataset[along].values):
            figures = [
                np.atleast_1d(dataset[f"{name}_{kind}{s}"][i].values)[-1] for s in ("", "_stderr", "_sd")
            ]
            results[str(label)] = (*map(float, figures), str(dataset[f"{name}_{kind}_estimator"].values[i]))
    return results


SCORED = {"sensitivity.method": "score", "sensitivity.of": "[digital]", "sensitivity.second": "null"}


@pytest.fixture(scope="module")
def greeks():
    return simkit.sensitivity(EXACT)


@pytest.mark.more
@pytest.mark.parametrize(("name", "label", "value", "sd", "estimator"), GREEKS)
def test_greeks_and_deviations_per_path_are_the_published_ones(greeks, name, label, value, sd, estimator):
    mean, stderr, deviation, used = derivatives(greeks, name)[label]
    assert used == estimator
    assert abs(mean - value) < 4 * stderr
    assert stderr == pytest.approx(deviation / 2**8.5, rel=1e-9)
    if sd is not None:
        assert deviation == pytest.approx(sd, rel=0.03)


@pytest.mark.more
def test_the_score_has_its_published_deviation_and_smoothing_less(greeks):
    result = derivatives(simkit.sensitivity(EXACT, ["S", "sigma"], overrides=SCORED), "digital")
    smoothed = derivatives(greeks, "digital")
    for label, value, sd in (("S", 0.0187620173458469, 0.0279292), ("sigma", -0.656670607104641, 4.507927)):
        mean, stderr, deviation, used = result[label]
        assert used == "score"
        assert abs(mean - value) < 4 * stderr
        assert deviation == pytest.approx(sd, rel=0.03)
        assert smoothed[label][2] < 0.6 * sd


@pytest.mark.more
def test_greeks_away_from_the_money():
    """Where gamma and the digital's delta are not equal; no program is compiled anew for it."""
    result = simkit.sensitivity(EXACT, overrides={"initial.S": 112.0})
    numbers = {"S": 112.0, "K": 100.0, "r": 0.05, "sigma": 0.2, "T": 1.0}
    d2 = (np.log(1.12) + 0.05 - 0.02) / 0.2
    exact = {
        ("call", "S, S"): black_scholes_gamma(**numbers),
        ("call", "S, sigma"): black_scholes_vanna(**numbers),
        ("digital", "S"): np.exp(-0.05 - d2**2 / 2) / (112 * 0.2 * np.sqrt(2 * np.pi)),
    }
    for (name, label), value in exact.items():
        mean, stderr, *_ = derivatives(result, name)[label]
        assert abs(mean - value) < 4 * stderr, (name, label)


@pytest.mark.slow
def test_gradual_release_keeps_the_variance_of_one_step():
    """The score of the scheme's own steps would have √50 times the deviation in S and more in sigma."""
    result = derivatives(simkit.sensitivity(STEPS, overrides=SCORED), "digital")
    for label, value, one_step in (("S", 0.0187620173, 0.0279292), ("sigma", -0.656670607, 4.507927)):
        mean, stderr, sd, estimator = result[label]
        assert estimator == "score"
        assert abs(mean - value) < 4 * stderr
        assert sd < 2.2 * one_step


BARRIER = {
    "constants": {"r": 0.05, "K": 100.0, "B": 115.0},
    "model": {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.04, "xi": 0.9, "rho": -0.6},
    "initial": {"S": 100.0, "v": 0.01},
    "solver": "EulerMaruyama",
    "time": {"t1": 0.5, "steps": 6},
    "ensemble": {"paths": 2**14, "seed": 4, "devices": 1},
    "observe": {"out": "exp(-r*t) * (max(S) < B) * S * (S > K)"},
    "sensitivity": {"wrt": ["S", "K", "B"], "check": True},
}


@pytest.mark.slow
def test_smoothing_at_a_barrier_and_in_strikes():
    """The value is homogeneous of degree one in all amounts of money (Euler).

    On many paths the variance is cut off at zero, where a score of both variables would be infinite.
    """
    dataset = simkit.sensitivity(BARRIER)
    result = derivatives(dataset, "out")
    assert {estimator for *_, estimator in result.values()} == {"smoothing"}
    amounts = {"S": 100.0, "K": 100.0, "B": 115.0}
    total = sum(amounts[label] * mean for label, (mean, *_) in result.items())
    error = np.sqrt(sum((amounts[label] * stderr) ** 2 for label, (_, stderr, *_) in result.items()))
    assert abs(total - float(dataset["out_mean"])) < 4 * error
    assert abs(result["K"][0]) > 10 * result["K"][1]
    assert abs(result["B"][0]) > 10 * result["B"][1]
    assert np.all(abs(dataset["out_derivative_z"]) < 4)


@pytest.mark.slow
def test_forward_reverse_and_differences_agree():
    """On each path up to the error of the differences, so the means do on 64 of them."""
    smooth = {
        **STEPS,
        "model": {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.04, "xi": 0.05, "rho": -0.6},
        "initial": {"S": 100.0, "v": 0.04},
        "ensemble": {"paths": 64, "seed": 1},
        "observe": {"asian": "exp(-r*t) * mean(S) + 0.1*integral(v)"},
        "time": {"t1": 1.0, "steps": 8},
        "sensitivity": {"wrt": ["S", "kappa", "rho", "t1"]},
    }

    # Two programs may round a float32 normal differently in its last bit.
    smooth["ensemble"] |= {"devices": 1, "normals": "float64"}
    methods = ("auto", "reverse", "finite_differences")
    means = [
        simkit.sensitivity(smooth, overrides={"sensitivity.method": each})["asian_derivative"].values
        for each in methods
    ]
    np.testing.assert_allclose(means[0], means[1], rtol=1e-9)
    np.testing.assert_allclose(means[0], means[2], rtol=1e-6, atol=1e-6)


@pytest.mark.user_code
@pytest.mark.slow
def test_bits_do_not_depend_on_chunks():
    whole, cut = (
        simkit.sensitivity(STEPS, ["sigma"], overrides={"ensemble.paths": 8192, "ensemble.chunk": chunk})
        for chunk in (8192, 2048)
    )
    for name in ("digital_derivative", "digital_derivative_stderr", "digital_mean"):
        assert np.array_equal(whole[name], cut[name])


@pytest.mark.slow
def test_a_score_needs_noise_where_the_parameter_acts():
    """x has no noise, so where a condition looks at it only differences are right."""
    hidden = {
        "constants": {"c": 0.3, "s": 0.5},
        "model": {
            "sde": {"x": "c * v", "v": {"drift": "-v + c", "noise": {"W": "s"}}},
            "parameters": {"c": "c", "s": "s"},
        },
        "initial": {"x": 0.0, "v": 1.0},
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 256},
        "observe": {"far": "x > 0.3"},
        "sensitivity": {"wrt": ["c", "s"]},
    }
    dataset = simkit.sensitivity(hidden)
    assert list(dataset["far_derivative_estimator"].values) == ["finite differences", "score"]
    assert "x moves with c, and no noise drives x" in str(dataset["far_derivative_reason"].values[0])
    hidden["model"]["sde"]["v"]["drift"] = "-v + c + where(v > 1, 1, 0)"
    hidden["observe"] = {"both": "x * v"}
    assert simkit.sensitivity(hidden)["both_derivative_reason"].values[0] == (
        "the equations jump; no score: x moves with c, and no noise drives x; no smoothing: the equations "
        "jump with v"
    )


@pytest.mark.slow
def test_where_a_weight_would_be_infinite_there_is_an_error():
    noiseless = {
        "constants": {"c": 0.3},
        "model": {"sde": {"x": {"drift": "c", "noise": {"W": "maximum(x, 0)"}}}, "parameters": {"c": "c"}},
        "initial": {"x": -1.0},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 64},
        "observe": {"up": "x > -0.5"},
        "sensitivity": {"wrt": ["c"]},
    }
    with pytest.raises(NumericalError, match="the noise vanishes"):
        simkit.sensitivity(noiseless, overrides={"sensitivity.method": "score"})
    noiseless["model"]["sde"]["x"]["drift"] = "where(x > 5, -c, c)"
    dataset = simkit.sensitivity(noiseless)
    assert list(dataset["up_derivative_estimator"].values) == ["finite differences"]


@pytest.mark.more
def test_a_single_place_moves_with_the_constants_behind_it():
    """The mean of S is S0 exp(mu), and each path S0 times something, wherever mu and S0 are moved."""
    moved = {
        **EXACT,
        "constants": {"r": 0.05, "S0": 100.0},
        "initial": {"S": "S0"},
        "ensemble": {"paths": 256, "seed": 5, "devices": 1},
        "observe": {"end": "1*S"},
        "sensitivity": {
            "wrt": ["r", "model.mu", "S0", "S"],
            "second": [["r", "model.mu"], ["S0", "model.mu"], ["S0", "S"]],
            "check": True,
        },
    }
    result = simkit.sensitivity(moved)
    mean = float(result["end_mean"])
    for suffix in ("", "_check"):
        first, second = result[f"end_derivative{suffix}"].values, result[f"end_second{suffix}"].values
        np.testing.assert_allclose(first, [mean, mean, mean / 100, mean / 100], rtol=1e-6)
        np.testing.assert_allclose(second, [mean, mean / 100, 0], rtol=1e-6, atol=1e-9)
    assert result["end_second_reason"].values[2] == "no path's slope in one changes with the other"


@pytest.mark.slow
def test_rounding_is_no_standard_error():
    """The derivative of x in mu is the same on all paths, and differences of it spread by rounding alone."""
    linear = {
        "model": {"type": "OrnsteinUhlenbeck", "theta": 1.5, "mu": 2.0, "sigma": 0.6},
        "initial": {"X": 0.5},
        "time": {"t1": 1.0, "steps": 20},
        "ensemble": {"paths": 1000, "seed": 5, "devices": 1},
        "observe": {"end": "1*X"},
        "sensitivity": {"wrt": ["mu", "theta"], "second": ["mu"], "check": True},
    }
    result = simkit.sensitivity(linear)
    assert float(result["end_derivative_check_stderr"][0]) > 0
    assert np.isnan(result["end_derivative_z"][0])
    assert np.isnan(result["end_second_z"][0])
    assert abs(float(result["end_derivative_z"][1])) < 1
    print_table(result, text := io.StringIO())
    assert text.getvalue().count(" equal ") == 2
    assert " 0.7897022361 " in text.getvalue()
    assert "0.78970223613" not in text.getvalue()
    assert result.attrs["precision"] == "float64"


@pytest.mark.more
def test_an_ordinary_equation_says_why_a_derivative_is_0_and_how_far_differences_are():
    experiment = {
        "constants": {"a": 0.5, "idle": 3.0},
        "model": {"ode": {"x": "a"}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 10},
        "observe": {"big": "x > 5", "one": "1 + 0*x", "y": "x"},
        "sensitivity": {"wrt": ["a", "idle"], "check": True},
    }
    result = simkit.sensitivity(experiment)
    unused = "nothing in the experiment uses it"
    for name, reason in (
        ("big", "the value is a step, and flat around here"),
        ("one", "no path changes with it"),
        ("y", "continuous in the path"),
    ):
        assert list(result[f"{name}_derivative_reason"].values) == [reason, unused]
        assert np.isnan(result[f"{name}_derivative_z"]).all() if name != "big" else True
    text = io.StringIO()
    print_table(result, text)
    assert text.getvalue().count(" equal ") == 4
    result["y_derivative_check"][0] = 1.25
    print_table(result, text := io.StringIO())
    assert " -20 % " in text.getvalue()


@pytest.mark.slow
def test_differences_are_shown_next_to_the_derivatives():
    checked = {
        **STEPS,
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 2**13, "seed": 1, "devices": 1},
    }
    checked["sensitivity"] = {"wrt": ["K"], "of": ["digital"], "check": True}
    result = simkit.sensitivity(checked)
    by_differences = simkit.sensitivity(
        checked, overrides={"sensitivity.method": "finite_differences", "sensitivity.check": False}
    )
    assert result["digital_derivative_check"].values == by_differences["digital_derivative"].values
    difference = result["digital_derivative"].values - result["digital_derivative_check"].values
    error = np.hypot(
        result["digital_derivative_stderr"].values, result["digital_derivative_check_stderr"].values
    )
    assert result["digital_derivative_z"].values == pytest.approx(difference / error)
    assert abs(result["digital_derivative_z"].values) < 4
    row = summary(result)["quantities"]["digital"]["derivatives"]["K"]
    assert row["z"] == float(result["digital_derivative_z"][0])


@pytest.mark.more
def test_variants_have_sensitivities_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    variants = {"usual": None, "calm": {"model.sigma": 0.1}}
    whole = EXACT | {
        "ensemble": {"paths": 4096, "seed": 5},
        "sensitivity": {"wrt": ["S", "sigma"], "of": ["call"]},
    }
    alone = simkit.sensitivity(whole, overrides={"model.sigma": 0.1})
    dataset = simkit.sensitivity(whole | {"variants": variants})
    calm = dataset.sel(variant="calm")
    assert np.array_equal(calm["call_derivative"], alone["call_derivative"])
    assert list(calm["parameter_value"].values) == [100.0, 0.1]
    assert not np.array_equal(calm["call_derivative"], dataset["call_derivative"].sel(variant="usual"))

    (tmp_path / "e.yaml").write_text(json.dumps(whole | {"variants": variants}))
    result = CliRunner().invoke(app, ["sensitivity", "e.yaml", "--json", "--out", "e.zarr"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)["variants"]
    assert list(content) == ["usual", "calm"]
    shown = content["calm"]["quantities"]["call"]["derivatives"]["sigma"]["derivative"]
    assert shown == float(alone["call_derivative"][1])
    assert (tmp_path / "e.png").exists()
    result = CliRunner().invoke(app, ["sensitivity", "e.yaml", "--variant", "calm", "--set", "output=o.zarr"])
    assert "ExactSampling, calm" in result.stdout
    assert result.stderr == (
        "note: nothing is written: output: o.zarr is for the dataset of `simkit run`, and --out PATH writes "
        "the derivatives\n"
    )
    assert not (tmp_path / "o.zarr").exists()
    assert "usual" not in result.stdout

    incompatible = {"usual": None, "calm": {"sensitivity.wrt": ["S"]}}
    with pytest.raises(InputError, match=r"variant calm: has sensitivity\.wrt: \['S'\], and usual has"):
        simkit.sensitivity(whole | {"variants": incompatible})


@pytest.mark.user_code
@pytest.mark.slow
@pytest.mark.parametrize("method", ["score", pytest.param("pathwise", marks=pytest.mark.slow)])
def test_bits_do_not_depend_on_what_is_saved(method):
    """Of two noises and derivatives in several arrays, where blocks are as short as they can be."""
    experiment = {
        "model": {"type": "Heston", "mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.1, "rho": -0.7},
        "initial": {"S": 100.0, "v": 0.04},
        "time": {"t1": 1.0, "steps": 12},
        "ensemble": {"paths": 300, "seed": 3},
        "observe": {"up": "S > 100" if method == "score" else "S"},
        "sensitivity": {"wrt": ["mu", "xi"], "of": ["up"], "method": method},
    }
    results = [
        simkit.sensitivity(experiment, overrides={"save.points": points})["up_derivative"].values
        for points in (1, 4, 12)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.more
def test_command_prints_and_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.yaml").write_text(json.dumps(EXACT))
    arguments = ["sensitivity", "e.yaml", "--json", "--out", "e.zarr"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    row = content["quantities"]["call"]["derivatives"]["S"]
    assert row["estimator"] == "pathwise"
    assert row["elasticity"] == pytest.approx(6.1, rel=0.05)
    mean = content["quantities"]["call"]
    relative = row["stderr"] / row["derivative"] + mean["stderr"] / mean["mean"]
    assert row["elasticity_stderr"] == pytest.approx(row["elasticity"] * relative)
    assert (tmp_path / "e.zarr").exists()
    assert (tmp_path / "e.png").exists()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 4
    shown = CliRunner().invoke(app, ["sensitivity", "e.yaml", "--quiet", "--set", "sensitivity=null"])
    assert shown.exit_code == 2
    assert "sensitivity: is missing" in shown.output


@pytest.mark.more
def test_no_path_at_all_is_no_table():
    lost = {
        "model": {"ode": {"x": "sqrt(-1 - k*x**2)"}, "parameters": {"k": 1.0}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 3, "failures": "exclude"},
        "sensitivity": {"wrt": ["k"]},
    }
    with pytest.raises(NumericalError, match=r"^none of the 3 paths has finite values and derivatives"):
        simkit.sensitivity(lost)


@pytest.mark.slow
@pytest.mark.parametrize("noises", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_scores_distribute_noises_that_drive_all_variables(noises):
    """The shift of two or three normals that moves one normal variable and not the other."""
    matrix = np.array([[1.0, 0.5, 0.3], [0.4, -0.8, 0.6]])[:, :noises]
    lines = [{f"W{k}": float(x) for k, x in enumerate(row)} for row in matrix]
    experiment = {
        "constants": {"a": 0.1},
        "model": {"sde": {"x": {"drift": "a", "noise": lines[0]}, "y": {"drift": "-2*a", "noise": lines[1]}}},
        "initial": {"x": 0.0, "y": 0.0},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 2**14, "seed": 3, "devices": 1},
        "observe": {"both": "(x < 0.3)*(y < 0.2)"},
        "sensitivity": {"wrt": ["a", "x"], "method": "score"},
    }
    result = simkit.sensitivity(experiment)
    distribution = multivariate_normal(cov=matrix @ matrix.T)
    first, last = (
        (distribution.cdf([0.2 + h, 0.4 + g]) - distribution.cdf([0.2 - h, 0.4 - g])) / 2e-3
        for h, g in ((1e-3, 0), (0, 1e-3))
    )
    wanted = np.array([2 * last - first, -first])
    assert list(result["both_derivative_estimator"].values) == ["score", "score"]
    errors = result["both_derivative_stderr"].values
    assert (abs(result["both_derivative"].values - wanted) < 4 * errors).all()
    assert (errors < 0.05 * abs(wanted)).all()
