"""Derivatives of kinks, jumps and constants that no path shows: each was wrong without notice."""

import math

import jax
import numpy as np
import pytest
from derivative_examples import LIMIT, derivative
from scipy.stats import norm
from slow_cases import slow_but

from simkit import InputError, NumericalError, load, sensitivity, uncertainty
from simkit.derivatives import find_target
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.offers import first_offer, second_offer
from simkit.derivatives.targets import is_in_range

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


def run_of(experiment, wrt):
    """The run of an experiment with one target."""
    simulation = load({**experiment, "sensitivity": {"wrt": [wrt]}})
    return DifferentiatedRun.of(simulation, [find_target(simulation, wrt)])


def first_choice(experiment, wrt, quantity):
    """The estimator of a derivative."""
    with jax.enable_x64(True):
        return first_offer(run_of(experiment, wrt), quantity, 0).rivals[0]


def second_choice(experiment, wrt, quantity):
    """The estimator of a second derivative."""
    with jax.enable_x64(True):
        return second_offer(run_of(experiment, wrt), quantity, (0, 0)).rivals[0]


def test_of_a_uniform_distribution_the_lower_end_stays_in_the_range():
    experiment = {
        "constants": {"low": 0.0},
        "model": {"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": 0.3},
        "initial": {"r": {"uniform": ["low", 0.1]}},
        "time": {"t1": 1.0, "steps": 2},
    }
    with jax.enable_x64(True):
        simulation = load(experiment)
        targets = [find_target(simulation, "low")]
        assert [is_in_range(simulation, targets, [step]) for step in (0.001, -0.001)] == [True, False]


@pytest.mark.slow
def test_a_path_that_rests_where_the_value_jumps_has_no_weight():
    experiment = {
        "constants": {"c": 0.0},
        "model": {"sde": {"x": {"drift": "c", "noise": {"W": "x"}}}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 64, "seed": 1, "devices": 1},
        "observe": {"up": "x > 0"},
        "sensitivity": {"wrt": ["c"], "method": "smoothing"},
    }
    with pytest.raises(NumericalError, match="the noise vanishes where the path is observed"):
        sensitivity(experiment)


@pytest.mark.parametrize(
    ("changed", "wrt", "second"),
    [
        ({"model": {"ode": {"x": "where(t > tau, 1, 0)"}}}, "tau", False),
        ({"model": {"ode": {"x": "where(t > 0.45, 1, 0)"}}}, "time.t1", False),
        ({"model": {"ode": {"x": "where(c > 0.45, 1, 0)"}}}, "tau", False),
        ({"model": {"ode": {"x": "where(c > 0.45, 1, 0)"}}}, "time.t1", False),
        ({"observe": {"x_late": "integral(x*(t > tau))"}}, "tau", False),
        ({"observe": {"x_late": "max(where(t > tau, 2 - x, 0))"}}, "tau", False),
        ({"observe": {"x_late": "integral(maximum(t - tau, 0))"}}, "tau", True),
        ({"model": {"ode": {"x": "c"}}}, "tau", True),
        ({"model": {"ode": {"x": "c"}}}, "time.t1", True),
    ],
)
def test_conditions_on_time_do_not_move_against_steps(changed, wrt, second):
    """On ten steps nothing happens until one is passed."""
    experiment = {
        "constants": {"tau": 0.45},
        "curves": {"c": {"times": [0.0, "tau"], "values": [0.0, 1.0], "outside": "hold"}},
        "model": {"ode": {"x": "-x + 0*c"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "steps": 10},
        **changed,
    }
    section: dict = {"wrt": [wrt]}
    if second:
        section["second"] = [wrt]
    with pytest.raises(
        InputError, match=f"wrt: {wrt} shifts (a condition on [tc]|the knots of c) relative to"
    ):
        sensitivity({**experiment, "sensitivity": section})


@pytest.mark.slow
def test_adaptive_steps_see_a_condition_on_time():
    experiment = {
        "constants": {"tau": 0.45},
        "model": {"ode": {"x": "where(t > tau, 1, 0)"}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "rtol": 1e-8, "atol": 1e-8},
    }
    for wrt, wanted in (("tau", -1.0), ("time.t1", 1.0)):
        assert derivative(experiment, wrt, "x")[0] == pytest.approx(wanted, abs=1e-3)


STRIKE = {
    "constants": {"k": 1.0},
    "curves": {"K": {"times": [0, 1], "values": ["k", "k + 0.1"]}},
    "model": {"type": "GBM", "mu": 0.0, "sigma": 0.2},
    "initial": {"S": 1.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
}
D2 = (math.log(1 / 1.1) - 0.02) / 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("text", "kind"), [("S > K", "derivative"), ("maximum(S - K, 0)", "second")])
def test_a_strike_on_a_curve_is_in_the_condition(text, kind):
    wanted = norm.pdf(D2) / (1.1 * 0.2) * (-1 if kind == "derivative" else 1)
    estimate, error, estimator, _ = derivative({**STRIKE, "observe": {"value": text}}, "k", "value", kind)
    assert estimator == "smoothing"
    assert abs(estimate - wanted) < LIMIT * error < 0.1 * abs(wanted)
    if kind == "derivative":
        with pytest.raises(InputError, match="no score for value in k: k is in the condition itself"):
            derivative({**STRIKE, "observe": {"value": text}}, "k", "value", method="score")


CORRELATED = {
    "Heston": (
        {"type": "Heston", "mu": 0.0, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": 1.0},
        {"S": 1.0, "v": 0.04},
        "v*v",
    ),
    "SABR": ({"type": "SABR", "beta": 1.0, "nu": 0.4, "rho": -1.0}, {"F": 1.0, "alpha": 0.2}, "alpha**2"),
    "MultiAssetGBM": (
        {"type": "MultiAssetGBM", "size": 2, "mu1": 0, "mu2": 0, "sigma1": 0.2, "sigma2": 0.2, "rho12": 1.0},
        {"S1": 1.0, "S2": 1.0},
        "S2**2",
    ),
    "inline": (
        {
            "sde": {"X": {"drift": 0.0, "noise": {"W": 1.0}}, "Y": {"drift": 0.0, "noise": {"B": 1.0}}},
            "correlation": {"W-B": "rho"},
            "parameters": {"rho": 1.0},
        },
        {"X": 0.0, "Y": 0.0},
        "Y**2",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["inline", *slow_but((), ("Heston", "SABR", "MultiAssetGBM"))],
)
def test_at_a_correlation_of_one_the_other_noise_counts(name):
    """The distribution of one variable does not depend on its correlation with another."""
    model, initial, text = CORRELATED[name]
    experiment = {
        "model": model,
        "initial": initial,
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 2**12, "seed": 1, "devices": 1},
        "observe": {"square": text},
    }
    wrt = "rho12" if name == "MultiAssetGBM" else "rho"
    estimate, error, estimator, _ = derivative(experiment, wrt, "square")
    assert estimator == "finite differences"
    assert abs(estimate) < LIMIT * error
    inside = {**experiment, "model": {**model, wrt: 0.9}}
    if name == "inline":
        inside["model"] = {**model, "parameters": {"rho": 0.9}}
    assert derivative(inside, wrt, "square")[2] == "pathwise"


ARRIVALS = {
    "constants": {"T": 1.0, "alpha": 0.0},
    "model": {"type": "ImmigrationDeath", "alpha": "alpha", "mu": 1.0},
    "initial": {"X": 0},
    "time": {"t1": "T"},
    "ensemble": {"paths": 2**12, "seed": 1, "devices": 1},
    "observe": {"count": "X", "many": "X > 2"},
}


@pytest.mark.more
def test_at_a_rate_of_zero_one_event_more_tells():
    written = {
        "reactions": {
            "arrival": {"equation": "0 -> X", "rate": "alpha"},
            "loss": {"equation": "X -> 0", "rate": 1},
        }
    }
    for model in (ARRIVALS["model"], written):
        estimate, error, estimator, _ = derivative(
            {**ARRIVALS, "model": model, "initial": {"X": 2}}, "alpha", "count"
        )
        assert estimator == "weak derivative"
        assert abs(estimate - (1 - math.exp(-1))) < LIMIT * error < 0.1
    section = {"wrt": ["alpha"], "of": ["count"], "check": True}
    checked = sensitivity({**ARRIVALS, "model": written, "sensitivity": section})
    assert float(checked["count_derivative_check_stderr"][0]) > 0
    assert abs(float(checked["count_derivative_z"][0])) < LIMIT
    # From two molecules the third to come is one too many, if both live.
    estimate, error, estimator, _ = derivative({**ARRIVALS, "initial": {"X": 2}}, "alpha", "many")
    assert estimator == "weak derivative"
    wanted = math.exp(-2) * (1 - math.exp(-1))
    assert abs(estimate - wanted) < LIMIT * error < 0.25 * wanted
    with pytest.raises(NumericalError, match="there is no score: a rate of zero changes"):
        derivative(ARRIVALS, "alpha", "count", method="score")


def test_no_differences_at_a_rate_below_zero():
    """Of a reaction in the file, whose rate is an expression: paths failed there, and the run with them."""
    reactions = {
        "birth": {"equation": "X -> 2 X", "rate": "0.1 + alpha"},
        "loss": {"equation": "X -> 0", "rate": 1},
    }
    experiment = {**ARRIVALS, "model": {"reactions": reactions}, "initial": {"X": 9}}
    counted = {
        **reactions,
        "pair": {"equation": "2 X -> X", "propensity": "X - 1"},
    }  # not asked without counts
    with jax.enable_x64(True):
        run = run_of({**experiment, "model": {"reactions": counted}}, "alpha")
        steps = [is_in_range(run.simulation, run.targets, [step]) for step in (0.2, -0.05, -0.1, -0.11)]
    assert steps == [True, True, True, False]
    reactions["birth"]["rate"] = "alpha"
    given, error, estimator, _ = derivative(experiment, "alpha", "count", method="finite_differences")
    assert estimator == "finite differences"
    assert abs(given - 9 * math.exp(-1)) < LIMIT * error


@pytest.mark.slow
def test_leaps_have_no_path_to_put_one_event_more_into():
    leaping = {**ARRIVALS, "solver": "TauLeaping", "ensemble": {"paths": 2**9, "seed": 1, "devices": 1}}
    estimate, error, estimator, _ = derivative(leaping, "alpha", "count")
    assert estimator == "finite differences"
    assert abs(estimate - (1 - math.exp(-1))) < LIMIT * error
    assert error < 1


@pytest.mark.parametrize("wrt", ["T", "time.t1"])
def test_a_constant_that_is_the_end_of_time_moves_it(wrt):
    """Three arrive in a unit of time, and none leaves: the number is Poisson's."""
    constants = {"T": 101.0, "alpha": 3.0}
    later = {**ARRIVALS, "constants": constants, "time": {"t0": 100.0, "t1": "T"}}
    later["model"] = {**ARRIVALS["model"], "mu": 0.0}
    for of, wanted in (("count", 3.0), ("many", 3 * math.exp(-3) * 4.5)):
        estimate, error, estimator, _ = derivative(later, wrt, of)
        assert estimator == "finite differences"
        assert abs(estimate - wanted) < LIMIT * error
        assert error < 0.5
    with pytest.raises(InputError, match=f"no score for many in {wrt}: {wrt} moves the times of the rows"):
        derivative(later, wrt, "many", method="score")


def test_differences_in_time_are_of_the_size_of_a_run():
    """The integral of sin t over a second, a thousand seconds after 0."""
    experiment = {
        "model": {"ode": {"x": "sin(t)"}},
        "initial": {"x": 0.0},
        "time": {"t0": 1000.0, "t1": 1001.0, "steps": 8},
    }
    for wrt, wanted in (("t1", math.sin(1001)), ("t0", -math.sin(1000))):
        estimate, *_ = derivative(experiment, wrt, "x", method="finite_differences")
        assert estimate == pytest.approx(wanted, abs=1e-5)


@pytest.mark.slow
def test_differences_stay_where_there_is_a_distribution():
    experiment = {
        "constants": {"s": 0.0},
        "model": {"ode": {"x": "-x"}},
        "initial": {"x": {"normal": [1.0, "s"]}},
        "time": {"t1": 1.0, "steps": 4},
        "ensemble": {"paths": 256, "seed": 1, "devices": 1},
        "observe": {"square": "x*x"},
    }
    given, checked = (
        derivative(experiment, "s", "square", method=method)[0] for method in ("auto", "finite_differences")
    )
    assert checked == pytest.approx(given, rel=1e-6)


@pytest.mark.more
@pytest.mark.parametrize("text", ["(S > 110)*(S > 110)", "(S > 110)*(S - 110 > 0)"])
def test_a_condition_that_is_there_twice_is_one(text):
    """In float32 a matrix of two equal rows is singular where S is near the strike."""
    experiment = {
        "model": {"type": "GBM", "mu": 0.0, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 2**17, "seed": 1, "devices": 1},
        "precision": "float32",
        "observe": {"digital": text},
    }
    d = (math.log(100 / 110) - 0.02) / 0.2
    estimate, error, *_ = derivative(experiment, "S", "digital", method="smoothing")
    assert abs(estimate - norm.pdf(d) / 20) < LIMIT * error < 0.05 * estimate


@pytest.mark.more
def test_functionals_of_different_conditions_are_each_smoothed():
    """Both arguments have one condition, in the same variable and the same place, at different values."""
    times = np.array([0.25, 0.5, 0.75, 1.0])
    section = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "solver": "ExactSampling",
        "ensemble": {"paths": 20000, "devices": 1},
        "observe": {"q": {"value": "mean(S > 100) + mean(S > 120)"}},
    }
    estimate, stderr, estimator, _ = derivative(section, "initial.S", "q")
    deviations = 0.2 * np.sqrt(times)
    scores = [(np.log(100 / strike) + 0.03 * times) / deviations for strike in (100, 120)]
    exact = sum((norm.pdf(score) / (100 * deviations)).mean() for score in scores)
    assert estimator == "smoothing"
    assert abs(estimate - exact) < 5 * stderr < 0.1 * exact


def test_a_state_variable_is_not_smoothed():
    with pytest.raises(InputError, match="a state variable does not jump where its equation does not"):
        derivative({**BENT, "observe": {}}, "b", "X", method="smoothing")


@pytest.mark.slow
def test_copies_that_leap_have_no_rate_below_zero():
    """A fused product less its rounded self is below zero: each path of TauLeaping failed."""
    leaping = {
        "model": {"type": "ImmigrationDeath", "alpha": 300.0, "mu": 1.0},
        "initial": {"X": 100},
        "solver": "TauLeaping",
        "time": {"t1": 0.5},
        "ensemble": {"paths": 256, "seed": 1, "devices": 1},
    }
    estimate, error, estimator, _ = derivative(leaping, "mu", "X")
    assert estimator == "coupled differences"
    # The mean is a/m + (100 - a/m) e^(-m t).
    e = math.exp(-0.5)
    assert abs(estimate - (-300 + 300 * e + 200 * 0.5 * e)) < LIMIT * error + 0.03 * 60


def test_uncertain_correlations_are_those_of_random_variables():
    """Outside, the root of the matrix would be cut off and the noise too large."""
    text = """\
constants: {rho: {uniform: [0.5, 1.2]}}
model: {sde: {X: {drift: 0.0, noise: {W: 1.0}}, Y: {drift: 0.0, noise: {B: 1.0}}}, correlation: {W-B: rho}}
initial: {X: 0.0, Y: 0.0}
time: {t1: 1, steps: 2}
uncertainty: {method: propagate, points: 16, paths: 4}
"""
    with pytest.raises(InputError, match="the least eigenvalue of the correlations: must be >= -1e-12"):
        uncertainty(text)


SPREAD = {
    "constants": {"m": 0.0, "s": 0.5, "b": 0.4, "c": 0.1},
    "model": {"sde": {"X": {"drift": "c", "noise": {"W": 1.0}}}},
    "initial": {"X": {"normal": ["m", "s"]}},
    "time": {"t1": 1.0, "steps": 2},
    "ensemble": {"paths": 2**14, "seed": 1, "devices": 1},
    "observe": {
        "stays": "max(X) < b",
        "below": "integral(X < b)",
        "late": "mean(X) > b",
        "fraction": "mean(X > b)",
        "fractions": {"value": "mean(X > b)", "at": "each"},
        "each": {"value": "X > b", "at": "each"},
        "end": "X > b",
    },
}


@pytest.mark.more
@pytest.mark.parametrize("wrt", ["m", "s", "b", "c"])
def test_no_noise_affects_an_observation_at_a_random_start(wrt):
    """Smoothing and the score held it fixed: the barrier's derivative lacked the paths that begin beyond."""
    chosen = {name: first_choice(SPREAD, wrt, name).method for name in SPREAD["observe"]}
    moved = {"c": "score"}.get(wrt, "finite differences")
    inside = {"c": "score"}.get(wrt, "smoothing")
    early, late = ("stays", "below", "fractions", "each"), ("late", "fraction", "end")
    assert chosen == dict.fromkeys(early, moved) | dict.fromkeys(late, inside)
    fixed = {**SPREAD, "initial": {"X": 0.0}}
    assert wrt in "ms" or first_choice(fixed, wrt, "stays").method == inside


@pytest.mark.more
def test_a_random_start_has_its_density_in_derivatives():
    result = sensitivity({**SPREAD, "sensitivity": {"wrt": ["m", "b"], "of": ["each"]}})
    for row, wanted in enumerate((norm.pdf(0.4, 0, 0.5), norm.pdf(0.4, 0.1, math.sqrt(1.25)))):
        slopes, errors = (result[f"each_derivative{x}"].values[:, row] for x in ("", "_stderr"))
        assert np.all(np.abs(slopes - [wanted, -wanted]) < LIMIT * errors)
        assert np.all(LIMIT * errors < 0.6 * wanted)
    with pytest.raises(InputError, match="score for each in m: m moves X where it begins at random, before"):
        derivative(SPREAD, "m", "each", method="score")
    with pytest.raises(InputError, match="smoothing for each in b: X is random where it begins, before any"):
        derivative(SPREAD, "b", "each", method="smoothing")


@pytest.mark.parametrize(
    ("text", "at", "method"),
    [
        ("maximum(X - b, 0)", "each", "finite differences"),
        ("maximum(X - b, 0)", "end", "mixed"),
        ("integral(maximum(X - b, 0))", "end", "finite differences"),
    ],
)
def test_a_random_start_may_be_at_a_kink(text, at, method):
    seen = {**SPREAD, "observe": {"value": {"value": text, "at": at}}}
    assert second_choice(seen, "m", "value").method == method


def test_an_event_at_the_start_moves_what_begins_at_random():
    """Y begins at 0, and is X at once."""
    both = {"X": {"drift": 0.0, "noise": {"W": 1.0}}, "Y": {"drift": 0.0, "noise": {"B": 1.0}}}
    experiment = {
        **SPREAD,
        "model": {"sde": both},
        "initial": {"X": {"normal": ["m", "s"]}, "Y": 0.0},
        "observe": {"high": {"value": "Y > b", "at": "each"}},
    }
    assert first_choice(experiment, "b", "high").method == "smoothing"
    for at, method in ((0.0, "finite differences"), (0.5, "smoothing")):
        events = {"over": {"at": [at], "set": {"Y": "X"}}}
        assert first_choice({**experiment, "events": events}, "b", "high").method == method


@pytest.mark.slow
def test_an_integral_sees_what_is_compared_before_an_event_and_after_it():
    """Its trapezia end at the one value and begin at the other, and smoothing held the last alone."""
    experiment = {
        **SPREAD,
        "initial": {"X": 1.0},
        "events": {"fall": {"at": [0.5], "set": {"X": "X - b"}}},
        "observe": {"above": "integral(X > 0)", "late": "mean(X > 0)"},
    }
    assert first_choice(experiment, "b", "late").method == "smoothing"
    estimate, error, estimator, _ = derivative(experiment, "b", "above")
    wanted = -0.25 * (norm.pdf(0.65, 0, math.sqrt(0.5)) + norm.pdf(0.7))
    assert estimator == "finite differences"
    assert abs(estimate - wanted) < LIMIT * error
    curve = {"L": {"times": [0, 0.5], "values": [0.0, "b"], "interpolation": "previous", "outside": "hold"}}
    for text, method in (("integral(X > L)", "finite differences"), ("integral(X > 0)*L", "score")):
        jumping = {**experiment, "events": {}, "curves": curve, "observe": {"above": text}}
        assert first_choice(jumping, "b", "above").method == method


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
