"""Events at given times in experiments: what rows and solvers see of them, and what is wrong with one."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from grids import factors
from simkit_solvers import (
    States,
    integrate,
)

import simkit
from simkit import InputError, load

EVENTS = {
    "model": {"ode": {"x": 0, "y": 0}},
    "initial": {"x": 1.0, "y": 2.0},
    "time": {"t1": 4.0, "steps": 4},
    "save": {"points": 4},
    "events": {
        "swap": {"every": 1, "set": {"x": "y", "y": "x"}},
        "add": {"at": [2, 4], "set": {"x": "x + 10*t"}},
    },
    "observe": {"most": "max(x)", "least": "min(x)", "area": "integral(x)", "average": "mean(x)"},
}


@pytest.mark.more
def test_what_rows_and_path_functionals_see():
    """Right-hand sides see the state before; the first event of the file is first; `every` ends before t1."""
    result = simkit.run(EVENTS)
    np.testing.assert_array_equal(result["x_mean"], [1, 2, 21, 2, 42])
    np.testing.assert_array_equal(result["y_mean"], [2, 1, 2, 21, 21])
    assert float(result["most_mean"]) == 42
    assert float(result["least_mean"]) == 1
    assert float(result["area_mean"]) == 1 + 2 + 21 + 2
    assert float(result["average_mean"]) == (2 + 21 + 2 + 42) / 4


def test_a_change_without_a_derivative_elsewhere_leaves_derivatives_finite():
    """Where an event is not due its expression may have no derivative, nor a value."""
    experiment = {
        "constants": {"c": 2.0},
        "model": {"ode": {"x": 1}},
        "initial": {"x": 0.0},
        "solver": "Euler",
        "time": {"t1": 4.0, "steps": 4},
        "events": {"root": {"at": 3, "set": {"x": "log(x - c) + c"}}},
    }
    simulation = load(experiment)

    def end(c):
        bound = simulation.bind({"c": c})
        start = bound.problem.State(x=jnp.zeros(()))
        return integrate(bound.problem, simulation.solver, start, bound.grid, None, States())["x"][-1]

    assert float(jax.jit(end)(2.0)) == pytest.approx(3)  # log(3 - 2) + 2 + 1
    for derivative in (jax.grad, jax.jacfwd):
        assert float(jax.jit(derivative(end))(2.0)) == pytest.approx(-1 + 1)


def test_the_step_bias_meets_the_events():
    decay = {
        "model": {"ode": {"A": "-A"}},
        "initial": {"A": 0.0},
        "solver": "Euler",
        "time": {"t1": 1.0, "steps": 100},
        "events": {"dose": {"at": [0, 0.5], "set": {"A": "A + 1"}}},
    }
    result = simkit.run(decay)
    error = float(result["A_mean"][-1]) - (math.exp(-1) + math.exp(-0.5))
    assert float(result["A_bias"]) == pytest.approx(error, rel=0.02)
    assert factors(load(decay, {"events.dose.at": [0, 0.5]})) == (0.5, 2)
    assert factors(load(decay, {"events.dose.at": [0, 0.4]})) == (2, 4)
    assert factors(load(decay, {"events.dose.at": [0, 0.15]})) == (0.5, 0.25)
    assert factors(load(decay, {"events.dose.at": [0, 0.1], "time.steps": 90})) == (3, 9)
    assert factors(load(decay, {"events.dose.at": [0, 0.1], "time.steps": 30})) == (0.5, 3)


@pytest.mark.more
def test_a_jump_diffusion_keeps_its_jumps_under_a_schedule():
    """Sampled exactly, with rates of growth and of jumps that jump, and a dividend."""
    model = {"type": "Merton", "mu": "r", "sigma": 0.2, "lam": "l", "m": -0.3, "delta": 0.1}
    often = {"times": [0, 0.5], "interpolation": "previous", "outside": "hold"}
    result = simkit.run(
        {
            "curves": {"r": often | {"values": [0.3, -0.1]}, "l": often | {"values": [0.5, 4]}},
            "model": model,
            "initial": {"S": 100.0},
            "solver": "ExactSampling",
            "time": {"t1": 1.0, "steps": 4},
            "events": {"dividend": {"at": 0.25, "set": {"S": "S*0.9"}}},
            "ensemble": {"paths": 10000, "seed": 2, "devices": 1},
        }
    )
    z = (result["S_mean"][-1] - 90 * math.exp(0.5 * 0.3 - 0.5 * 0.1)) / result["S_stderr"][-1]
    assert abs(float(z)) < 5
    squared = 0.2**2 + 2.25 * (math.exp(2 * 0.1**2 - 0.6) - 2 * math.exp(0.1**2 / 2 - 0.3) + 1)
    variance = (90 * math.exp(0.1)) ** 2 * math.expm1(squared)
    assert float(result["S_variance"][-1]) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at": [0, 1.5]}, "events.add.at[1]: the time 1.5 is inside one of the 4 steps; use steps: 8"),
        ({"at": 1.5}, "events.add.at: the time 1.5 is inside one of the 4 steps; use steps: 8"),
        ({"every": 0.5}, "events.add.every: the time 0.5 is inside one of the 4 steps; use steps: 8"),
        ({"at": [1, 1]}, "events.add.at[1]: must increase, got 1 after 1"),
        ({"at": 5}, "events.add.at: must be from t0 = 0 to t1 = 4, got 5"),
        ({"at": []}, "events.add.at: must be a list of numbers"),
        ({}, "events.add.at: give either at, the times, or every"),
        ({"at": 1, "every": 1}, "give either at, the times, or every"),
        ({"at": 1, "first": 1}, "events.add.first: has no effect without every"),
        ({"every": 0}, "events.add.every: must be positive, got 0"),
        ({"every": 5}, "events.add.every: the first time would be 5, after the last, 4"),
        ({"every": 1, "last": 5}, "events.add.last: must be from t0 = 0 to t1 = 4, got 5"),
        ({"every": 1e-6}, "events.add.every: gives 3999999 times; there may be 100000"),
        ({"at": 1, "set": {"z": 1}}, "events.add.set.z: unknown variable of the model"),
        ({"at": 1, "set": {"x": "x + q"}}, "events.add.set.x: unknown name 'q'"),
        ({"at": 1, "set": {}}, "events.add.set: needs at least one state variable"),
        ({"at": 1, "on": 1}, "events.add.on: unknown key"),
    ],
)
def test_what_is_wrong_with_an_event(change, message):
    event = {"set": {"x": "x + 10"}} | change
    before = {"before": {"at": 1, "set": {"x": "x + 1"}}}
    with pytest.raises(InputError) as caught:
        load(EVENTS | {"events": before | {"add": event}})
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), None, [1]])
def test_a_value_that_cannot_be_read_is_the_only_error_of_an_event(value):
    """The event does set a variable, though to nothing that is a number or an expression."""
    with pytest.raises(InputError) as caught:
        load(EVENTS | {"events": {"add": {"at": 1, "set": {"x": value}}}})
    assert str(caught.value).startswith("events.add.set.x: ")
    assert "needs at least one state variable" not in str(caught.value)


def test_adaptive_steps_of_noise_refuse_events():
    noisy = {
        "model": {"type": "GBM", "mu": 0.1, "sigma": 0.2},
        "initial": {"S": 1.0},
        "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2},
        "events": {"pay": {"at": 0.5, "set": {"S": "S/2"}}},
    }
    with pytest.raises(InputError, match=r"events: adaptive steps of stochastic .* give time.steps in place"):
        load(noisy)


@pytest.mark.parametrize("curve", [False, True], ids=["event", "curve"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_noise_that_a_solver_carries_survives_events_and_curves(curve, precision):
    """Half of each step's noise comes with the next step; what changes nothing takes none of it."""
    decay = {
        "model": {"sde": {"x": {"drift": "-x*g", "noise": {"W": 1.0}}}, "parameters": {"g": 1.0}},
        "initial": {"x": 0.0},
        "solver": "LeimkuhlerMatthews",
        "time": {"t1": 2.0, "steps": 20},
        "precision": precision,
        "ensemble": {"paths": 64, "seed": 1, "devices": 1, "unresolved": "keep"},
        "save": {"paths": 64},
    }
    nodes = [0.1 * i for i in range(21)]
    still = {"times": nodes, "values": [1.0] * 21, "interpolation": "previous"}
    change: dict = {"events": {"none": {"every": 0.1, "when": "x > -100", "set": {"x": "x"}}}}
    if curve:
        model = {"sde": decay["model"]["sde"]}
        change = {"curves": {"g": still}, "model": model}
    plain, changed = (simkit.run(decay | more)["x_path"].values for more in ({}, change))
    np.testing.assert_allclose(changed, plain, atol=1e-5 if precision == "float32" else 1e-12)


def test_a_solver_that_carries_the_force_computes_it_again_after_an_event():
    """A run with an event in the middle is two runs, the second from the state that the event left."""
    half = {
        "model": {"type": "HarmonicOscillator", "m": 1.0, "k": 4.0},
        "initial": {"q": 1.0, "p": 0.0},
        "solver": "Leapfrog",
        "time": {"t1": 1.0, "steps": 20},
        "precision": "float64",
        "ensemble": {"unresolved": "keep"},
    }
    event = {"push": {"at": [1.0], "when": "q > -100", "set": {"q": "q + 1"}}}
    whole = simkit.run(half | {"time": {"t1": 2.0, "steps": 40}, "events": event})
    first = simkit.run(half)
    middle = {"q": float(first["q_mean"][-1]) + 1, "p": float(first["p_mean"][-1])}
    second = simkit.run(half | {"initial": middle})
    for name in ("q", "p"):
        assert float(whole[f"{name}_mean"][-1]) == pytest.approx(float(second[f"{name}_mean"][-1]), abs=1e-12)
