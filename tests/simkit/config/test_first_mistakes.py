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
    "a value of a variable at a time": (
        {"observe": {"c": "A1(2)"}},
        "observe.c: A1 is not a function (column 1 of the expression); write at(A1, …) for its value at a",
    ),
    "ends by other names": (
        {"time": {"start": 0, "end": 1, "dt": 0.1}},
        "time.start: unknown key; write t0",
        "time.end: unknown key; write t1",
        "time.dt: unknown key; write steps, the number of them from t0 to t1",
    ),
    "a solver by another key": (
        {"solver": {"name": "Tsit5"}},
        "solver.type: is missing; write type in place of name",
    ),
    "a model as a key": (
        {"model": {"GBM": {"mu": 0, "sigma": 1}}},
        "model.GBM: must be a number or an expression, got a mapping; for a model GBM write type: GBM, with",
    ),
    "equations by that word": (
        {"model": {"equations": {"V": "-V"}}},
        "model.type: is missing; a model has a type, equations under sde or ode",
        "model.equations: must be a number or an expression, got a mapping; equations stand under sde or ode",
    ),
    "a parameter by a word for it": (
        {"model": {"type": "GBM", "mu": 0, "vol": 1}, "initial": {"S": 1}},
        "model.vol: unknown parameter of GBM; did you mean 'sigma', volatility?",
    ),
    "parameters beside the equations": (
        {"model": {"ode": {"A1": "-k*A1 - k**2"}, "k": 1}},
        "model.k: unknown key; a parameter of equations in the file stands under parameters: {k: …}",
    ),
    "parameters outside of the model": (
        {"model": {"ode": {"A1": "-k*A1"}}, "parameters": {"k": 1}},
        "parameters: unknown key; write constants",
    ),
    "a derivative as a variable": (
        {"model": {"ode": {"A1'": "-A1"}}},
        """model.ode: "A1'" is not a name: use letters, digits and _, and begin with a letter; write A1""",
    ),
    "an equation of differentials": (
        {"model": {"sde": {"A1": "-A1*dt + dW"}}},
        "an equation has no dt and dW in it: write drift and noise, as in {drift: -x, noise: {W: s}}",
    ),
    "a diffusion": (
        {"model": {"sde": {"A1": {"drift": 0, "diffusion": 1}}}},
        "model.sde.A1.diffusion: unknown key; write noise",
    ),
    "a rate by another name": (
        {"model": {"reactions": {"loss": {"equation": "A1 -> 0", "k": 1}}}, "time": {"t1": 1}},
        "model.reactions.loss.k: unknown key; write rate",
    ),
    "reactants and products": (
        {"model": {"reactions": {"loss": {"reactants": "A1", "products": "0", "rate": 1}}}},
        "model.reactions.loss.reactants: unknown key; write equation, as in equation: S + I -> 2 I",
        "model.reactions.loss.products: unknown key; write equation, as in equation: S + I -> 2 I",
    ),
    "a dose added": (
        {"events": {"dose": {"at": 1, "set": {"A1": "+= 100"}}}},
        "events.dose.set.A1: write the new value as a whole, as in A + 100 in place of += 100",
    ),
    "a time step to save": ({"save": {"every": 0.1}}, "; it counts steps, and save.points the saved times"),
    "a solver of words": ({"solver": "velocity_verlet"}, "solver: unknown solver 'velocity_verlet'; use"),
    "functions of Python": (
        {"model": {"ode": {"A1": lambda t, y: -y}}},
        "value of type function; write an expression as text, such as '-k*x'; a model of your own is an",
    ),
    "a key of several sections": (
        {"paths": 8},
        "paths: unknown key; paths belongs under ensemble or save or",
    ),
    "a key of another section": (
        {"ensemble": {"steps": 8}},
        "ensemble.steps: unknown key; steps belongs under",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_first_mistake_is_answered_by_what_is_there(case):
    changes, *messages = MISTAKES[case]
    with pytest.raises(InputError) as caught:
        load(ORAL | changes)
    assert len(caught.value.problems) == len(messages)
    for message, problem in zip(messages, caught.value.problems, strict=True):
        assert message in problem


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
