"""How often events happen, as a run says it."""

import io

import numpy as np
import pytest
from event_examples import BALL, DRIFT, HARVEST, RESET, SOLVERS
from scipy.stats import poisson

import simkit
from simkit import load
from simkit.ensemble.sizes import estimate, estimate_text
from simkit.results.event_notes import event_notes
from simkit.results.table import print_table


@pytest.mark.parametrize("solver", SOLVERS)
def test_harvests_are_counted(solver):
    """As many as 20 goes into a Poisson number of births; the error is that of its known variance."""
    always = {"check": {"at": [1.0, 2.0, 4.0], "when": "X >= 0", "set": {"X": "X"}}}
    result = simkit.run(HARVEST | {"solver": solver, "events": HARVEST["events"] | always})
    births = np.arange(400)
    chances, harvests = poisson.pmf(births, 40.0), births // 20
    mean = np.sum(chances * harvests)
    error = np.sqrt(np.sum(chances * (harvests - mean) ** 2) / 4000)
    assert abs(float(result["harvest_count"]) - mean) < 4 * error
    assert float(result["harvest_count_stderr"]) == pytest.approx(error, rel=0.1)
    assert float(result["check_count"]) == 3


@pytest.mark.more
def test_leaps_leave_an_unknown_bias_in_counts():
    """A leap moves what a condition at given times sees, as a step of a stochastic equation does."""
    cut = {"cut": {"at": [1.0, 2.0], "when": "X >= 20", "set": {"X": "X - 20"}}}
    for solver, said in (("TauLeaping", True), ("DirectMethod", False)):
        result = simkit.run(HARVEST | {"solver": solver, "events": cut})
        assert event_notes(result)[0].endswith(", with an unknown step bias") == said


@pytest.mark.more
def test_bounces_are_counted_and_an_event_that_never_happens_is_named():
    """A ball from 1 m is on the ground after 0.45 s, and then every 0.72 s, 0.58 s, …"""
    never = {
        "never": {"when": "h == 0.5", "set": {"v": 0}},
        "late": {"at": [1.0], "when": "h > 2", "set": {"v": 0}},
    }
    result = simkit.run(BALL | {"time": BALL["time"] | {"t1": 2.0}, "events": BALL["events"] | never})
    assert [float(result[f"{name}_count"]) for name in ("bounce", "never", "late")] == [3, 0, 0]
    assert event_notes(result) == [
        "event bounce: 3 times",
        "! event never never happened: `h == 0.5` never went from false to true (holding from the start does "
        "not count); what changes continuously is hardly ever equal to a number: use < or > for that",
        "! event late never happened: `h > 2` held at none of its times",
    ]


@pytest.mark.more
@pytest.mark.parametrize("checked", [{}, {"every": 0.02}])
def test_resets_of_a_stochastic_equation_are_counted(checked):
    """What the resets took from the same path without them, of 1 each time, is their number."""
    plain = simkit.run(DRIFT)
    reset = simkit.run(DRIFT | {"events": {"reset": RESET["events"]["reset"] | checked}})
    lost = plain["x_path"].values[:, -1] - reset["x_path"].values[:, -1]
    assert float(reset["reset_count"]) == pytest.approx(lost.mean(), abs=1e-9)
    assert float(reset["reset_count_stderr"]) == pytest.approx(lost.std(ddof=1) / np.sqrt(32), abs=1e-9)
    assert event_notes(reset)[0].endswith(" times on a path, with an unknown step bias")


KINDS = {
    "steps": {
        "model": {"sde": {"x": {"drift": "g", "noise": {"W": 0.1}}}},
        "time": {"t1": 4.0, "steps": 64},
        "solver": "EulerMaruyama",
    },
    "tolerances": {"model": {"ode": {"x": "g"}}, "time": {"t1": 4.0, "rtol": 1e-6, "atol": 1e-6}},
    "reactions": {"model": {"reactions": {"r": {"equation": "0 -> x", "rate": "g"}}}, "time": {"t1": 4.0}},
}


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_counts_have_events_at_the_start_and_those_that_events_and_curves_trigger(kind):
    """At 0, 1, 2 and 3 x is set to 50, which brings it back to 0; and at 2.5 a parameter jumps."""
    jump = {"times": [0, 2.5], "values": [0, 1], "interpolation": "previous", "outside": "hold"}
    events = {
        "given": {"at": [0, 1, 2, 3], "when": "x > -100", "set": {"x": 50}},
        "back": {"when": "x > 40", "set": {"x": 0}},
        "jumped": {"when": "g > 0.5 and x > -100", "set": {"x": 1}},
        "not_now": {"at": [1, 2], "when": "x > 60", "set": {"x": 0}},
    }
    result = simkit.run(
        {"initial": {"x": 0}, "curves": {"g": jump}, "events": events, "precision": "float64"}
        | KINDS[kind]
        | {"ensemble": {"paths": 64, "seed": 3, "devices": 1, "unresolved": "keep"}, "save": {"points": 1}}
    )
    counts = [float(result[f"{name}_count"]) for name in events]
    assert counts == [4, 4, 1, 0]
    random = kind != "tolerances"
    assert [float(result[f"{name}_count_stderr"]) for name in events] == [1 / 64 if random else 0] * 4


def test_one_random_path_shows_no_error_of_its_count():
    run = HARVEST | {"ensemble": {"paths": 1, "seed": 5}}
    result = simkit.run(run)
    assert np.isnan(float(result["harvest_count_stderr"]))
    assert event_notes(result)[0].endswith("± ? times")


def test_what_counts_that_never_happened_say_of_their_conditions():
    """Whole numbers are often equal to a number; times may be given by `every`, too."""
    events = {
        "same": {"when": "X == 1000", "set": {"X": 0}},
        "now": {"every": 1.0, "when": "X > 1e6", "set": {"X": 0}},
    }
    assert event_notes(simkit.run(HARVEST | {"events": events})) == [
        "! event same never happened: `X == 1000` never went from false to true (holding from the start does "
        "not count)",
        "! event now never happened: `X > 1e6` held at none of its times",
    ]


def test_a_condition_that_holds_throughout_is_said_not_to_have_become_true():
    """x falls from 1, so x < 2 holds from the start to the end, and nothing happens."""
    kick = {"when": "x < 2", "set": {"x": 0.5}}
    falling = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "events": {"kick": kick}}
    (note,) = event_notes(simkit.run(falling | {"time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-6}}))
    assert note.endswith("`x < 2` never went from false to true (holding from the start does not count)")


DOSED = {
    "model": {"ode": {"A": "-0.1*A"}},
    "initial": {"A": 0.0},
    "time": {"t1": 168, "steps": 168, "unit": "h"},
    "events": {
        "dose": {"every": 24, "last": 168, "set": {"A": "A + 100"}},
        "wash": {"at": 30, "set": {"A": 0}},
    },
}


def test_events_at_given_times_are_counted_before_the_run_and_below_its_table():
    """`every: 24` begins at 24: a first dose at 0 is missing, which no figure shows."""
    line = "events: dose 7 times, first at 24 h, last at 168 h; wash once, at 30 h"
    assert estimate_text(estimate(load(DOSED))).splitlines()[2] == line
    assert event_notes(simkit.run(DOSED)) == [line]
    without = {**DOSED, "time": {"t1": 168, "steps": 168}, "events": {"wash": DOSED["events"]["wash"]}}
    assert event_notes(simkit.run(without)) == ["events: wash once, at 30"]
    assert "events" not in estimate(load(HARVEST))


def test_that_an_event_never_happened_is_said_first():
    """It may be why other figures are not as they should be."""
    events = {"now": {"every": 1.0, "when": "X > 1e6", "set": {"X": 0}}}
    file = io.StringIO()
    print_table(simkit.run(HARVEST | {"events": events, "observe": {"when": "hitting_time(X > 1e6)"}}), file)
    _, _, below = file.getvalue().rpartition("┘")
    assert below.split("\n")[1].startswith("! event now never happened")
    assert len(below.strip().split("\n")) > 2


def test_events_are_counted_on_the_paths_that_have_not_failed():
    """A path that becomes infinite has no part in the count."""
    fatal = {
        "model": {"sde": {"x": {"drift": "exp(50*x)", "noise": {"W": 1.0}}}},
        "time": {"t1": 1.0, "steps": 50},
        "ensemble": {"paths": 256, "seed": 4, "failures": "exclude", "unresolved": "keep"},
        "events": {"up": {"every": 0.5, "when": "x > -100", "set": {"x": "x"}}},
    }
    result = simkit.run(DRIFT | fatal | {"save": {"points": 1}})
    assert 0 < result.attrs["failed_paths"] < 256
    assert float(result["up_count"]) == 1
