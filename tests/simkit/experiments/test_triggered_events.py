"""Events that a condition triggers, and events at given times that it allows."""

import numpy as np
import pytest
from event_examples import BALL, DRIFT, ENGINES, HARVEST, RESET, SOLVERS, more
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, poisson

import simkit
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


@pytest.mark.more
@pytest.mark.parametrize("engine", ENGINES)
def test_a_curve_that_jumps_may_trigger_an_event(engine):
    """At 2, when x is about 20."""
    limit = {"limit": {"times": [0.0, 2.0], "values": [1000.0, 5.0], "interpolation": "previous"}}
    limit["limit"]["outside"] = "hold"
    run = ENGINES[engine] | {"initial": {"x": 0, "n": 0}, "save": {"points": 2}, "curves": limit}
    result = simkit.run(run | {"events": {"over": {"when": "x > limit", "set": {"n": "n + 1"}}}})
    assert result["n_mean"].values.tolist() == [0.0, 1.0, 1.0]


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


def test_events_at_other_times_on_each_path_are_not_counted_with_the_rows():
    assert "X_events" not in simkit.run(HARVEST)
