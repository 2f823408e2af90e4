"""What people of each field write first, in the words of their programs, is answered by what simkit has."""

import math

import numpy as np
import pytest

from simkit import InputError, load, run

ORAL = {
    "model": {"ode": {"A1": "-CL/V1*A1"}, "parameters": {"CL": 1.0, "V1": 10.0}},
    "initial": {"A1": 100.0},
    "time": {"t1": 24.0, "steps": 240},
}
UNIT = "has a unit, and times are plain numbers, all in the same unit: write {} if {} is that unit, which "
FORM = "a distribution is not a function; for a constant, a parameter or an initial value write "
TOLERANCES = "; tolerances stand under time, in place of steps: time: {t1: …, rtol: …, atol: …}"


def with_parameters(**changes):
    return {"model": ORAL["model"] | {"parameters": ORAL["model"]["parameters"] | changes}}


MISTAKES = {
    "an end with a unit": ({"time": {"t1": "24h", "steps": 4}}, "time.t1: '24h' " + UNIT.format(24, "h")),
    "an interval of doses with a unit": (
        {"events": {"dose": {"every": "12 h", "set": {"A1": "A1 + 100"}}}},
        "events.dose.every: '12 h' " + UNIT.format(12, "h"),
    ),
    "a distribution as a function": (
        with_parameters(CL="lognormal(1, 0.3)"),
        FORM + "{lognormal: [1, 0.3]}, without quotes (mean and sd of the logarithm; or median and cv)",
    ),
    "a distribution of named numbers as a function": (
        {"initial": {"A1": "Normal(mean=100, sd=5)"}},
        FORM + "{normal: {mean: 100, sd: 5}}, without quotes (mean and sd)",
    ),
    "mean and cv": (
        {"initial": {"A1": {"lognormal": {"mean": 2, "cv": "s"}}}, "constants": {"s": 0.3}},
        "initial.A1.lognormal: mean is that of the logarithm, cv is not; for a number whose own mean is 2.0 "
        "write {median: (2.0)/sqrt(1 + (s)**2), cv: s}",
    ),
    "mean and median": (
        {"initial": {"A1": {"lognormal": {"mean": 2, "median": 1}}}},
        "initial.A1.lognormal: give mean or median, not both",
    ),
    "a negative median": (
        {"initial": {"A1": {"lognormal": {"median": -1, "sd": 1}}}},
        "initial.A1.lognormal: median must be > 0, got -1",
    ),
    "tolerances of a solver": (
        {"solver": {"type": "Tsit5", "rtol": 1e-6}},
        "solver.rtol: solver Tsit5 has no option 'rtol'" + TOLERANCES,
    ),
    "a time of an observable": (
        {"observe": {"c": {"value": "A1/V1", "at": 2}}},
        "observe.c.at: must be end or each, got 2; a value at one time is an observable: value: at(A1/V1, 2)",
    ),
    "a number in a condition": (
        {"observe": {"c": "max(A1) >= 5 and A1"}},
        "observe.c: 'A1' is a number where a condition is needed; compare it with another, as in S > 1 "
        "(column 18 of the expression)",
    ),
    "a probability": ({"observe": {"c": "P(A1 > 3)"}}, "is its probability; observe A1 > 3 alone"),
    "times to save": ({"save": {"times": [1, 2]}}, "save.times: unknown key; write points, the number of"),
    "a key of another section": (
        {"ensemble": {"steps": 8}},
        "ensemble.steps: unknown key; steps belongs under",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_first_mistake_is_answered_by_what_is_there(case):
    changes, message = MISTAKES[case]
    with pytest.raises(InputError) as caught:
        load(ORAL | changes)
    assert len(caught.value.problems) == 1
    assert message in caught.value.problems[0]


def test_a_lognormal_number_may_have_a_median_and_a_coefficient_of_variation():
    """Its mean is m√(1 + c²), whose slope in m is √(1 + c²)."""
    start = {"lognormal": {"median": "m", "cv": 0.3}}
    given = {
        "constants": {"m": 100.0},
        "model": {"type": "GBM", "mu": 0.0, "sigma": 0.0},
        "initial": {"S": start},
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 20_000, "seed": 5},
    }
    result = run(given)
    mean = 100 * math.sqrt(1.09)
    assert abs(float(result["S_mean"][-1]) - mean) < 4 * float(result["S_stderr"][-1])
    assert float(result["S_stderr"][-1]) == pytest.approx(0.3 * mean / math.sqrt(20_000), rel=0.03)
    np.testing.assert_allclose(load(given).run.initial["S"].median, 100.0, rtol=1e-12)
