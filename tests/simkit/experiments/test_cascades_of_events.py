"""Events at one time that trigger one another all happen, in order, and those without end are named."""

import re

import numpy as np
import pytest
from event_examples import DRIFT, ENGINES

import simkit
from simkit import NumericalError

CASCADE = {
    "A": {"when": "x > 1.5", "set": {"x": 0, "k": "k + 1"}},
    "B": {"when": "x < 0.5 and k > 0 and k < 4", "set": {"x": 2}},
}

IDLE = {f"idle{i}": {"when": "z > 5", "set": {"z": 0}} for i in range(2)}

RISING = {
    "tolerances": {
        "model": {"ode": {"x": 1, "k": 0, "z": 0}},
        "time": {"t1": 4.0, "rtol": 1e-8, "atol": 1e-8},
    },
    "steps": {
        "model": {
            "sde": {name: {"drift": x, "noise": {"W": 0}} for name, x in (("x", 1), ("k", 0), ("z", 0))}
        },
        "time": {"t1": 4.0, "steps": 64},
        "solver": "EulerMaruyama",
        "ensemble": {"paths": 1, "unresolved": "keep"},
    },
}


@pytest.mark.more
@pytest.mark.parametrize("idle", [{}, IDLE], ids=["alone", "with others"])
@pytest.mark.parametrize("run", RISING)
def test_events_trigger_one_another_until_none_is_due(run, idle):
    """x rises from 1: at 0.5 A and B alternate until k = 4; then A comes at 2 and 3.5."""
    rising = {"initial": {"x": 1.0, "k": 0.0, "z": 0.0}, "precision": "float64", "save": {"points": 1}}
    result = simkit.run(rising | RISING[run] | {"events": CASCADE | idle})
    end = [float(result[f"{name}_mean"][-1]) for name in ("x", "k")]
    late = 4 / 64 if run == "steps" else 0.0
    assert end[0] == pytest.approx(0.5, abs=3 * late + 1e-9)
    assert end[1] == 6
    assert [int(result[f"{name}_count"]) for name in ("A", "B")] == [6, 3]


def test_reactions_end_cascades_too():
    """Twelve molecules lose five to three of Y, and six of Y lose four to six of X, as often as there are."""
    network = {
        "model": {
            "reactions": {
                "birth": {"equation": "0 -> X", "rate": 1.0},
                "none": {"equation": "Y -> 0", "rate": 0.0},
            }
        },
        "initial": {"X": 0, "Y": 0},
        "time": {"t1": 300.0},
        "save": {"points": 1, "paths": 16},
        "ensemble": {"paths": 16, "seed": 1, "devices": 1},
        "events": {
            "A": {"when": "X >= 12", "set": {"X": "X - 5", "Y": "Y + 3"}},
            "B": {"when": "Y >= 6", "set": {"Y": "Y - 4", "X": "X + 6"}},
            "never": {"when": "X < 0", "set": {"X": 0}},
        },
    }
    result = simkit.run(network)
    assert float(result["X_max"][-1]) < 12
    assert float(result["Y_max"][-1]) < 6
    a, b = (float(result[f"{name}_count"]) for name in "AB")
    x, y = (float(result[f"{name}_mean"][-1]) for name in "XY")
    assert y == pytest.approx(3 * a - 4 * b, abs=1e-9)
    assert abs(x + 5 * a - 6 * b - 300) < 4.5 * np.sqrt(300 / 16)


CIRCLE = {
    "far": {"when": "x > 100", "set": {"x": 3}},
    "up": {"when": "x < 1", "set": {"x": 2}},
    "down": {"when": "x > 1", "set": {"x": 0}},
}

ENDLESS = {
    "tolerances": {"model": {"ode": {"x": 1}}, "time": {"t1": 4.0, "rtol": 1e-8, "atol": 1e-8}},
    "steps": {
        "model": {"sde": {"x": {"drift": 1, "noise": {"W": 0}}}},
        "time": {"t1": 4.0, "steps": 64},
        "solver": "EulerMaruyama",
        "ensemble": {"paths": 1},
    },
    "reactions": {
        "model": {"reactions": {"r": {"equation": "0 -> x", "rate": 5.0}}},
        "time": {"t1": 4.0},
        "ensemble": {"paths": 2},
    },
    "reactions and a given time": {
        "model": {"reactions": {"r": {"equation": "0 -> x", "rate": 1e-9}}},
        "time": {"t1": 4.0},
        "ensemble": {"paths": 1},
        "events": {**CIRCLE, "given": {"at": 2, "set": {"x": 5}}},
    },
}


@pytest.mark.more
@pytest.mark.parametrize("run", ENDLESS)
def test_events_that_trigger_one_another_without_end_are_the_only_cause_named(run):
    """Neither the solver nor tolerances, nor an event that has no part in it."""
    rising = {"initial": {"x": 1}, "precision": "float64", "events": CIRCLE}
    with pytest.raises(NumericalError) as raised:
        simkit.run(rising | ENDLESS[run])
    places, _, remedy = str(raised.value).partition(": up and down trigger one another without end")
    assert re.fullmatch(r"path 0: (x = nan|stopped) at t = [^:]*(; path 1: stopped at t = [^:]*)?", places)
    assert remedy.startswith(", at one and the same time. Change a condition, or what an event sets, so that")
    assert not re.search("solver|tolerances|whole number|maximum|debug", remedy)


LONG = {
    "model": {"ode": {"x": 1.0, "n": 0.0}},
    "initial": {"x": 0.0, "n": 0.0},
    "time": {"t1": 2.0, "rtol": 1e-6, "atol": 1e-6},
    "precision": "float64",
}


def cascade(rounds: int) -> dict:
    """Once x is 1, odd and even follow each other until n has counted so many events; bell is one of few."""
    odd = "(x > 1) * (n < last) * (floor(n/2)*2 == n)"
    even = "(x > 1) * (n < last) * (floor(n/2)*2 < n)"
    events = {
        "even": {"when": f"{odd} > 0.5", "set": {"n": "n + 1"}},
        "odd": {"when": f"{even} > 0.5", "set": {"n": "n + 1"}},
        "bell": {"when": "(n > 3.5) * (n < 4.5) + (n > 7.5) * (n < 8.5) > 0.5", "set": {"x": "x"}},
    }
    return LONG | {"constants": {"last": rounds}, "events": events}


@pytest.mark.more
def test_a_cascade_that_ends_is_followed_to_its_end_and_one_that_does_not_is_named():
    """A thousand rounds are the most; what happened a few times is not said to go on."""
    result = simkit.run(cascade(1000))
    assert float(result["n_mean"][-1]) == 1000
    with pytest.raises(NumericalError, match=": even and odd trigger one another without end"):
        simkit.run(cascade(1100))


@pytest.mark.more
@pytest.mark.parametrize("engine", ENGINES)
def test_two_events_with_one_condition_happen_both(engine):
    events = {
        "back": {"when": "x >= 7", "set": {"x": 0}},
        "count": {"when": "x >= 7", "set": {"n": "n + 1"}},
    }
    run = ENGINES[engine] | {"initial": {"x": 0, "n": 0}, "save": {"points": 1}, "events": events}
    run |= {"observe": {"total": "x + 7*n"}}
    result = simkit.run(run)
    assert float(result["n_mean"][-1]) >= 4
    assert abs(float(result["total_mean"]) - 40) < 3  # a Poisson number of mean 40, over 64 paths


@pytest.mark.more
@pytest.mark.parametrize("engine", ENGINES)
def test_events_at_one_time_are_each_followed_by_those_that_they_trigger(engine):
    events = {
        "up": {"at": 2.0, "set": {"x": "x + 1000"}},
        "down": {"at": 2.0, "set": {"x": "x - 1000"}},
        "count": {"when": "x > 500", "set": {"n": "n + 1"}},
    }
    run = ENGINES[engine] | {"initial": {"x": 0, "n": 0}, "save": {"points": 1}, "events": events}
    result = simkit.run(run)
    assert float(result["n_min"][-1]) == float(result["n_max"][-1]) == 1
    assert float(result["x_max"][-1]) < 200


@pytest.mark.more
def test_an_event_that_triggers_one_above_it_has_it_happen_at_once():
    model = {"sde": {"x": {"drift": 1.0, "noise": {"W": 0.0}}, "y": {"drift": 0.0}, "z": {"drift": 0.0}}}
    events = {
        "last": {"when": "y > 0.5", "set": {"z": "z + x"}},
        "first": {"when": "x > 1", "set": {"y": 1}},
    }
    run = DRIFT | {"model": model, "initial": {"x": 0.0, "y": 0.0, "z": 0.0}, "events": events}
    result = simkit.run(run)
    y, z = (result[f"{name}_path"].values[0] for name in "yz")
    assert np.array_equal(z > 0, y > 0)
    assert z[-1] == pytest.approx(1.0, abs=0.021)
