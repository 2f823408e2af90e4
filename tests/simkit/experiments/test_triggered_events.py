"""Events that a condition triggers, and events at given times that it allows."""

import re

import numpy as np
import pytest
from event_examples import BALL, DRIFT, HARVEST, RESET, SOLVERS, more
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, poisson

import simkit
from simkit import InputError, NumericalError
from simkit.results.step_notes import step_notes


def bounces(t, h0, g, e):
    """Height and velocity of a ball that loses the part 1 - e of its velocity whenever it hits the ground."""
    fall = np.sqrt(2 * h0 / g)
    if t <= fall:
        return h0 - g * t * t / 2, -g * t
    since, v = t - fall, e * g * fall
    while since >= 2 * v / g:
        since, v = since - 2 * v / g, e * v
    return v * since - g * since * since / 2, v - g * since


@pytest.mark.more
@settings(max_examples=8, deadline=None)
@given(h0=st.floats(0.3, 3.0), g=st.floats(5.0, 20.0), e=st.floats(0.8, 1.0))
def test_a_ball_bounces_when_it_hits_the_ground(h0, g, e):
    result = simkit.run(BALL | {"constants": {"h0": h0, "g": g, "kept": e}})
    for t, h, v in zip(result["time"].values, result["h_mean"].values, result["v_mean"].values, strict=True):
        exact = bounces(t, h0, g, e)
        near = min(abs(exact[0]), 1.0)
        if near > 1e-6:  # else rounding decides whether the ball has bounced
            np.testing.assert_allclose([h, v], exact, atol=1e-7)


@pytest.mark.more
def test_a_thermostat_switches_at_its_temperatures():
    thermostat = {
        "model": {"ode": {"T": "15*on - 0.5*(T - 10)", "on": 0.0}},
        "initial": {"T": 20.0, "on": 0.0},
        "time": {"t1": 12.0, "rtol": 1e-9, "atol": 1e-9},
        "precision": "float64",
        "save": {"points": 500},
        "events": {
            "cold": {"when": "T < 18", "set": {"on": 1}},
            "warm": {"when": "T > 21", "set": {"on": 0}},
        },
        "observe": {"first_on": "hitting_time(on > 0.5)"},
    }
    result = simkit.run(thermostat)
    assert float(result["first_on_mean"]) == pytest.approx(2 * np.log(10 / 8), abs=1e-9)
    temperature = result["T_mean"].values
    assert temperature[20:].min() >= 18 - 1e-9
    assert temperature.max() <= 21 + 1e-9
    changes = np.flatnonzero(np.diff(result["on_mean"].values))
    heating, cooling = 2 * np.log(22 / 19), 2 * np.log(11 / 8)
    times = np.cumsum([2 * np.log(10 / 8), *[heating, cooling] * 20])
    times = times[times < 12]
    np.testing.assert_allclose(result["time"].values[changes], times, atol=12 / 500)


@pytest.mark.parametrize("solver", SOLVERS)
def test_counts_are_harvested_whenever_they_reach_a_number(solver):
    """The counts are a Poisson process modulo 20, of which mean and variance are known."""
    result = simkit.run(HARVEST | {"solver": solver, "observe": {"most": "max(X)", "low": "min(X)"}})
    events = np.arange(400)
    for row in range(1, 5):
        chances = poisson.pmf(events, 10.0 * row)
        mean = np.sum(chances * (events % 20))
        variance = np.sum(chances * (events % 20 - mean) ** 2)
        fourth = np.sum(chances * (events % 20 - mean) ** 4)
        assert abs(float(result["X_mean"][row]) - mean) < 4.5 * np.sqrt(variance / 4000)
        assert abs(float(result["X_variance"][row]) - variance) < 4.5 * np.sqrt((fourth - variance**2) / 4000)
    # Extremes see both sides of an event.
    assert float(result["most_max"]) == 20
    assert float(result["low_min"]) == 0


def test_observers_see_the_counts_after_an_event_when_it_happens():
    times = {"full": "hitting_time(X >= 20)", "empty": "hitting_time(X < 5)"}
    result = simkit.run(HARVEST | {"initial": {"X": 10}, "observe": times})
    assert float(result["empty_mean"]) == float(result["full_mean"])


def test_counts_do_not_depend_on_chunks():
    ways = [{"chunk": 256}, {"chunk": 4096, "devices": 2}]
    means = [simkit.run(HARVEST | {"ensemble": HARVEST["ensemble"] | way})["X_mean"].values for way in ways]
    assert np.array_equal(*means)


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


def test_a_cascade_that_ends_is_followed_to_its_end_and_one_that_does_not_is_named():
    """A thousand rounds are the most; what happened a few times is not said to go on."""
    result = simkit.run(cascade(1000))
    assert float(result["n_mean"][-1]) == 1000
    with pytest.raises(NumericalError, match=": even and odd trigger one another without end"):
        simkit.run(cascade(1100))


@pytest.mark.more
def test_a_stochastic_equation_is_checked_at_the_ends_of_steps():
    """The same noise without events, set back by hand wherever it is above 1."""
    plain, reset = (simkit.run(DRIFT | more)["x_path"].values for more in ({}, RESET))
    expected, shift = plain.copy(), np.zeros(len(plain))
    for k in range(plain.shape[1]):
        expected[:, k] -= shift
        above = expected[:, k] > 1
        expected[above, k] -= 1
        shift += above
    assert shift.mean() >= 2
    np.testing.assert_allclose(reset, expected, atol=1e-12)


@pytest.mark.more
def test_the_step_bias_sees_how_late_an_event_is():
    """Brownian motion reaches a level with twice the chance of being above it at the end."""
    knock = {"knock": {"when": "x > 0.5", "set": {"hit": 1}}}
    model = {"sde": {"x": {"drift": 0.0, "noise": {"W": 0.4}}, "hit": {"drift": 0.0}}}
    run = {"model": model, "initial": {"x": 0.0, "hit": 0.0}, "events": knock}
    run |= {"time": {"t1": 1.0, "steps": 100}, "ensemble": {"paths": 200_000, "seed": 3, "devices": 1}}
    result = simkit.run(run).isel(time=-1)
    mean, stderr, bias, bias_stderr = (
        float(result[f"hit_{part}"]) for part in ("mean", "stderr", "bias", "bias_stderr")
    )
    exact = 2 * norm.sf(0.5 / 0.4)
    error = np.hypot(stderr, bias_stderr)
    assert mean - exact < -15 * stderr
    assert abs(mean - bias - exact) < 3 * error < -bias / 2


def test_what_is_monitored_between_triggered_events_has_no_step_bias():
    run = DRIFT | RESET | {"observe": {"high": "max(x)", "last": "x"}, "save": {"points": 1}}
    result = simkit.run(run)
    assert np.isnan(float(result["high_bias"]))
    assert np.isfinite(float(result["last_bias"]))
    assert "other times on other steps" in " ".join(step_notes(result))


@pytest.mark.more
def test_a_condition_has_to_become_true():
    """One that holds at first, or after its event, has to become false before."""
    constant = {"model": {"sde": {"x": {"drift": 1.0}, "n": {"drift": 0.0, "noise": {"W": 0.0}}}}}
    events = {"count": {"when": "x > 1 and x < 2 or x > 3", "set": {"n": "n + 1"}}}
    run = DRIFT | constant | {"events": events, "initial": {"x": 1.5, "n": 0.0}}
    rows = simkit.run(run)["n_path"].values[0]
    assert rows[-1] == 1
    assert rows[73] == 0


@pytest.mark.more
@pytest.mark.parametrize(("start", "count"), [(0.0, 1), (1.5, 0)])
def test_a_condition_that_goes_on_holding_triggers_once_along_adaptive_steps(start, count):
    counted = {
        "model": {"ode": {"x": 1.0, "n": 0.0}},
        "initial": {"x": start, "n": 0.0},
        "time": {"t1": 4.0, "rtol": 1e-6, "atol": 1e-6},
        "save": {"points": 3},
        "events": {"count": {"when": "x > 1", "set": {"n": "n + 1"}}},
    }
    assert float(simkit.run(counted)["n_mean"][-1]) == count


ENGINES = {
    "steps": DRIFT | {"model": {"sde": {"x": {"drift": 10.0, "noise": {"W": 0.0}}, "n": {"drift": 0.0}}}},
    "tolerances": {
        "model": {"ode": {"x": 10.0, "n": 0.0}},
        "time": {"t1": 4.0, "rtol": 1e-6, "atol": 1e-6},
    },
    "events": {"model": {"reactions": {"x": {"equation": "0 -> x", "rate": 10.0}, "n": "0 -> n"}}},
}
ENGINES["events"]["model"]["reactions"]["n"] = {"equation": "0 -> n", "propensity": 0.0}
ENGINES["events"] |= {"time": {"t1": 4.0}, "ensemble": {"paths": 64, "devices": 1}}


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
@pytest.mark.parametrize("engine", ENGINES)
def test_a_curve_that_jumps_may_trigger_an_event(engine):
    """At 2, when x is about 20."""
    limit = {"limit": {"times": [0.0, 2.0], "values": [1000.0, 5.0], "interpolation": "previous"}}
    limit["limit"]["outside"] = "hold"
    run = ENGINES[engine] | {"initial": {"x": 0, "n": 0}, "save": {"points": 2}, "curves": limit}
    result = simkit.run(run | {"events": {"over": {"when": "x > limit", "set": {"n": "n + 1"}}}})
    assert result["n_mean"].values.tolist() == [0.0, 1.0, 1.0]


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


GATED = {
    "steps": (
        DRIFT | {"events": {"cut": {"every": 0.5, "when": "x > 0.7", "set": {"x": "x - 1"}}}},
        {"cut": {"every": 0.5, "set": {"x": "where(x > 0.7, x - 1, x)"}}},
    ),
    "tolerances": (
        BALL | {"events": {"push": {"every": 0.25, "when": "v < -3", "set": {"v": "v + 5"}}}},
        {"push": {"every": 0.25, "set": {"v": "where(v < -3, v + 5, v)"}}},
    ),
    "events": (
        HARVEST | {"events": {"cut": {"every": 0.5, "when": "X > 5", "set": {"X": "X - 5"}}}},
        {"cut": {"every": 0.5, "set": {"X": "where(X > 5, X - 5, X)"}}},
    ),
}


@pytest.mark.parametrize("way", ["events", *more("steps", "tolerances")])
def test_a_condition_allows_an_event_at_given_times(way):
    with_condition, events = GATED[way]
    first, second = simkit.run(with_condition), simkit.run(with_condition | {"events": events})
    name = "X_mean" if way == "events" else "x_path" if way == "steps" else "v_mean"
    assert np.array_equal(first[name], second[name])
    plain = simkit.run({key: value for key, value in with_condition.items() if key != "events"})
    assert not np.allclose(first[name], plain[name])


@pytest.mark.more
def test_a_condition_sees_the_state_right_after_a_triggered_event():
    """It holds for far less than the time between two points of a step."""
    kicked = {
        "model": {"ode": {"x": 1.0, "y": "-1e9*(y > 0.5)"}},
        "initial": {"x": 0.0, "y": 0.0},
        "time": {"t1": 2.0, "rtol": 1e-6, "atol": 1e-6},
        "precision": "float64",
        "events": {"kick": {"when": "x > 0.75", "set": {"y": 1, "x": -10}}},
        "observe": {"seen": "hitting_time(y > 0.999)", "never": "hitting_time(x > 0.8)"},
    }
    result = simkit.run(kicked)
    assert float(result["seen_mean"]) == pytest.approx(0.75, abs=1e-9)
    assert float(result["never_mean"]) == 2  # where the step would have gone without the event


@pytest.mark.more
def test_a_ball_that_comes_to_rest_ends_the_run():
    with pytest.raises(NumericalError, match="ever faster, as bounce may, take a step each"):
        simkit.run(BALL | {"time": BALL["time"] | {"t1": 10.0, "max_steps": 2000}})


@pytest.mark.more
def test_what_an_event_may_not_set_is_named():
    wrong = {"harvest": {"when": "X >= 20", "set": {"X": "X/3"}}}
    with pytest.raises(NumericalError, match=r"harvest takes X from 20 to 6\.6"):
        simkit.run(HARVEST | {"events": wrong})


def test_events_at_other_times_on_each_path_are_not_counted_with_the_rows():
    assert "X_events" not in simkit.run(HARVEST)


WRONG = [
    (BALL, {"when": "h"}, "events.bounce.when: must be a condition, such as h > 1, got h"),
    (BALL, {"when": "t > 1"}, "has no state variable .h, v.; use at or every for given times"),
    (BALL, {"when": "q > 1"}, "events.bounce.when: unknown name 'q'"),
    (BALL, {"when": "h < 0", "first": 1}, "events.bounce.first: has no effect without every"),
    (BALL, {}, "give either at, the times, or every, the time between them, or when, a condition"),
    (BALL, {"when": "h < 0", "at": 0.5, "every": 0.5}, "events.bounce.at: give either at"),
    (
        BALL | {"time": {"t1": 1.5, "steps": 60}},
        {"when": "h < 0"},
        "use time.rtol and time.atol .* 0.025",
    ),
]


@pytest.mark.parametrize(("run", "event", "message"), WRONG)
def test_what_is_wrong_with_a_condition_is_said(run, event, message):
    with pytest.raises(InputError, match=message):
        simkit.load(run | {"events": {"bounce": {"set": {"h": 0.0}, **event}}})


def test_no_remedy_for_a_monitored_path_with_a_triggered_event_is_refused_in_turn():
    """Fixed steps do not find the bounce: a path is monitored with them once the times to check are given."""
    monitored = BALL | {"observe": {"top": "max(h)"}}
    with pytest.raises(InputError) as error:
        simkit.load(monitored)
    message = "adaptive steps, by which bounce is found, have no common times; leave it out and take more"
    assert message in str(error.value)
    assert "such as events.bounce.every, and time.steps in place of rtol and atol" in str(error.value)
    fixed = monitored | {"time": {"t1": 1.5, "steps": 150}}
    with pytest.raises(InputError, match="fixed steps of an ordinary equation do not find"):
        simkit.load(fixed)
    simkit.load(fixed, {"events.bounce.every": 0.01})
    without = {key: value for key, value in monitored.items() if key != "events"}
    with pytest.raises(InputError, match=r"no common times; give time\.steps in place"):
        simkit.load(without)


def test_exact_sampling_between_its_times_triggers_none():
    prices = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}}
    knock = {"knock": {"when": "S > 120", "set": {"S": 100}}}
    with pytest.raises(InputError, match=r"nothing would tell how late an event is; .* such as every: 0\.1"):
        simkit.load(prices | {"solver": "ExactSampling", "time": {"t1": 1.0, "steps": 10}, "events": knock})


def test_what_changes_between_events_triggers_none():
    late = {"harvest": {"when": "X > 3*t", "set": {"X": 0}}}
    with pytest.raises(InputError, match="t changes between the events of a network"):
        simkit.load(HARVEST | {"events": late})
    with pytest.raises(InputError, match=r"takes many at a time; use DirectMethod, .* such as every: 0\.04"):
        simkit.load(HARVEST | {"solver": "TauLeaping"})
