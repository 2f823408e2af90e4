"""Derivatives agree with differences, in both modes, and are shown next to them."""

import io

import numpy as np
import pytest
from derivative_examples import EXACT, STEPS

import simkit
from simkit.derivatives.table import notes, print_table, summary


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
    assert "not confirmed" not in text.getvalue()
    result["y_derivative_check"][0] = 1.25
    print_table(result, text := io.StringIO())
    assert " -20 % ! " in text.getvalue()
    assert " off by " in text.getvalue()
    assert "! not confirmed: y by a: finite differences on the same paths give another" in text.getvalue()


@pytest.mark.parametrize(("off", "said"), [(0.005, False), (0.02, True)])
def test_a_derivative_without_noise_may_be_off_by_a_hundredth(off, said):
    result = simkit.sensitivity(
        {
            "model": {"ode": {"x": "a"}, "parameters": {"a": 0.5}},
            "initial": {"x": 0.0},
            "time": {"t1": 1.0, "steps": 10},
            "sensitivity": {"wrt": ["a"], "check": True},
        }
    )
    result["x_derivative_check"][0] = 1 + off
    assert any("not confirmed: x by a" in line for line in notes(result)) == said


@pytest.mark.parametrize(
    "changes",
    [
        {"time": {"t1": 10.0, "rtol": 1e-3, "atol": 1e-6}, "model": {"ode": {"x": "-k*x + sin(5*t)"}}},
        {"time": {"t1": 30.0, "rtol": 1e-8, "atol": 1e-12}, "model": {"ode": {"x": "-k*x"}}},
    ],
)
def test_noise_of_tolerances_in_the_differences_marks_no_derivative(changes):
    experiment = {
        "constants": {"k": 1.0},
        "initial": {"x": 1.0},
        "observe": {"y": "1e6*x"},
        "sensitivity": {"wrt": ["k"], "check": True},
    }
    assert not any("not confirmed" in line for line in notes(simkit.sensitivity(experiment | changes)))


@pytest.mark.parametrize(("z", "said"), [(3.9, False), (-4.1, True), (4.1, True)])
def test_a_derivative_many_errors_from_its_check_is_marked(z, said):
    result = simkit.sensitivity(
        {
            "constants": {"a": 0.5},
            "model": {"sde": {"x": {"drift": "a", "noise": {"W": 1.0}}}},
            "initial": {"x": 0.0},
            "time": {"t1": 1.0, "steps": 4},
            "ensemble": {"paths": 64, "seed": 1},
            "observe": {"y": "x**2"},
            "sensitivity": {"wrt": ["a"], "check": True},
        }
    )
    result["y_derivative_z"][0] = z
    print_table(result, text := io.StringIO())
    assert (f" {z:+.1f} ! " in text.getvalue()) == said
    assert ("! not confirmed: y by a:" in text.getvalue()) == said


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
