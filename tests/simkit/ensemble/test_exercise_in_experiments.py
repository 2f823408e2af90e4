"""Early exercise in experiments: its dates, what is refused, and values that are not finite."""

import pytest
from exercise_examples import PUT, experiment

import simkit
from simkit import InputError, NumericalError, experiment_schema, load
from simkit.config.settings import MAX_PATHS
from simkit.observe.exercise import Exercise

pytestmark = pytest.mark.more


def test_step_bias_keeps_the_dates():
    observer = load(experiment({"dates": 5, "paths": 4096}, time={"t1": 1.0, "steps": 20})).observer
    assert observer.exercised[0][1].when == (4, 8, 12, 16, 20)
    assert observer.coarsened(2).exercised[0][1].when == (2, 4, 6, 8, 10)
    assert observer.coarsened(3) is None
    assert observer.refined(2).exercised[0][1].when == (8, 16, 24, 32, 40)


@pytest.mark.parametrize(
    ("early_exercise", "changes", "message"),
    [
        ({}, {}, r"early_exercise\.dates: is missing; the number of equally spaced"),
        ({"dates": 3}, {}, r"early_exercise\.dates: 3 does not divide the 10 steps; use dates: 2 or 5"),
        (
            {"dates": [0.1, 0.25]},
            {},
            r"early_exercise\.dates\[1\]: the time 0\.25 is inside one of .* steps: 20$",
        ),
        (
            {"dates": [0.0, 0.5]},
            {},
            r"dates\[0\]: must be after t0 = 0 and .*, got 0; compare with the value",
        ),
        ({"dates": [0.5, 1.5]}, {}, r"early_exercise\.dates\[1\]: must be .* at most t1 = 1, got 1\.5$"),
        ({"dates": [0.5, 0.2]}, {}, r"early_exercise\.dates\[1\]: must increase, got 0\.2 after 0\.5"),
        ({"dates": []}, {}, r"early_exercise\.dates: must be a number of dates, or a list of times, got an"),
        ({"dates": [0.5, "x"]}, {}, r"early_exercise\.dates\[1\]: unknown name 'x'"),
        ({"dates": ["vol", "2*vol +"]}, {}, r"early_exercise\.dates\[1\]: "),
        ({"dates": [0.5, "1"]}, {}, r"early_exercise\.dates: '1' is text, not a number"),
        ({"dates": 2.5}, {}, r"early_exercise\.dates: must be a whole number, got 2\.5"),
        ({"dates": 5, "basis": []}, {}, r"early_exercise\.basis: must be a list of expressions"),
        ({"dates": 5, "basis": ["y"]}, {}, r"early_exercise\.basis\[0\]: unknown name 'y'"),
        ({"dates": 5, "degree": 0}, {}, r"early_exercise\.degree: must be at least 1, got 0"),
        ({"dates": 5, "degree": 9, "paths": 64}, {}, r"degree: 9 makes 10 polynomials, which need 10 paths"),
        (
            {"dates": 5},
            {"ensemble": {"paths": 2**32 - 5}},
            r"early_exercise\.paths: 65536 reserve 540672 paths for policies, which with",
        ),
        (
            {"dates": 5},
            {
                "solver": "Milstein",
                "time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3},
            },
            r"early_exercise: adaptive steps have no common dates; give time\.steps",
        ),
        (
            {"dates": 5},
            {
                "model": {"type": "BirthDeath", "birth_rate": 0.1, "death_rate": 0.11},
                "initial": {"X": 100},
                "time": {"t1": 1.0},
                "solver": "DirectMethod",
                "observe": {"put": {"value": "X", "early_exercise": {"dates": 5}}},
            },
            r"early_exercise: events have no common dates",
        ),
        (
            {"dates": 5},
            {"observe": {"put": {"value": PUT, "at": "each", "early_exercise": {"dates": 5}}}},
            r"observe\.put\.at: has no effect: an option with early exercise has one value",
        ),
        ({"dates": 5, "date": 5}, {}, r"early_exercise\.date: unknown key; "),
    ],
)
def test_bad_input(early_exercise, changes, message):
    with pytest.raises(InputError, match=message):
        load(experiment(early_exercise, **changes))


def test_dates_are_expressions_of_constants():
    given = {"constants": {"K": 100.0, "r": 0.05, "vol": 0.25, "T": 1.0, "c": 0.4}}
    observer = load(experiment({"dates": ["c/2", "T - 3/10", 1], "paths": 4096}, **given)).observer
    assert observer.exercised[0][1].when == (2, 7, 10)
    with pytest.raises(InputError, match=r"early_exercise\.dates\[1\]: must be after t0 = 0 and at most"):
        load(experiment({"dates": ["c", "T + c"]}, **given))


@pytest.mark.slow
def test_a_constant_that_moves_a_date_is_no_target():
    given = {"constants": {"K": 100.0, "r": 0.05, "vol": 0.25, "T": 1.0, "c": 0.4}}
    time = {"t1": "T", "steps": 10}
    early = {"dates": ["c", "T"], "degree": 2, "paths": 2048}
    moved = experiment(early, **given, time=time, sensitivity={"wrt": ["c"]})
    with pytest.raises(InputError, match="c shifts the exercise dates of put relative to the step grid"):
        simkit.sensitivity(moved)
    whole = experiment(
        {**early, "dates": ["T/2", "T"]}, **given, time=time, sensitivity={"wrt": ["T"]}
    )  # all dates in proportion, as a number of dates
    assert float(simkit.sensitivity(whole)["put_derivative"][0]) > 1


@pytest.mark.slow
def test_values_that_are_not_finite_are_not_passed_over():
    option = {"dates": 1, "paths": 2048}
    settings = experiment(None, observe={"put": {"value": "log(x - 4.6)", "early_exercise": option}})
    settings["time"]["steps"] = 8
    with pytest.raises(NumericalError, match=r"path 42949\d+: put = nan at t = "):
        simkit.run(settings)


def test_a_path_that_fails_after_the_first_chunk_is_named():
    """Of the paths for the martingale, whose first 2048 are all finite; a replay knows the path by its id."""
    option = {"dates": 1, "paths": 2048}
    settings = experiment(None, observe={"put": {"value": "log(x - 3.75)", "early_exercise": option}})
    settings["ensemble"]["chunk"] = 2048
    with pytest.raises(NumericalError, match=r"^path 42949\d+: put = nan at t = ") as error:
        simkit.run(settings)
    first = MAX_PATHS - Exercise((1,), 1, (), 1, 2048).reserved
    assert int(str(error.value).split(":")[0].split()[1]) >= first + 2048


def test_schema_has_the_section():
    keys = experiment_schema()["$defs"]["EarlyExercise"]["properties"]
    assert list(keys) == ["dates", "basis", "degree", "paths"]
