"""Sensitivities of means: the right estimator, the right number, and an honest error.

Published values: Black and Scholes' Greeks for S = K = 100, r = 5 %, sigma = 0.2, T = 1, and the standard
deviations per path of the pathwise and the likelihood-ratio estimators on the exact distribution (Glasserman
2003, Monte Carlo Methods in Financial Engineering, chapter 7).
"""

import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

import simkit
from simkit import InputError, NumericalError, load
from simkit.cli import app
from simkit.closed_forms.black_scholes import black_scholes_gamma, black_scholes_vanna
from simkit.closed_forms.jump_diffusions import merton_call
from simkit.derivatives import find_target
from simkit.derivatives.derivative_program import Contribution
from simkit.derivatives.differences import COUPLED, step_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.moments import MomentsReduction, average
from simkit.derivatives.offers import first_offer
from simkit.derivatives.smoothness import name_in_condition, why_discontinuous
from simkit.derivatives.table import print_table, summary
from simkit.derivatives.targets import Target
from simkit.derivatives.validity import release_interval, smooth
from simkit.ensemble.chunks import Chunks
from simkit.ensemble.work import workers_on
from simkit.expressions import compile_expression
from simkit.machine.on_each_device import local_devices

EXACT = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "ensemble": {"paths": 2**17, "seed": 5},
    "observe": {
        "call": "exp(-r*t) * maximum(S - K, 0)",
        "digital": "exp(-r*t) * (S > K)",
    },
    "sensitivity": {"wrt": ["S", "sigma", "r"], "second": ["S", ["S", "sigma"]], "of": ["call", "digital"]},
}
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


STEPS = {
    **EXACT,
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 50},
    "ensemble": {"paths": 2**15, "seed": 1},
    "observe": {"digital": "exp(-r*t) * (S > K)"},
    "sensitivity": {"wrt": ["S", "sigma", "r"], "of": ["digital"]},
}


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
def test_nothing_is_silently_zero():
    with pytest.raises(InputError, match="pathwise derivative of digital in S would be wrong"):
        simkit.sensitivity(STEPS, overrides={"sensitivity.method": "pathwise"})
    with pytest.raises(InputError, match="no score for digital in K: K is in the condition itself"):
        simkit.sensitivity(STEPS, ["K"], overrides={"sensitivity.method": "score"})
    with pytest.raises(InputError, match="Milstein is not one to one"):
        simkit.sensitivity(STEPS, overrides={"sensitivity.method": "score", "solver": "Milstein"})
    changes = {"observe.fixed": "3 + 0*S", "sensitivity.of": "[S, fixed]", "sensitivity.second": "null"}
    idle = simkit.sensitivity(EXACT, ["K"], overrides=changes | {"ensemble.paths": 64})
    for name, mean in (("S", None), ("fixed", 3.0)):
        assert np.all(idle[f"{name}_derivative"].values == 0)
        assert list(idle[f"{name}_derivative_reason"].values) == ["no path changes with it"]
        assert mean is None or float(idle[f"{name}_mean"]) == mean


def test_steps_that_switch_from_one_distribution_to_another_have_no_derivative_along_them():
    by_moments = {
        "model": {"type": "Heston", "mu": 0.05, "kappa": 1, "theta": 0.04, "xi": 0.4, "rho": -0.5},
        "initial": {"S": 100, "v": 0.04},
        "solver": "AndersenQE",
        "time": {"t1": 1, "steps": 4},
        "sensitivity": {"wrt": ["xi"], "of": ["S"], "method": "pathwise"},
    }
    with pytest.raises(InputError, match="S in xi would be wrong: AndersenQE switches from one distribution"):
        simkit.sensitivity(by_moments)


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
def test_the_root_of_a_square_has_a_kink():
    """The second derivative of E|x - K| in K is twice the density at K, and not 0."""
    rooted = {
        "constants": {"K": 1.0},
        "model": {"sde": {"x": {"drift": 1.0, "noise": {"W": 1.0}}}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 2**14, "seed": 4, "devices": 1},
        "observe": {"far": "sqrt((x - K)**2)"},
        "sensitivity": {"wrt": ["K", "x"], "second": ["K", "x"]},
    }
    result = simkit.sensitivity(rooted)
    away = result["far_second"].values - 2 / np.sqrt(2 * np.pi)
    assert np.all(abs(away) < 4.9 * result["far_second_stderr"].values)
    assert np.all(result["far_second_stderr"].values < [0.1, 0.01])
    assert list(result["far_second_estimator"].values) == ["finite differences", "mixed"]
    changes = {"observe.far": "sqrt((integral(x) - K)**2)", "ensemble.paths": 8}
    held = simkit.sensitivity(rooted, overrides=changes)["far_second_reason"].values
    assert held[1] == "the slope jumps, and x moves the integral along the path at once, before any noise"
    model = {"sde": {"x": {"drift": "sqrt((x - K)**2)", "noise": {"W": 1.0}}}}
    result = simkit.sensitivity(rooted | {"model": model}, overrides={"observe": None, "ensemble.paths": 8})
    assert list(result["x_second_estimator"].values) == ["finite differences"] * 2


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


@pytest.mark.parametrize(
    ("text", "jumps", "kinks"),
    [
        ("S * t", "", ""),
        ("maximum(S - K, 0)", "", "S K"),
        ("where(S > K, v, t)", "S K", ""),
        ("exp(v) * (S > 1) + abs(t)", "S", "t"),
        ("floor(S) + mean(v)", "S", ""),
        ("mean(S > K) * max(v)", "S K", "v"),
        ("(max(S) < 2) * t", "S", "S"),
        ("sqrt(S/K) + (2*v)**0.5 + sqrt(exp(t) + S)", "", ""),
        ("sqrt((S - K)**2) + v", "", "S K"),
        ("((S - K)*(S - K))**0.5", "", "S K"),
        ("sqrt(1 - cos(v)) * S", "", "v"),
        ("mean(sqrt(v**2))", "", "v"),
    ],
)
def test_expressions_say_where_they_jump(text, jumps, kinks):
    result = compile_expression(text, ["S", "v", "K", "t"], functionals=True)
    assert result.discontinuities.jumps == frozenset(jumps.split())
    assert result.discontinuities.kinks == frozenset(kinks.split())


def test_binding_single_places():
    simulation = load(EXACT)
    assert simulation.bind is not None
    assert simulation.targets == {
        "r": 0.05, "K": 100.0, "model.mu": 0.05, "model.sigma": 0.2, "initial.S": 100.0,
        "time.t0": 0.0, "time.t1": 1.0,
    }  # fmt: skip
    bound = simulation.bind({"model.mu": 0.1, "initial.S": 90.0, "time.t1": 2.0})
    assert (bound.problem.mu, bound.observer.constants["r"]) == (0.1, 0.05)
    assert (bound.initial, bound.grid.dt) == ({"S": 90.0}, 2.0)
    slope = jax.grad(lambda r: simulation.bind({"r": r}).problem.mu)(0.05)
    assert slope == 1
    with pytest.raises(KeyError, match=r"nothing is called 'model\.s'"):
        simulation.bind({"model.s": 1.0})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("wrt", ["sgima"], r"sensitivity.wrt\[0\]: unknown name 'sgima'; did you mean 'sigma'\?"),
        ("wrt", ["r", "r"], r"sensitivity.wrt\[1\]: r is there twice"),
        ("wrt", ["mu", "model.mu"], r"sensitivity.wrt\[1\]: model.mu is mu, which is there already"),
        ("of", ["call", "call"], r"sensitivity.of\[1\]: call is there twice"),
        ("of", ["cal"], r"sensitivity.of\[0\]: unknown name 'cal'; did you mean 'call'\?"),
        ("second", ["K"], r"sensitivity.second\[0\]: 'K' is not in wrt"),
        ("wrt", [], r"sensitivity.wrt: must be a list of names such as \[S, v\], got an empty list"),
        ("second", [], r"sensitivity.second: must be a list of names .*, got an empty list"),
        ("second", [["S"]], r"sensitivity.second: \[0\] must be a name or a pair such .*, got \['S'\]$"),
        ("second", ["S", ["S", "r", "K"]], r"sensitivity.second: \[1\] must be .*, got \['S', 'r', 'K'\]$"),
        ("check", "maybe", r"sensitivity.check: must be true or false, got 'maybe'$"),
        ("method", "scores", r"sensitivity.method: must be auto or pathwise .*did you mean 'score'\?"),
        ("wrong", 1, r"sensitivity.wrong: unknown key"),
    ],
)
def test_bad_input_is_named(key, value, message):
    with pytest.raises(InputError, match=message):
        load({**EXACT, "sensitivity": {"wrt": ["S"], "of": ["call"], key: value}})


@pytest.mark.more
def test_quantities_stand_in_the_order_of_the_file():
    """Whatever programs give them: those of one estimator come together."""
    names = ["plain", "digital", "square", "above"]
    observe = dict(zip(names, ["S", "where(S > 100, 1, 0)", "S**2", "where(S > 90, 1, 0)"], strict=True))
    experiment = {**EXACT, "observe": observe, "sensitivity": {"wrt": ["S"]}}
    result = simkit.sensitivity(experiment, overrides={"ensemble.paths": 64})
    assert result.attrs["quantities"].split() == names
    reverse = {**experiment, "sensitivity": {"wrt": ["S"], "of": names[::-1]}}
    result = simkit.sensitivity(reverse, overrides={"ensemble.paths": 64})
    assert result.attrs["quantities"].split() == names[::-1]


def test_bad_names_are_shown_as_they_were_given(tmp_path):
    with pytest.raises(InputError, match=r"(?m)^wrt: sensitivity.wrt\[0\]: unknown name 'sgima'"):
        simkit.sensitivity(EXACT, "sgima")
    (tmp_path / "e.yaml").write_text(json.dumps(EXACT | {"output": "e.zarr"}))
    outcome = CliRunner().invoke(app, ["sensitivity", str(tmp_path / "e.yaml"), "--wrt", "sgima"])
    assert outcome.exit_code == 2
    assert "\n--wrt: sensitivity.wrt[0]: unknown name 'sgima'" in outcome.stderr


def test_a_method_that_would_be_wrong_is_placed_in_the_file(tmp_path):
    file = tmp_path / "digital.yaml"
    file.write_text(
        "model: {type: GBM, mu: 0.05, sigma: 0.2}\ninitial: {S: 100}\ntime: {t1: 1, steps: 4}\n"
        "observe: {digital: S > 100}\nsensitivity: {wrt: [S], method: pathwise}\n"
    )
    with pytest.raises(
        InputError, match=r"digital.yaml:5:33: sensitivity.method: the pathwise derivative of"
    ):
        simkit.sensitivity(file)


def test_a_curve_has_no_single_number_to_move():
    curved = {**EXACT, "solver": "EulerMaruyama", "time": {"t1": 1.0, "steps": 4}}
    curved["curves"] = {"vol": {"times": [0, 1], "values": [0.1, 0.3]}}
    curved["model"] = {"type": "GBM", "mu": "r", "sigma": "vol"}
    with pytest.raises(InputError, match="sigma changes with time; use the constants"):
        load(curved)


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


@pytest.mark.slow
def test_an_extreme_that_may_be_the_initial_value_is_not_released():
    """Of the largest of ten values, and of the first: two second derivatives of its mean."""
    experiment = {
        "model": {"type": "OrnsteinUhlenbeck", "theta": 2.0, "mu": 1.0, "sigma": 0.5},
        "initial": {"X": 1.2},
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 2**17, "seed": 1},
        "observe": {"high": "max(X)"},
        "sensitivity": {"wrt": ["X", "sigma"], "second": ["X", ["X", "sigma"]], "check": True},
    }
    result = simkit.sensitivity(experiment)
    assert list(result["high_second_estimator"].values) == ["finite differences", "mixed"]
    assert abs(float(result["high_second_z"][1])) < 4
    assert abs(float(result["high_second"][0]) - 0.83) < 0.06


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
    assert (tmp_path / "e.zarr").exists()
    assert (tmp_path / "e.png").exists()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 4
    shown = CliRunner().invoke(app, ["sensitivity", "e.yaml", "--quiet", "--set", "sensitivity=null"])
    assert shown.exit_code == 2
    assert "sensitivity: is missing" in shown.output


@pytest.mark.more
@pytest.mark.parametrize(
    ("method", "estimators"),
    [
        ("auto", ("coupled differences", "score")),
        ("score", ("score", "score")),
        ("weak_derivative", ("weak derivative", "weak derivative")),
        ("coupled_differences", ("coupled differences", "coupled differences")),
    ],
)
def test_counts_by_copies_and_by_likelihood(method, estimators):
    """X is Poisson with the mean m = (alpha/mu) (1 - e^(-mu t)): dP(X > n)/dm is its probability of n."""
    alpha, mu, t, n = 10.0, 0.5, 5.0, 18
    network = {
        "model": {"type": "ImmigrationDeath", "alpha": alpha, "mu": mu},
        "initial": {"X": 0},
        "time": {"t1": t},
        "ensemble": {"paths": 8192, "seed": 1, "devices": 1},
        "observe": {"square": "X**2", "many": f"X > {n}"},
        "sensitivity": {"wrt": ["alpha", "mu"], "of": ["square", "many"], "method": method},
    }
    left = np.exp(-mu * t)
    m = alpha / mu * (1 - left)
    slopes = np.array([m / alpha, -m / mu + alpha / mu * t * left])
    exact = {"square": (1 + 2 * m) * slopes, "many": np.exp(n * np.log(m) - m - gammaln(n + 1)) * slopes}
    result = simkit.sensitivity(network)
    for (name, values), estimator in zip(exact.items(), estimators, strict=True):
        assert set(result[f"{name}_derivative_estimator"].values) == {estimator}
        z = (result[f"{name}_derivative"].values - values) / result[f"{name}_derivative_stderr"].values
        assert np.all(abs(z) < 4), name


def test_copies_are_refused_where_there_are_none():
    network = {
        "model": {"type": "ImmigrationDeath", "alpha": 1.0, "mu": 0.0},
        "initial": {"X": 0},
        "time": {"t1": 1.0},
        "ensemble": {"paths": 8, "devices": 1},
        "sensitivity": {"wrt": ["mu"]},
    }
    diffusion = {**EXACT, "sensitivity": {"wrt": ["sigma"]}}
    for experiment, method, settings, reason in (
        (network, "coupled_differences", {}, "mu = 0 may be the end of its range"),
        (network, "weak_derivative", {"solver": "TauLeaping"}, "TauLeaping takes many events at once"),
        (network, "weak_derivative", {"sensitivity.wrt": ["t1"]}, "t1 moves the times of the rows"),
        (diffusion, "coupled_differences", {}, "only copies of a reaction network fire together"),
        (diffusion, "weak_derivative", {}, "sigma moves no rate of jumps"),
    ):
        with pytest.raises(
            InputError, match=rf"sensitivity.method: no {method.replace('_', ' ')} .*: {reason}"
        ):
            simkit.sensitivity(experiment, overrides={"sensitivity.method": method, **settings})


@pytest.mark.more
def test_the_number_of_jumps_of_a_jump_diffusion():
    """By the rate of Merton's jumps, of which a path alone knows nothing: against his formula."""
    jumps = {
        "constants": {"r": 0.05, "rate": 0.8},
        "model": {"type": "Merton", "mu": "r", "sigma": 0.2, "lam": "rate", "m": -0.1, "delta": 0.15},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 2**15, "seed": 2, "devices": 1},
        "observe": {"put": "exp(-r*t) * maximum(100 - S, 0)"},
        "sensitivity": {"wrt": ["rate", "r"]},
    }
    result = simkit.sensitivity(jumps)
    assert list(result["put_derivative_estimator"].values) == ["weak derivative", "pathwise"]

    def put(rate, r):
        call = merton_call(S=100, K=100, r=r, sigma=0.2, T=1, lam=rate, m=-0.1, delta=0.15)
        return call - 100 + 100 * np.exp(-r)

    h = 1e-4
    exact = [
        (put(0.8 + h, 0.05) - put(0.8 - h, 0.05)) / (2 * h),
        (put(0.8, 0.05 + h) - put(0.8, 0.05 - h)) / (2 * h),
    ]
    z = (result["put_derivative"].values - exact) / result["put_derivative_stderr"].values
    assert np.all(abs(z) < 4)
    assert np.all(result["put_derivative_stderr"].values < 0.03 * np.abs(exact))


@pytest.mark.slow
def test_equations_that_jump_have_no_pathwise_derivative():
    """Along a path a switch changes sides with no derivative: what it does to the mean would be missing."""
    switched = {
        "constants": {"a": 1.5, "c": 0.1},
        "model": {"sde": {"x": {"drift": "where(x > c, -a, a)", "noise": {"W": 1.0}}}},
        "initial": {"x": 0.5},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 8},
        "ensemble": {"paths": 2**15, "seed": 4, "devices": 1},
        "sensitivity": {"wrt": ["a", "c"]},
    }
    given, checked = (
        simkit.sensitivity(switched, overrides={"sensitivity.method": method})
        for method in ("auto", "finite_differences")
    )
    assert list(given["x_derivative_estimator"].values) == ["score", "finite differences"]
    slopes, errors = (
        [d[f"x_derivative{kind}"].values[:, -1] for d in (given, checked)] for kind in ("", "_stderr")
    )
    assert abs(slopes[0][0] - slopes[1][0]) < 4 * np.hypot(errors[0][0], errors[1][0])
    assert abs(slopes[0][0]) > 10 * errors[0][0]
    assert slopes[0][1] > 0.5


def test_early_exercise_of_a_value_that_jumps_is_not_pathwise():
    early = {
        "constants": {"r": 0.05},
        "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "observe": {"hit": {"value": "exp(-r*t) * (S < 95)", "early_exercise": {"dates": 4, "basis": ["S"]}}},
        "sensitivity": {"wrt": ["S"]},
    }
    simulation = load(early)
    with jax.enable_x64(True):
        run = DifferentiatedRun.of(simulation, [find_target(simulation, "S")])
        assert first_offer(run, "hit", 0).rivals[0].method == "finite differences"


@pytest.mark.parametrize(
    ("model", "rates"),
    [
        ({"type": "Merton", "lam": "c", "m": -0.1, "delta": 0.15}, True),
        ({"type": "Merton", "lam": 0.8, "m": -0.1, "delta": "c"}, False),
        ({"type": "Kou", "lam": 2.0, "p": "c", "eta1": 10.0, "eta2": 5.0}, True),
    ],
)
def test_what_moves_the_number_of_jumps_is_neither_pathwise_nor_a_score(model, rates):
    """A path holds its jumps fixed, and a weight is of normals: both miss the rate and the kinds of jumps."""
    given = {
        "constants": {"c": 0.4},
        "model": {**model, "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "observe": {"price": "S", "above": "S > 100"},
        "sensitivity": {"wrt": ["c"]},
    }
    simulation = load(given)
    with jax.enable_x64(True):
        run = DifferentiatedRun.of(simulation, [find_target(simulation, "c")])
        chosen = [first_offer(run, name, 0).rivals[0].method for name in ("price", "above")]
    assert chosen == (["weak derivative", "finite differences"] if rates else ["pathwise", "smoothing"])


def test_the_score_of_few_counts_leaves_each_out_of_its_own_mean():
    """In a leaf of three lanes: (f_i - the mean of the others) Z_i, and what changes with it."""
    value, change, score = np.random.default_rng(0).standard_normal((3, 2, 3))
    change_of_path, weight = (jnp.asarray(x) for x in (change, score))
    (derivative,) = Contribution(jnp.asarray(value), (change_of_path,), (weight,)).derivatives
    others = (value.sum(-1, keepdims=True) - value) / 2
    assert np.asarray(derivative) == pytest.approx(change + (value - others) * score, abs=1e-12)


def run_of(experiment, label) -> DifferentiatedRun:
    """The run of an experiment with one target."""
    simulation = load(experiment)
    return DifferentiatedRun.of(simulation, [find_target(simulation, label)])


def test_no_score_where_the_end_of_time_moves_the_condition():
    """What moves the level, or the times of what is compared with it, is in no weight of the path."""
    wanted = {
        "S > 100*exp(0.05*t)": "t1 is in the condition itself",
        "mean(S) > 100": "t1 moves the times at which the path is observed",
        "max(S) < 120": "t1 moves the times at which the path is observed",
    }
    names = {f"value{i}": text for i, text in enumerate(wanted)}
    with jax.enable_x64(True):
        run = run_of({**STEPS, "observe": names, "sensitivity": {"wrt": ["t1"]}}, "t1")
        results = {text: release_interval(run, name, 0, kinks=False) for name, text in names.items()}
    assert results == wanted


def test_an_event_that_jumps_makes_paths_jump():
    """A path does not show how many more are cut as the level of the cut moves."""
    given = {**STEPS, "observe": {"digital": "S**2"}}
    results = []
    for after in ("where(S > K, 0.9*S, S)", "S*K/101"):
        cut = {"cut": {"at": 0.5, "set": {"S": after}}}
        with jax.enable_x64(True):
            run = run_of({**given, "events": cut}, "K")
            results.append((name_in_condition(run, 0), why_discontinuous(run, "digital", 0) is not None))
    assert results == [("S", True), (None, False)]


@pytest.mark.parametrize(
    "changed",
    [
        {"observe": {"digital": "max(S) < 110 + 10*t"}},
        {"observe": {"digital": "max(S) < 110"}, "events": {"fee": {"at": 0.5, "set": {"S": "0.9*S"}}}},
    ],
)
def test_an_extreme_is_not_smoothed_against_what_changes_with_time(changed):
    """Each value would be compared with the level of its own time, or lost to an event before the last."""
    with jax.enable_x64(True):
        reason = smooth(run_of({**STEPS, **changed}, "S"), "digital", (0,), False)
    assert reason == "an extreme is compared with what changes with time"


def test_failed_paths_are_known_by_their_ids_in_every_chunk():
    """Of three chunks of four paths, the last one partly empty; the means are those of the others."""
    plan, reduction = Chunks(10, 1, 4), MomentsReduction((1,))

    def simulate(ids):
        value = jnp.asarray(ids, jnp.float64)
        return (jnp.where((ids % 4 == 1) | (ids == 6), jnp.nan, value)[None],)

    result = average(simulate, reduction, plan, workers_on(local_devices(1), 2))
    assert list(result.failed) == [1, 5, 6, 9]
    assert result.mean[0] == pytest.approx(np.mean([0, 2, 3, 4, 7, 8]))
    later = Chunks(5, 1, 4, first=3)
    of_later_policy = average(simulate, reduction, later, workers_on(local_devices(1), 2))
    assert list(of_later_policy.failed) == [5, 6]
    assert of_later_policy.mean[0] == pytest.approx(np.mean([3, 4, 7]))


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


def test_coupled_copies_are_so_close_that_their_bias_is_small():
    """Of a mean that grows by e^5, (m(c + h) - m(c - h)) / 2h is off by less than a thousandth."""
    for rate in (0.1, 5.0):
        h, t = step_of(Target("rate", "model.rate", rate, "", rate), COUPLED), 5.0 / rate
        bias = np.sinh(h * t) / (h * t) - 1
        assert 1e-5 < bias < 1e-3


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
