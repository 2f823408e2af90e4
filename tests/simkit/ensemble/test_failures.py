"""What the message says of each kind of failing path: which paths, when, where, why and what to do."""

import dataclasses
import re

import numpy as np
import pytest

from simkit import load
from simkit.ensemble.failures import Failure, _texts, failed_paths
from simkit.ensemble.initial import PathValues

EXCLUDE = ", or set `ensemble: {failures: exclude}` to leave such paths out and have them counted"
DEBUG = ". `simkit debug FILE` shows which part of which equation it was"
STEPS = "Use more steps or another solver"
ORDINARY = "Unless the solution itself becomes infinite there, use more steps or another solver"
NO_VALUE = (
    "The equations have no value there, as a division by zero, or the log or the root of a negative number: "
    "write them so that they have one, such as log(maximum(x, 1e-9)), or change a parameter"
)
IDS = np.array([0, 1, 2, 5, 6, 3000])  # the last one is in another block

SQUARE = {
    "model": {"ode": {"x": "x**2"}},
    "initial": {"x": 1.0},
    "time": {"t1": 20.0, "steps": 8},
    "ensemble": {"paths": 5000},
}
TOLERANT = SQUARE | {"time": {"t1": 2.0, "rtol": 1e-6, "atol": 1e-6}}
WALK = {
    "model": {"sde": {"x": {"drift": 0.0, "noise": {"W": 1.0}}}},
    "initial": {"x": 0.0},
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 5000},
}
NO_ROOT = "sqrt(-1 - x**2)"
DIVISION = (
    "The equations have no value there, as a division by zero: write them so that they have one, such as "
    "1/maximum(x, 1e-9), or change a parameter"
)
NO_VOLUME = SQUARE | {"model": {"ode": {"x": "-x/V"}, "parameters": {"V": 0.0}}}
DEATHS = {
    "model": {"reactions": {"death": {"equation": "X -> 0", "propensity": "1 - 0.5*X"}}},
    "initial": {"X": 5},
    "time": {"t1": 40.0},
    "ensemble": {"paths": 5000},
}
CASES = {
    "a state": (SQUARE, "x = inf at t = 5 (step 2 of 8)", "", ORDINARY + EXCLUDE + DEBUG),
    "the only path": (
        SQUARE | {"ensemble": {"paths": 1}},
        "x = inf at t = 5 (step 2 of 8)",
        "",
        ORDINARY + DEBUG,
    ),
    "many steps, of which every fourth is a row": (
        SQUARE | {"time": {"t1": 4.0, "steps": 40_000}},
        "x = nan at t = 1.0004 (step 10004 of 40000)",
        "",
        ORDINARY + EXCLUDE + DEBUG,
    ),
    "a drift without a value": (
        SQUARE
        | {
            "model": {"ode": {"x": "-1 + 0*log(x)"}},
            "initial": {"x": 0.9},
            "time": {"t1": 2.0, "steps": 8},
        },
        "x = nan at t = 1 (step 4 of 8)",
        "",
        NO_VALUE + EXCLUDE + DEBUG,
    ),
    "a division by zero": (NO_VOLUME, "x = nan at t = 2.5 (step 1 of 8)", "", DIVISION + EXCLUDE + DEBUG),
    "a division by zero of adaptive steps": (
        NO_VOLUME | {"time": {"t1": 2.0, "rtol": 1e-6, "atol": 1e-6}},
        "stopped at t = 0 of 2",
        ": the tolerances required a step too short for the clock; the solution may be infinite there",
        DIVISION + EXCLUDE + DEBUG,
    ),
    "the root of a negative number": (
        SQUARE
        | {"model": {"ode": {"x": "-1 - 0*sqrt(x)"}}, "solver": "Euler", "time": {"t1": 4, "steps": 8}},
        "x = nan at t = 2 (step 4 of 8)",
        "",
        DIVISION.replace("a division by zero", "the root of a negative number").replace(
            "1/maximum(x, 1e-9)", "sqrt(maximum(x, 0))"
        )
        + EXCLUDE
        + DEBUG,
    ),
    "a polynomial whose stages overflow within a step": (
        {
            "model": {"ode": {"X": "1 - 3.5*X + X**2*Y", "Y": "2.5*X - X**2*Y"}},
            "initial": {"X": 1.2, "Y": 2.0},
            "solver": "Tsit5",
            "time": {"t1": 60.0, "steps": 60},
            "ensemble": {"paths": 5000},
        },
        "X = nan, Y = nan at t = 7 (step 7 of 60)",
        "",
        ORDINARY + EXCLUDE + DEBUG,
    ),
    "an observable": (
        WALK | {"observe": {"root": {"value": NO_ROOT, "at": "each"}}},
        "root = nan at t = 0 (step 0 of 8)",
        "",
        "The state is finite: write the observable so that it has a value there" + EXCLUDE + DEBUG,
    ),
    "an observable at the end": (
        WALK | {"observe": {"root": {"value": NO_ROOT, "at": "end"}}},
        "root = nan at t = 1 (step 8 of 8)",
        "",
        "The state is finite: write the observable so that it has a value there" + EXCLUDE + DEBUG,
    ),
    "nothing that a replay shows": (WALK, "not finite", "", STEPS + EXCLUDE + DEBUG),
    "tolerances": (
        TOLERANT,
        "stopped at t = 1.000000975 of 2",
        ": the tolerances required a step too short for the clock; the solution may be infinite there",
        "Use another solver, other tolerances or a larger time.max_steps" + EXCLUDE + DEBUG,
    ),
    "a propensity": (
        DEATHS,
        "stopped at t = 0 of 40",
        ": a propensity is negative or not finite",
        "Write propensities that are at or above zero for all counts that there may be" + EXCLUDE + DEBUG,
    ),
}


def test_float32_is_named_where_it_may_be_the_reason():
    message = str(failed_paths(load(TOLERANT | {"precision": "float32"}), IDS))
    assert "atol below 1e-7 of the largest variable may be out of reach: use precision: float64" in message


@pytest.mark.parametrize(("precision", "start"), [("float32", 1e38), ("float64", 1e308), ("float64", -1e304)])
def test_an_initial_value_near_the_largest_number_is_named(precision, start):
    """No warning of an overflow (which are errors here), and no steps to blame; smaller ones are not."""
    growth = SQUARE | {"model": {"ode": {"x": "x"}}, "precision": precision, "initial": {"x": start}}
    message = str(failed_paths(load(growth), IDS[:1]))
    largest = {"float32": "3.4e+38", "float64": "1.8e+308"}[precision]
    said = (
        f". The initial x = {start:g} is near {largest}, the largest number of {precision}: use a larger unit"
    )
    assert said in message
    assert ("or precision: float64" in message) == (precision == "float32")
    assert "Use more steps" not in message
    assert "The initial" not in str(failed_paths(load(growth | {"initial": {"x": start / 1e7}}), IDS[:1]))


@pytest.mark.parametrize("case", CASES)
def test_the_message_of_paths_that_fail_alike(case):
    """The first three are described, the others of their leaf counted; a common reason stands once."""
    given, where, reason, remedy = CASES[case]
    simulation = load(given)
    ids = IDS if simulation.paths > 1 else IDS[:1]
    places = "; ".join(f"path {path}: {where}" for path in ids[:3])
    more = ", and 2 more of the first 2,048 paths" if len(ids) > 1 else ""
    assert str(failed_paths(simulation, ids)) == f"{places}{more}{reason}. {remedy}"


def test_failures_are_counted_among_all_paths_where_these_are_few():
    simulation = dataclasses.replace(load(TOLERANT), paths=1000)
    assert ", and 2 more of all 1,000 paths" in str(failed_paths(simulation, IDS[:-1]))


def test_a_path_is_replayed_by_its_id():
    """From x, the solution is infinite after a time 1/x; 3000 = 4 modulo 7."""
    starts = PathValues(np.array([1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0]))
    simulation = load(TOLERANT).with_run(initial={"x": starts})
    for path, ends in ((3000, "0.5"), (3001, "1.0")):
        message = str(failed_paths(simulation, np.array([path])))
        assert re.match(rf"path {path}: stopped at t = {ends}0000\d+ of 2: ", message)


def test_a_count_below_zero_is_named_with_its_reaction_and_needs_no_debugger():
    given = {"reactions": {"death": {"equation": "X -> 0", "propensity": 1}}}
    message = str(failed_paths(load(DEATHS | {"model": given}), IDS[:1]))
    said = r"path 0: stopped at t = \S+ of 40, where death takes X from 0 to -1: a count would leave 0 .*\. "
    remedy = "Write propensities that vanish where reactants are missing"
    assert re.fullmatch(said + re.escape(remedy + EXCLUDE), message)


def test_small_counts_are_named_as_the_reason_in_a_langevin_equation():
    given = DEATHS | {"solver": "EulerMaruyama", "time": {"t1": 40.0, "steps": 8}}
    assert "The Langevin equation is not valid for small counts: use DirectMethod, or more steps" in str(
        failed_paths(load(given), IDS[:1])
    )


def test_failures_are_grouped_by_reason():
    def failure(path: int, reason: str) -> Failure:
        text = f"path {path}: stopped: {reason}" if reason else f"path {path}: x = inf"
        return Failure(path, text, None, {}, np.zeros(1), reason=reason)

    failures = [failure(0, "too short"), failure(1, ""), failure(2, "too short")]
    assert _texts(failures, ", and 4 more") == (
        "path 0: stopped; path 2: stopped: too short; path 1: x = inf, and 4 more"
    )
    assert _texts(failures[::2], ", and 4 more") == "path 0: stopped; path 2: stopped, and 4 more: too short"
