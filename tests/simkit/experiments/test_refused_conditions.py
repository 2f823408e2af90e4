"""Conditions of events that cannot be read or observed are refused, with a remedy."""

import pytest
from event_examples import BALL, HARVEST

import simkit
from simkit import InputError, NumericalError


@pytest.mark.more
def test_a_ball_that_comes_to_rest_ends_the_run():
    with pytest.raises(NumericalError, match="ever faster, as bounce may, take a step each"):
        simkit.run(BALL | {"time": BALL["time"] | {"t1": 10.0, "max_steps": 2000}})


@pytest.mark.more
def test_what_an_event_may_not_set_is_named():
    wrong = {"harvest": {"when": "X >= 20", "set": {"X": "X/3"}}}
    with pytest.raises(NumericalError, match=r"harvest takes X from 20 to 6\.6"):
        simkit.run(HARVEST | {"events": wrong})


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
