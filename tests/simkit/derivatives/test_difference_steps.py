"""Finite differences know whether their steps are too long, and take shorter ones."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, poisson

from simkit import sensitivity
from simkit.derivatives.differences import (
    first_difference,
    is_too_long,
    mixed_difference,
    second_difference,
    shortest,
)

STEPS, T1, NARROW = 20, 1.0, 1e-3
PULLED = {
    "constants": {"m": 0.0},
    "model": {"sde": {"X": {"drift": "-(X - m)", "noise": {"W": NARROW}}}},
    "initial": {"X": 0.0},
    "time": {"t1": T1, "steps": STEPS},
    "ensemble": {"paths": 20_000, "seed": 4, "devices": 1},
    "observe": {"above": "X > 0.0005"},
    "sensitivity": {"wrt": ["m"], "method": "finite_differences"},
}
coefficients = st.lists(st.floats(-3, 3), min_size=3, max_size=3)


def applied(weights, points, f, *steps):
    return sum(
        w * f(*(m * h for m, h in zip(at, steps, strict=True))) for w, at in zip(weights, points, strict=True)
    )


@given(coefficients, st.sampled_from([0, 1, -1]))
def test_the_lower_order_is_a_difference_itself(numbers, side):
    """Exact for polynomials of its own degree, and off by its leading error beyond."""
    a, b, c = numbers
    h = 0.01
    first, second = first_difference(h, side), second_difference(h, side)
    assert applied(first.lower_order, first.points, lambda x: a + b * x + c * x * x, h) == pytest.approx(
        b, abs=1e-9
    )
    assert applied(second.lower_order, second.points, lambda x: a + b * x + c * x * x, h) == pytest.approx(
        2 * c, abs=1e-7
    )
    off = applied(first.lower_order, first.points, lambda x: x**3, h)
    assert off == pytest.approx(h**2 * (-2 if side else 1), rel=1e-6)
    power, beyond = (3, 6 * side * h) if side else (4, 2 * h**2)
    off = applied(second.lower_order, second.points, lambda x: x**power, h)
    assert off == pytest.approx(beyond, rel=1e-6)


def test_central_differences_are_exact_for_quartics():
    first, second, mixed = first_difference(0.1), second_difference(0.1), mixed_difference((0.1, 0.2))

    def curve(x):
        return 2 + 3 * x - 5 * x**2 + 7 * x**3 + 11 * x**4

    assert applied(first.weights, first.points, curve, 0.1) == pytest.approx(3)
    assert applied(second.weights, second.points, curve, 0.1) == pytest.approx(-10)
    assert applied(mixed.weights, mixed.points, lambda x, y: (2 * x - x**3) * (y + y**2), 0.1, 0.2) == (
        pytest.approx(2)
    )


@pytest.mark.parametrize("sides", [(0, 0), (1, -1), (-1, -1)])
def test_the_lower_order_in_two_targets(sides):
    h = 0.01, 0.02
    mixed = mixed_difference(h, sides)
    assert applied(
        mixed.lower_order, mixed.points, lambda x, y: 2 + 3 * x - y + 5 * x * y, *h
    ) == pytest.approx(5)
    off = applied(mixed.lower_order, mixed.points, lambda x, y: x**3 * y, *h)
    assert off == pytest.approx(h[0] ** 2, rel=1e-6)


@pytest.mark.parametrize(
    ("mean", "stderr", "difference", "difference_stderr", "rounding", "too_long"),
    [
        (29.0, 0.0, -4.0, 0.0, 0.0, True),
        ([1.0, 0.0], [0.01, 0.1], [0.0, 9.0], [0.1, 0.1], [0.0, 0.0], True),
        (29.0, 1.0, -4.0, 0.1, 0.0, False),  # the error is below the noise
        (29.0, 0.1, -4.0, 1.1, 0.0, False),  # and here what shows it is
        (29.0, 0.0, -4.0, 0.0, 5.0, False),
        (1.0, np.nan, 0.02, np.nan, 0.0, False),  # of one path: negligible
    ],
)
def test_a_step_is_too_long_where_orders_differ_by_more_than_noise_explains(
    mean, stderr, difference, difference_stderr, rounding, too_long
):
    figures = (np.atleast_1d(x) for x in (mean, stderr, difference, difference_stderr, rounding))
    assert is_too_long(*figures) is too_long


@pytest.mark.slow
def test_a_target_of_0_has_steps_that_its_paths_can_follow():
    """The paths spread by a thousandth, and steps of 0.02 would carry all of them across."""
    result = sensitivity(PULLED)
    decay = (1 - T1 / STEPS) ** STEPS
    sd = NARROW * math.sqrt(T1 / STEPS * (1 - decay**2) / (1 - (1 - T1 / STEPS) ** 2))
    wanted = (1 - decay) * norm.pdf(0.0005 / sd) / sd
    value, error = (result[f"above_derivative{part}"].item() for part in ("", "_stderr"))
    assert abs(value - wanted) < 4 * error
    assert 0.003 * wanted < error < 0.05 * wanted
    assert result["above_derivative_step_error"].item() < 2 * error


@pytest.mark.slow
def test_a_value_that_no_path_reaches_has_no_slope():
    """Of steps to 0.04 alone the longest would, and give a slope of the wrong sign."""
    result = sensitivity({**PULLED, "observe": {"above": "X > 0.03"}})
    assert result["above_derivative"].item() == 0
    assert result["above_derivative_step_error"].item() == 0


@pytest.mark.more
@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_a_smooth_value_that_bends_within_a_step(precision):
    experiment = {
        "constants": {"m": 0.0},
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 10},
        "precision": precision,
        "observe": {"wave": "x*sin(1000*m)", "line": "3*m*x", "above": "2 + m*x"},
        "sensitivity": {"wrt": ["m"], "method": "finite_differences"},
    }
    result = sensitivity(experiment)
    x = math.exp(-1)
    exact, step = result["wave_derivative"].item(), result["wave_derivative_step_error"].item()
    assert exact == pytest.approx(1000 * x, rel=1e-3)
    assert abs(exact - 1000 * x) < step
    assert result["line_derivative"].item() == pytest.approx(3 * x, rel=1e-5)
    assert result["line_derivative_step_error"].item() < 1e-5
    alone = sensitivity({**experiment, "sensitivity": {**experiment["sensitivity"], "of": ["above"]}})
    assert alone["above_derivative"].item() == result["above_derivative"].item()  # its steps stay long


@pytest.mark.more
def test_steps_in_time_are_fractions_of_its_length():
    experiment = {
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": 1.0},
        "solver": "Tsit5",
        "time": {"t0": 1000.0, "t1": 1001.0, "steps": 20},
        "sensitivity": {"wrt": ["t1", "t0"], "method": "finite_differences"},
    }
    result = sensitivity(experiment)["x_derivative"].values[:, -1]
    assert result == pytest.approx([-math.exp(-1), math.exp(-1)], rel=1e-7)


def test_steps_of_values_with_noise_stay_long():
    """A digital on paths that spread as far as the target itself: the error is that of 2 % steps."""
    experiment = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 4000, "seed": 2, "devices": 1},
        "solver": "ExactSampling",
        "observe": {"digital": "S > 100"},
        "sensitivity": {"wrt": ["S"], "method": "finite_differences"},
    }
    result = sensitivity(experiment)
    z = np.random.default_rng(1).standard_normal(10**6)
    h = 2.0
    up = [(s * np.exp(0.03 + 0.2 * z) > 100) for s in (100 + h, 100 - h, 100 + 2 * h, 100 - 2 * h)]
    sd = np.std((8.0 * up[0] - 8.0 * up[1] - up[2] + up[3]) / (12 * h))
    assert result["digital_derivative_sd"].item() == pytest.approx(sd, rel=0.1)


@pytest.mark.slow
def test_differences_on_adaptive_steps_have_the_error_of_both():
    """That of their own steps, and that of the tolerances, which a difference divides by its step."""
    experiment = {
        "model": {"type": "VanDerPol", "mu": 1.5},
        "initial": {"x": 2.0, "v": 0.0},
        "solver": "Tsit5",
        "time": {"t1": 3.0, "rtol": 1e-3, "atol": 1e-4},
        "sensitivity": {"wrt": ["mu", "x"], "of": ["x"]},
    }
    coarse = sensitivity(
        {**experiment, "sensitivity": {**experiment["sensitivity"], "method": "finite_differences"}}
    )
    fine = sensitivity({**experiment, "time": {"t1": 3.0, "rtol": 1e-10, "atol": 1e-11}})
    off = np.abs(coarse["x_derivative"].values - fine["x_derivative"].values)[:, -1]
    assert np.all(off > 1e-4)
    assert np.all(off < 3 * coarse["x_derivative_step_error"].values[:, -1])


def test_no_step_is_too_short_for_the_precision():
    assert shortest("float64") == 1e-7
    assert 1e-4 < shortest("float32") < 1e-3


def test_rounding_is_no_reason_for_shorter_steps():
    """What does not change with a target has a derivative of 0, and what does by rounding alone nearly so."""
    experiment = {
        "constants": {"m": 0.0, "n": 0.0},
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 10},
        "observe": {"rounded": "1e6*x + sin(1e3*m) * 3e-10", "other": "0.7*x + n"},
        "sensitivity": {"wrt": ["m"], "method": "finite_differences"},
    }
    result = sensitivity(experiment)
    assert result["other_derivative"].item() == 0
    assert result["rounded_derivative"].item() == pytest.approx(3e-7, rel=0.3)


@pytest.mark.slow
def test_copies_with_too_large_a_difference_come_closer(monkeypatch):
    """Poisson's P(N > n): at 0.8 sd to either side a difference is off by 10 %, at 0.2 sd by 0.7 %."""
    monkeypatch.setattr("simkit.derivatives.derivative_part.coupled_part.__defaults__", (0.04,))
    mean = 400
    result = sensitivity(
        {
            "constants": {"c": float(mean)},
            "model": {"reactions": {"arrival": {"equation": "0 -> N", "rate": "c"}}},
            "initial": {"N": 0},
            "time": {"t1": 1.0},
            "ensemble": {"paths": 2**14, "seed": 3, "devices": 1},
            "observe": {"many": f"N > {mean}"},
            "sensitivity": {"wrt": ["c"], "method": "coupled_differences"},
        }
    )
    figures = (result[f"many_derivative{x}"].item() for x in ("", "_stderr", "_step_error"))
    slope, error, left = figures
    exact = poisson.pmf(mean, mean)
    h = 0.01 * mean
    bias = (poisson.sf(mean, mean + h) - poisson.sf(mean, mean - h)) / (2 * h) - exact
    assert abs(slope - exact - bias) < 4 * error
    assert 0.01 * exact < error < 0.03 * exact
    assert left == pytest.approx(abs(bias), abs=0.3 * error)
    assert bias == pytest.approx(-0.0066 * exact, rel=0.1)
