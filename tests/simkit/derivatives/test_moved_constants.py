"""Differences of networks follow what constants make of a target, and say where their step has no error."""

import numpy as np
import pytest

import simkit
from simkit.derivatives.table import all_unresolved, notes

T, SUPPLY = 350.0, 20.0
RATE = "exp(-E*(1/T - 1/350))"
ARRHENIUS = {
    "constants": {"T": T, "E": 0.0, "k": RATE},
    "model": {
        "reactions": {
            "supply": {"equation": "0 -> A", "rate": SUPPLY},
            "loss": {"equation": "A -> 0", "rate": "k"},
        }
    },
    "initial": {"A": 0},
    "time": {"t1": 20},
    "ensemble": {"paths": 20_000, "seed": 2},
    "observe": {"count": "A"},
    "sensitivity": {"wrt": ["T"]},
}

COMMON = pytest.param("CommonReactionPaths", marks=pytest.mark.slow)


def figures(result, name="count"):
    return [result[f"{name}_derivative{part}"].values.ravel()[-1] for part in ("", "_stderr", "_step_error")]


@pytest.mark.more
@pytest.mark.parametrize("solver", ["DirectMethod", COMMON])
@pytest.mark.parametrize("activation", [20.0, 26.0, 60.0])
def test_a_rate_by_arrhenius_is_the_same_in_constants_and_in_the_reaction(activation, solver):
    """Along its tangent in T the rate goes below 0 at 4 % of T, and at 1 % the mean is off by up to half."""
    changes = {"constants.E": T * activation, "solver": solver, "sensitivity.method": "coupled_differences"}
    result = [
        figures(simkit.sensitivity(ARRHENIUS, overrides=changes | {"model.reactions.loss.rate": rate}))
        for rate in ("k", RATE)
    ]
    assert result[0] == result[1]
    slope, error, left = result[0]
    exact = -SUPPLY * activation / T
    assert abs(slope - exact) < 4.5 * np.hypot(error, left)
    assert 0 < np.hypot(error, left) < 0.02 * abs(exact)


@pytest.mark.more
def test_a_target_that_moves_two_rates_strongly():
    both = {"k1": "20*exp(-26*350*(1/T - 1/350))", "k2": "exp(-60*350*(1/T - 1/350))"}
    rates = {"model.reactions.supply.rate": "k1", "model.reactions.loss.rate": "k2"}
    given = ARRHENIUS | {"constants": {"T": T} | both}
    slope, error, left = figures(simkit.sensitivity(given, overrides=rates))
    exact = SUPPLY * (26 - 60) / T
    assert abs(slope - exact) < 4.5 * np.hypot(error, left)
    assert 0 < np.hypot(error, left) < 0.02 * abs(exact)


@pytest.mark.more
def test_a_target_that_is_tiny_or_zero():
    for d in (0.0, 1e-6):
        given = ARRHENIUS | {"constants": {"d": d, "k": "exp(26*d)"}, "sensitivity": {"wrt": ["d"]}}
        result = simkit.sensitivity(given)
        slope, error = (result[f"count_derivative{part}"].item() for part in ("", "_stderr"))
        assert abs(slope + 26 * SUPPLY) < 4.5 * error < 0.2 * 26 * SUPPLY


NARROW = ARRHENIUS | {
    "constants": {"c": 10.0, "k": "sqrt(10.2 - c)"},  # none at 10.4, four times as far away as 10.1
    "ensemble": {"paths": 2000, "seed": 2},
    "sensitivity": {"wrt": ["c"], "method": "coupled_differences"},
}
SHORT = {
    "model": {"ode": {"x": "-a*x"}, "parameters": {"a": 1.0}},
    "initial": {"x": 1.0},
    "time": {"t1": 10.0, "rtol": 1e-4, "atol": 1e-6, "max_steps": 20},
    "sensitivity": {"wrt": ["a"]},
}
NOISY = {  # paths fail with smaller tolerances only
    "model": {"sde": {"x": {"drift": "-a*x", "noise": {"W": 0.5}}}, "parameters": {"a": 5.0}},
    "initial": {"x": 1.0},
    "time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-3, "max_steps": 150},
    "solver": "Milstein",
    "ensemble": {"paths": 64},
    "save": {"points": 1},
    "sensitivity": {"wrt": ["a"]},
}
BY_DIFFERENCES = SHORT | {"sensitivity": {"wrt": ["a"], "method": "finite_differences"}}


@pytest.mark.more
def test_copies_come_closer_where_none_are_farther_apart():
    slope, error, left = figures(simkit.sensitivity(NARROW))
    exact = SUPPLY / (2 * 0.2**1.5)  # of 20/k
    assert abs(slope - exact) < 4.5 * np.hypot(error, left)
    assert 0 < left < 0.1 * exact


@pytest.mark.parametrize(
    ("experiment", "label", "why"),
    [
        pytest.param(
            *(NARROW, "count by c", "at the values farther apart that would show it"), marks=pytest.mark.more
        ),
        pytest.param(
            *(SHORT, "x by a", "paths fail with the tighter tolerances that would show it"),
            marks=pytest.mark.more,
        ),
        pytest.param(
            *(NOISY, "x by a", "paths fail with other tolerances; use a larger time.max_steps"),
            marks=pytest.mark.more,
        ),
        (BY_DIFFERENCES, "x by a", "paths fail with the tighter tolerances that would show it"),
    ],
)
def test_a_step_error_that_no_other_run_shows_is_said_to_be_unknown(monkeypatch, experiment, label, why):
    monkeypatch.setattr("simkit.derivatives.derivative_part.shortest", lambda precision: 1.0)
    with pytest.warns(UserWarning, match=f"error of {label} unknown"):
        result = simkit.sensitivity(experiment)
    assert result.attrs["unresolved"] == f'{{"{label}": 0}}'
    (line,) = all_unresolved(result)
    assert line in notes(result)
    assert line.startswith("! ")
    assert f"error of {label} unknown: " in line
    assert why in line
    assert np.isnan(figures(result, label.split()[0])[2])
