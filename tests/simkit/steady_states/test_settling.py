"""Following a model until it rests: where it is said to rest, and what is said of one that does not."""

import jax
import numpy as np
import pytest
from steady_examples import assert_within_errors, numbers, ode, states_of

import simkit
from simkit import NumericalError
from simkit.steady_states import settling
from simkit.steady_states.newton import Fixed
from simkit.steady_states.rates import Rates
from simkit.steady_states.settling import Rest, settle


def rest_of(source) -> Rest:
    """Where an experiment rests, or what it does instead."""
    with jax.enable_x64(True):
        rates = Rates(simkit.load(source))
        return settle(Fixed(rates, np.zeros((0, len(rates.names))), rates.start, rates.scale))


@pytest.mark.parametrize("unit", [1e-30, 1e-12, 1e12])
@pytest.mark.parametrize(("start", "end"), [(1.03, 1.0), (1.06, 2.0)])
@pytest.mark.parametrize("beside", [False, True])
def test_the_unit_of_time_does_not_decide_which_state_is_reached(unit, start, end, beside):
    """Between 1 and 2 the state 1.05 is unstable; a variable that is faster by far rests long before."""
    drifts = {"x": "-s*(x - 1)*(x - 1.05)*(x - 2)"} | ({"z": "f*(1 - z)"} if beside else {})
    initial = {"x": start} | ({"z": 2.0} if beside else {})
    (state,) = states_of(ode(drifts, initial, s=unit, **({"f": 1e13 * unit} if beside else {})))
    assert state["reached"]
    assert_within_errors(state, {"x": end})


def test_a_model_that_still_drifts_is_not_at_rest_however_short_its_steps():
    """A flame that ignites late, at t = 10,000, beside a variable that leaves the state 1 for 3 slowly."""
    drifts = {"x": "x**2 - x**3", "w": "s*(w - 1)*(3 - w)"}
    (state,) = states_of(ode(drifts, {"x": 1e-4, "w": 1.05}, s=1e-13))
    assert (state["reached"], state["kind"]) == (True, "stable node")
    assert_within_errors(state, {"x": 1.0, "w": 3.0})


def test_a_model_may_rest_at_a_saddle_that_it_comes_to_along_its_stable_side():
    (state,) = states_of(ode({"x": "1 - x", "y": "y - y**3"}, {"x": 3.0, "y": 0.0}))
    assert (state["reached"], state["kind"]) == (True, "saddle")
    assert_within_errors(state, {"x": 1.0, "y": 0.0})


def test_a_cycle_that_comes_ever_nearer_to_saddles_rests_at_none():
    """Three competitors, each of which displaces one of the others. Reference: May & Leonard (1975)."""
    drifts = {
        name: f"{name}*(1 - {name} - 0.5*{after} - 2*{last})" for name, after, last in ("xyz", "yzx", "zxy")
    }
    rest = rest_of(ode(drifts, {"x": 0.5, "y": 0.3, "z": 0.2}))
    assert rest.root is None


def test_the_mean_of_a_run_that_never_rests_does_not_remember_its_start(monkeypatch):
    """A cycle about (3, 5) beside a variable that decays from far away."""
    monkeypatch.setattr(settling, "STEPS", 600)
    turn = "1 - (x - 3)**2 - (y - 5)**2"
    drifts = {"x": f"(x - 3)*({turn}) - y + 5", "y": f"(y - 5)*({turn}) + x - 3", "z": "-3*z"}
    rest = rest_of(ode(drifts, {"x": 4.0, "y": 5.0, "z": 1e4}))
    assert rest.root is None
    np.testing.assert_allclose(rest.mean, [3, 5, 0], atol=0.1)
    assert rest.course.startswith("had not come to rest within a time of ")


@pytest.mark.parametrize(("distance", "rests"), [(0.03, True), (0.06, False)])
def test_a_stable_state_is_not_reached_from_beyond_an_unstable_cycle(distance, rests, monkeypatch):
    """Of radius 0.05, about (1, 1); beyond it all flows to a cycle, about it too."""
    monkeypatch.setattr(settling, "STEPS", 200)
    push = "0.1*(400*q - 1)*(3 - 400*q)".replace("q", "((x - 1)**2 + (y - 1)**2)")
    drifts = {"x": f"(x - 1)*{push} - y + 1", "y": f"(y - 1)*{push} + x - 1"}
    rest = rest_of(ode(drifts, {"x": 1 + distance, "y": 1.0}))
    assert (rest.root is not None) == rests


@pytest.mark.parametrize("rate", [1e-9, 1.0])
def test_a_model_that_grows_without_bound_is_told_so(rate):
    """From zero, where it would rest, it is away for ever."""
    dataset = simkit.steady(ode({"x": "r*x", "y": "1 - y"}, {"x": 1.0, "y": 0.0}, r=rate))
    assert not bool(dataset["reached"].sel(root=1))
    assert dataset.attrs["notes"].startswith("from its initial values the model grows without bound: x = ")


@pytest.mark.parametrize(
    ("drift", "course"),
    [
        ("1.0 + 0*x", "The model grows without bound: x = "),
        (
            "1 + x**2",
            "The model has no solution beyond a time of 1.107, where its rates of change grow without",
        ),
        ("-1/x", "The model has no solution beyond a time of 0.125, where its rates of change grow without"),
        ("-x/abs(x)", "The model had not come to rest within a time of 0.5."),
    ],
)
def test_where_there_is_no_state_the_course_of_the_model_is_told(drift, course):
    """To infinity in all time; to a pole, at atan(1/0.5) and 0.5²/2; to a kink, which is none."""
    with pytest.raises(NumericalError) as error:
        simkit.steady(ode({"x": drift}, {"x": 0.5}))
    assert course in str(error.value)


def test_a_solution_that_changes_fast_does_not_end_there(monkeypatch):
    """A flame that ignites at t = 1e9, and a run that ends amid that."""
    monkeypatch.setattr(settling, "STEPS", 1290)
    rest = rest_of(ode({"x": "x**2 - x**3"}, {"x": 1e-9}))
    assert 0.1 < rest.time / 1e9 < 1.1
    assert rest.course.startswith("had not come to rest within a time of ")


def test_an_epidemic_that_begins_with_few_ends_at_its_final_size():
    """s = exp(-R₀ (1 - s)) with R₀ = 2, in the limit of none at the start."""
    drifts = {"s": "-2*s*i", "i": "2*s*i - i", "r": "i"}
    (state,) = states_of(ode(drifts, {"s": 1.0, "i": 1e-9, "r": 0.0}))
    assert state["reached"]
    assert state["kind"] == "stable, one of a continuum"
    s = numbers(state)["s"]
    assert s == pytest.approx(np.exp(-2 * (1 + 1e-9 - s)), abs=1e-10)


def test_an_epidemic_that_falls_to_next_to_nothing_does_not_grow_without_bound():
    """An error below 0 would grow there, and pump S up. The exact endemic state is known."""
    N, born, beta, sigma, gamma, mu = 1e5, 7e4, 0.5, 0.25, 0.2, 0.02 / 30
    drifts = {
        "S": "mu*(born - S) - beta*S*I/N",
        "E": "beta*S*I/N - (sigma + mu)*E",
        "I": "sigma*E - (gamma + mu)*I",
    }
    initial = {"S": 99990.0, "E": 0.0, "I": 10.0}
    (state,) = states_of(ode(drifts, initial, N=N, born=born, beta=beta, sigma=sigma, gamma=gamma, mu=mu))
    assert (state["reached"], state["kind"]) == (True, "stable spiral")
    S = N * (sigma + mu) * (gamma + mu) / (beta * sigma)
    force = mu * (born - S) / S
    assert_within_errors(state, {"S": S, "E": force * S / (sigma + mu), "I": force * N / beta})
