"""Steady states and eigenvalues against closed forms."""

import math

import numpy as np
import pytest
from simkit_physics import Schlogl
from steady_examples import DOUBLE_WELL, LORENZ, TIME, assert_within_errors, numbers, ode, states_of

import simkit
from simkit.steady_states import settling


@pytest.fixture
def few_steps(monkeypatch):
    """Models that never rest are followed for less long."""
    monkeypatch.setattr(settling, "STEPS", 150)


def eigenvalues_of(state) -> np.ndarray:
    return np.asarray([complex(each["real"], each["imag"]) for each in state["eigenvalues"]])


def assert_eigenvalues(state, exact):
    """As near as their errors say, in the order of the table: the largest real part first."""
    exact = np.asarray(exact, complex)
    exact = exact[np.lexsort((exact.imag, -exact.real))]
    errors = np.asarray([each["error"] for each in state["eigenvalues"]])
    assert np.all(abs(eigenvalues_of(state) - exact) <= errors + 4e-16 * abs(exact))
    assert np.all(errors <= 1e-11 * abs(exact).max())


def lorenz_eigenvalues(sigma, rho, beta):
    """Of the two states other than zero: the roots of their characteristic polynomial."""
    return np.roots([1, sigma + beta + 1, beta * (rho + sigma), 2 * sigma * beta * (rho - 1)])


def test_lorenz_rests_at_one_of_its_two_spirals():
    (state,) = states_of(LORENZ)
    x = math.copysign(math.sqrt(2.5 * 13), numbers(state)["x"])
    assert_within_errors(state, {"x": x, "y": x, "z": 13.0, "r": x**2 + 2.5 * x})
    assert (state["kind"], state["stable"], state["reached"]) == ("stable spiral", True, True)
    assert_eigenvalues(state, lorenz_eigenvalues(10, 14, 2.5))
    slowest = min(-lorenz_eigenvalues(10, 14, 2.5).real)
    assert state["relaxation_time"]["value"] == pytest.approx(1 / slowest, rel=1e-12)


@pytest.mark.usefixtures("few_steps")
def test_chaotic_lorenz_does_not_rest_and_a_search_finds_all_three_states():
    states = states_of(LORENZ, overrides={"model.rho": 28.0}, search=40)
    assert not any(state["reached"] for state in states)
    x = math.sqrt(2.5 * 27)
    found = sorted(numbers(state)["x"] for state in states)
    np.testing.assert_allclose(found, [-x, 0, x], atol=1e-12)
    for state in states:
        kind = "saddle" if numbers(state)["x"] == 0 else "saddle-focus"
        assert (state["kind"], state["stable"]) == (kind, False)
        assert state["relaxation_time"] == {"value": None, "error": None}


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(("b", "kind"), [(3.0, "unstable spiral"), (1.7, "stable spiral")])
def test_the_brusselator_has_one_state_with_known_eigenvalues(b, kind):
    brusselator = {"model": {"type": "Brusselator", "a": 1.0, "b": b}, "initial": {"x": 1.0, "y": 1.0}}
    (state,) = states_of(brusselator | {"time": TIME})
    assert_within_errors(state, {"x": 1.0, "y": b})
    assert state["kind"] == kind
    half = (b - 2) / 2
    assert_eigenvalues(state, [complex(half, sign * math.sqrt(1 - half**2)) for sign in (1, -1)])


@pytest.mark.usefixtures("few_steps")
def test_predators_and_prey_turn_about_a_centre():
    (state,) = states_of(ode({"x": "a*x - x*y", "y": "x*y - c*y"}, {"x": 2.0, "y": 1.0}, a=2.0, c=0.5))
    assert_within_errors(state, {"x": 0.5, "y": 2.0})
    assert (state["kind"], state["stable"], state["reached"]) == ("centre", False, False)
    assert_eigenvalues(state, [1j, -1j])


def test_a_logistic_population_ends_at_its_capacity_at_its_rate():
    (state,) = states_of(ode({"x": "r*x*(1 - x/K)"}, {"x": 0.1}, r=0.7, K=30.0))
    assert_within_errors(state, {"x": 30.0})
    assert_eigenvalues(state, [-0.7])
    assert state["kind"] == "stable node"


def test_counts_rest_where_their_rate_equation_does():
    immigration = {"model": {"type": "ImmigrationDeath", "alpha": 10.0, "mu": 0.4}, "initial": {"X": 3}}
    (state,) = states_of(immigration | {"time": {"t1": 1.0}})
    assert_within_errors(state, {"X": 25.0})
    assert_eigenvalues(state, [-0.4])


def test_dimers_rest_where_the_rate_equation_does_under_every_solver():
    """Propensities of counts, k X (X - 1)/2, would put it elsewhere: at the rate equation X^2 = 2 a/(2 k)."""
    network = {
        "reactions": {
            "made": {"equation": "0 -> X", "rate": 9.0},
            "pair": {"equation": "2 X -> 0", "rate": 1.0},
        }
    }
    base = {"model": network, "initial": {"X": 5}}
    for others in (
        {"time": {"t1": 1.0}},
        {"time": TIME, "solver": "EulerMaruyama"},
        {"time": TIME, "solver": "Tsit5"},
    ):
        (state,) = states_of(base | others)
        assert_within_errors(state, {"X": 3.0})


@pytest.mark.parametrize("search", [0, 30])
def test_a_double_well_has_three_fixed_points(search):
    states = states_of(DOUBLE_WELL, search=search)
    assert [numbers(state)["x"] for state in states] == pytest.approx([1, -1, 0][: len(states)], abs=1e-14)
    assert [state["stable"] for state in states] == [True, True, False][: len(states)]
    assert [state["reached"] for state in states] == [True, False, False][: len(states)]
    assert len(states) == (3 if search else 1)


def test_schlogl_is_bistable():
    """X' = k1 A X^2/2 - k2 X^3/6 + k3 B - k4 X has three positive roots at the example."""
    k = Schlogl.example
    schlogl = {"model": {"type": "Schlogl", **k}, "initial": {"X": 248}, "time": {"t1": 1.0}}
    states = states_of(schlogl, search=50, ranges={"X": (0, 1000)})
    problem = Schlogl(**k)
    values = sorted(numbers(state)["X"] for state in states)
    points = np.asarray([0.0, 100.0, 300.0, 700.0])
    cubic = np.polynomial.Polynomial.fit(
        points, [float(problem.drift(0.0, problem.State(x)).X) for x in points], 3, domain=[0, 1000]
    )
    np.testing.assert_allclose(values, np.sort(cubic.roots().real), rtol=1e-9)
    by_value = sorted(states, key=lambda state: numbers(state)["X"])
    assert [state["stable"] for state in by_value] == [True, False, True]


def test_the_start_decides_which_state_is_reached():
    for start, end in ((-0.01, -1.0), (0.01, 1.0), (0.0, 0.0)):
        (state,) = states_of(DOUBLE_WELL, overrides={"initial.x": start})
        assert state["reached"]
        assert_within_errors(state, {"x": end})
    assert (state["kind"], state["stable"]) == ("unstable node", False)


@pytest.mark.parametrize("start", [1.052, 1.06, 1.075, 1.09])
def test_a_stable_state_nearby_is_not_the_one_reached_from_beyond_its_basin(start):
    """Where 1.05 is unstable, between 1 and 2."""
    (state,) = states_of(ode({"x": "-(x - 1)*(x - 1.05)*(x - 2)"}, {"x": start}))
    assert state["reached"]
    assert_within_errors(state, {"x": 2.0})


def test_a_weakly_damped_pendulum_rests_below():
    (state,) = states_of(ode({"x": "v", "v": "-sin(x) - 0.1*v"}, {"x": 1.0, "v": 0.0}))
    assert state["reached"]
    assert_within_errors(state, {"x": 0.0, "v": 0.0})
    assert_eigenvalues(state, [complex(-0.05, sign * math.sqrt(1 - 0.05**2)) for sign in (1, -1)])


def test_frozen_time_and_curves():
    driven = ode({"x": "cos(w*t) - x"}, {"x": 0.0}, w=2.0)
    (state,) = states_of(driven, at=0.7)
    assert_within_errors(state, {"x": math.cos(1.4)})
    curve = ode({"x": "k - x"}, {"x": 0.0}) | {"curves": {"k": {"times": [0, 2], "values": [1.0, 5.0]}}}
    curve["model"].pop("parameters")
    (state,) = states_of(curve, at=0.5)
    assert_within_errors(state, {"x": 2.0})


def test_the_error_of_an_observable_follows_from_those_of_the_state():
    """The final size of an epidemic has an error of the run, far above rounding."""
    sir = {
        "model": {"type": "SIR", "beta": 0.3, "gamma": 0.1, "N": 1000},
        "initial": {"S": 995, "I": 5, "R": 0},
        "solver": "Tsit5",
        "time": {"t1": 100, "steps": 500},
        "observe": {"tenfold": "10*S"},
    }
    errors = simkit.steady(sir)["value_error"].sel(root=1)
    assert float(errors.sel(quantity="S")) > 1e-11
    assert float(errors.sel(quantity="tenfold") / errors.sel(quantity="S")) == pytest.approx(10, rel=1e-2)
