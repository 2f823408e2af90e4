"""Distributions, numbers and functions that cannot be studied are refused, with a remedy."""

import math

import jax.numpy as jnp
import pytest
from study_examples import CUBE, ishigami

from simkit import InputError, NumericalError
from simkit.distributions.distribution import BY_KEY
from simkit.studies import (
    derivative_measures,
    elementary_effects,
    propagate,
    sobol_indices,
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uniform": ["-q", 1]}, r"uniform: low must be a number, or an expression of .*unknown name 'q'"),
        ({"uniform": [0, "1/0"]}, r"uniform: high must be finite, got inf"),
        ({"normal": [0, -1]}, r"normal: sd must be >= 0, got -1"),
        ({"normal": [0, 0]}, r"normal: sd must be > 0, got 0; a value that is known is a plain number"),
        ({"normal": {"mean": 0}}, r"normal: sd is missing; write normal: {mean: …, sd: …}"),
        ({"normal": {"mean": 0, "sdd": 1}}, r"normal has no 'sdd'; did you mean 'sd'\?"),
        ({"normal": [0, 1, 2]}, r"normal takes mean, sd, got 3 numbers"),
        ({"normal": [0, "1"]}, r"normal: sd must be a number, got '1'; write normal: {mean: …, sd: …}$"),
        (
            {"discrete": [[1, 2], [0.5]]},
            r"discrete: values must be numbers, got \[1, 2\]; write discrete: {values: …, probabilities: …}$",
        ),
        ({"normal": [0, float("nan")]}, r"normal: sd must be finite"),
        ({"uniform": [1, 1]}, r"uniform: low must be below high, got 1 and 1"),
        ({"triangular": [0, 3, 2]}, r"triangular: mode must lie between low and high, got 3"),
        ({"beta": [0, 1]}, r"beta: a must be > 0, got 0"),
        ({"truncated_normal": [0, 1, 50, 60]}, r"truncated_normal: low and high are so far"),
        ({"discrete": [1]}, r"discrete: values must be at least two different numbers"),
        ({"discrete": {"values": [1, 2], "probabilities": [0.5]}}, r"2 values and 1 probabilities"),
        ({"discrete": {"values": [1, 2], "probabilities": [0.5, 0.6]}}, r"these add up to 1.1"),
        ({"gauss": [0, 1]}, r"unknown distribution 'gauss'"),
        ({"normal": [0, 1], "uniform": [0, 1]}, r"a distribution has one key"),
        ({"normal": 3}, r"normal: must be its numbers, got 3"),
    ],
)
def test_wrong_distributions_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        sobol_indices(ishigami, [given, *CUBE[1:]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": 1000}, r"points: must be a power of two"),
        ({"replicates": 1}, r"replicates: must be at least 2"),
        ({"estimator": "sobol"}, r"estimator: must be one of saltelli, jansen, janon"),
        ({"order": 3}, r"order: must be 1 or 2"),
        ({"groups": {"g": ["x7"]}}, r"groups\.g: no uncertain parameter 'x7'"),
        ({"groups": {"g": ["x1"], "h": ["x1"]}}, r"groups\.h: x1 is in g too"),
        ({"groups": {"x1": ["x2"]}}, r"groups\.x1: x1 is a parameter"),
        ({"width": 0}, r"width: must be > 0"),
        ({"confidence": 1}, r"confidence: must be between 0 and 1"),
        ({"seed": -1}, r"seed: must be a whole number"),
    ],
)
def test_wrong_numbers_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        sobol_indices(ishigami, CUBE, **changes)


def test_the_size_of_a_study_by_walks_is_called_so():
    with pytest.raises(InputError, match=r"^walks: must be at least 2, got 1$"):
        elementary_effects(ishigami, CUBE, walks=1)


def test_functions_that_cannot_be_studied_are_refused():
    with pytest.raises(InputError, match="has the shape \\(3,\\)"):
        sobol_indices(lambda x: x, CUBE)
    with pytest.raises(NumericalError, match=r"value is nan at x1 = -"):
        sobol_indices(lambda x: jnp.log(x[0]), CUBE, points=64)
    with pytest.raises(InputError, match=r"distributions\.a: is discrete, and has no derivative"):
        derivative_measures(lambda a: a, {"a": {"discrete": [0, 1]}})
    with pytest.raises(InputError, match="there are no distributions"):
        propagate(lambda: 1.0, {})
    with pytest.raises(InputError, match=r"^a: must be a distribution such as \{uniform: \[0, 1\]\}, got 3"):
        propagate(lambda a: a, {"a": 3.0})
    distribution = {"uniform": [0, 1]}
    with pytest.raises(InputError, match=r"is called by name with a, b, and takes \(a\): got an unexpected"):
        propagate(lambda a: a, {"a": distribution, "b": distribution})
    with pytest.raises(InputError, match=r"is called with one array, and takes \(a, b\): missing a required"):
        propagate(lambda a, b: a, [distribution, distribution])
    for function in (math.sin, lambda a: a if a > 0.5 else -a):
        with pytest.raises(InputError, match=r"must be written for JAX, with jax.numpy in place of math"):
            propagate(lambda a, f=function: f(a), {"a": distribution}, points=64)


def test_a_budget_below_the_first_runs_is_refused():
    wrong = r"^budget: must be at least .* runs, 5,120 \(16 replicates × 64 points × 5 runs\), got 5,119$"
    with pytest.raises(InputError, match=wrong):
        sobol_indices(ishigami, CUBE, points=64, width=0.1, budget=5119)
    with pytest.raises(InputError, match=r"^budget: says when to stop on the way to a width; add width"):
        sobol_indices(ishigami, CUBE, points=64, budget=5120)
    assert sobol_indices(ishigami, CUBE, points=64, width=1e-9, budget=5120).attrs["runs"] == 5120


def test_distributions_have_their_keys_in_the_file():
    from simkit.config.settings import DISTRIBUTIONS

    assert tuple(BY_KEY) == DISTRIBUTIONS
