"""Derivatives of equations that have a kink, which no path shows."""

import math

import pytest
from derivative_examples import LIMIT, derivative, first_choice, second_choice
from scipy.stats import norm

from simkit import InputError, sensitivity

BENT = {
    "constants": {"b": 0.5},
    "model": {"sde": {"X": {"drift": "-maximum(X - b, 0)", "noise": {"W": 1.0}}}},
    "initial": {"X": 0.0},
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
    "observe": {"end": "X"},
}


@pytest.mark.slow
def test_a_kink_of_the_equations_is_in_second_derivatives():
    """In two steps of 1/2 the drift is -E[max(Z/sqrt(2) - b, 0)]/2: its second derivative is a density."""
    wanted = -0.5 * math.sqrt(2) * norm.pdf(0.5 * math.sqrt(2))
    estimate, error, estimator, reason = derivative(BENT, "b", "end", "second")
    assert (estimator, reason) == ("finite differences", "the slope of the equations jumps with X")
    assert abs(estimate - wanted) < LIMIT * error
    assert error < 0.2 * abs(wanted)


@pytest.mark.more
def test_a_kink_of_an_ordinary_equation_is_in_second_derivatives():
    """x' = 1 + 3 max(x - b, 0) is b + (e^(3 (1 - b)) - 1)/3 at t = 1."""
    experiment = {
        "constants": {"b": 0.5},
        "model": {"ode": {"x": "1 + 3*maximum(x - b, 0)"}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 1000},
        "solver": "Heun",
    }
    estimate, *_ = derivative(experiment, "b", "x", "second")
    assert estimate == pytest.approx(3 * math.exp(1.5), rel=0.01)


@pytest.mark.slow
def test_a_kink_that_one_of_two_parameters_leaves_alone_bends_nothing():
    """The variance of Heston's model is cut off at zero, and the price does not move it."""
    experiment = {
        "model": {"type": "Heston", "mu": 0.0, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.5},
        "initial": {"S": 100.0, "v": 0.04},
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 64, "seed": 1, "devices": 1},
        "observe": {"price": "S**2"},
        "sensitivity": {"wrt": ["S", "v"], "second": ["S", ["S", "v"], "v"]},
    }
    result = sensitivity(experiment)
    chosen = dict(zip(result["pair"].values, result["price_second_estimator"].values, strict=True))
    assert chosen == {"S, S": "pathwise", "S, v": "pathwise", "v, v": "finite differences"}


@pytest.mark.parametrize(
    ("changed", "quantity"),
    [
        ({}, "price"),
        ({}, "digital"),
        ({}, "call"),
        ({"model": {"type": "BirthDeath", "birth_rate": 1, "death_rate": 1}, "initial": {"X": 9}}, "X"),
    ],
)
def test_no_second_derivative_goes_through_a_root_that_is_cut_off(changed, quantity):
    """Of a price, where it jumps and where it bends, and of the chemical Langevin equation."""
    experiment = {
        "model": {"type": "Heston", "mu": 0.0, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.5},
        "initial": {"S": 100.0, "v": 0.04},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 2},
        "observe": {"price": "S**2", "digital": "S > 100", "call": "maximum(S - 100, 0)"},
        **changed,
    }
    if "initial" in changed:
        experiment["observe"] = {}
    wrt = "initial.X" if quantity == "X" else "v"
    chosen = second_choice(experiment, wrt, quantity)
    assert chosen.method == "finite differences"
    assert chosen.reason == f"the slope of the equations jumps with {wrt[-1]}"


def test_a_kink_of_a_rate_does_not_hide_the_roots_of_the_langevin_equation():
    reactions = {
        "help": {"equation": "0 -> X", "propensity": "maximum(Y - 5, 0)"},
        "loss": {"equation": "X -> 0", "rate": 1},
        "end": {"equation": "Y -> 0", "rate": 1},
    }
    experiment = {
        "model": {"reactions": reactions},
        "initial": {"X": 9, "Y": 9},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 2},
    }
    assert second_choice(experiment, "initial.X", "X").reason == "the slope of the equations jumps with X"


def test_a_kink_is_met_by_way_of_other_variables():
    chain = {"x": "a*x", "y": "x - y", "z": "maximum(y - 1, 0)"}
    experiment = {
        "constants": {"a": 1.0, "b": 1.0},
        "model": {"ode": {**chain, "w": "b*w"}},
        "initial": {"x": 1.0, "y": 0.0, "z": 0.0, "w": 1.0},
        "time": {"t1": 1.0, "steps": 10},
    }
    assert second_choice(experiment, "a", "z").reason == "the slope of the equations jumps with y"
    assert second_choice(experiment, "b", "z").method == "pathwise"


def test_a_state_variable_is_not_smoothed():
    with pytest.raises(InputError, match="a state variable does not jump where its equation does not"):
        derivative({**BENT, "observe": {}}, "b", "X", method="smoothing")


BROKEN = {
    "constants": {"x0": 0.0, "b": 0.2},
    "model": {"sde": {"X": {"drift": 0.0, "noise": {"W": "1 + abs(X - b)"}}}},
    "initial": {"X": "x0"},
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
    "observe": {"end": "X"},
}


@pytest.mark.parametrize(
    ("solver", "jumps"),
    [
        ("EulerMaruyama", False),
        ("DerivativeFreeMilstein", False),
        ("Milstein", True),
        ("ImplicitMilstein", True),
        ("ItoMilstein", True),
        ({"type": "StratonovichMilstein", "convert": True}, True),
        ({"type": "Heun", "convert": True}, True),
    ],
)
def test_where_the_noise_bends_steps_that_read_its_slope_jump(solver, jumps):
    chosen = first_choice({**BROKEN, "solver": solver}, "x0", "end")
    assert chosen.method == ("finite differences" if jumps else "pathwise")
    drift = {"sde": {"X": {"drift": "-abs(X - b)", "noise": {"W": "X"}}}}
    assert first_choice({**BROKEN, "model": drift, "solver": solver}, "x0", "end").method == "pathwise"


@pytest.mark.slow
def test_a_model_whose_noise_bends_jumps_in_a_converted_step():
    """The mean stays where it is, and paths of a converted model have a slope of 1.4 in their start."""
    converted = {**BROKEN, "solver": {"type": "Heun", "convert": True}}
    estimate, error, *_ = derivative(converted, "x0", "end")
    assert abs(estimate - 1) < LIMIT * error + 0.05
    assert error < 0.05


@pytest.mark.parametrize("name", ["CIR", "CEV"])
def test_square_roots_bend_at_zero(name):
    model = {
        "CIR": {"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": 0.3},
        "CEV": {"type": "CEV", "mu": 0.0, "sigma": 0.2, "beta": 0.5},
    }[name]
    start = {"r": 0.04} if name == "CIR" else {"S": 1.0}
    experiment = {**BROKEN, "constants": {}, "model": model, "initial": start, "observe": {}}
    for solver, method in (("Milstein", "finite differences"), ("EulerMaruyama", "pathwise")):
        assert first_choice({**experiment, "solver": solver}, "sigma", *start).method == method
