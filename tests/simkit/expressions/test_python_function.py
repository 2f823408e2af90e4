"""A function of Python's in the place of an expression gives what the expression gives."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simkit_physics import GBM, MODELS
from simkit_solvers import AbstractODE

import simkit
from simkit import InputError
from simkit.engines.loaded import load_each
from simkit.expressions import Expression, python_expression

CALL = "exp(-mu*t) * maximum(S - K, 0)"


def call(state, params, t):
    return jnp.exp(-params.mu * t) * jnp.maximum(state.S - params.K, 0)


def experiment(**observe) -> dict:
    return {
        "constants": {"K": 100},
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "time": {"t1": 1.0, "steps": 4},
        "solver": "ExactSampling",
        "ensemble": {"paths": 4096, "seed": 1, "devices": 1},
        "observe": observe,
    }


@pytest.fixture(scope="module")
def dataset():
    return simkit.run(
        experiment(
            function={"value": call, "at": "each", "exact": 10.450583572},
            text={"value": CALL, "at": "each"},
            inside=lambda state, params, t: state.S > params.K,
            condition="S > K",
        )
    )


def test_it_has_the_mean_and_errors_of_the_expression(dataset):
    for one, other in (("function", "text"), ("inside", "condition")):
        for statistic in ("mean", "stderr", "variance"):
            np.testing.assert_allclose(dataset[f"{one}_{statistic}"], dataset[f"{other}_{statistic}"], 1e-12)
    assert abs(float(dataset["function_z"])) < 5


def test_its_name_says_what_it_is(dataset):
    assert "call (Python)" in dataset["function_mean"].attrs["long_name"]


def test_functions_of_the_same_name_do_not_share_results():
    first = simkit.run(experiment(a=lambda s, p, t: s.S, b=lambda s, p, t: 2 * s.S))
    again = simkit.run(experiment(a=lambda s, p, t: 3 * s.S))
    assert float(first["b_mean"]) == pytest.approx(2 * float(first["a_mean"]), 1e-12)
    assert float(again["a_mean"]) == pytest.approx(3 * float(first["a_mean"]), 1e-12)
    assert python_expression("f", call, ["S"], ["mu", "K"]) != python_expression("f", min, ["S"], ["mu", "K"])
    assert not isinstance(python_expression("f", call, ["S"], []), type(Expression))


def test_derivatives_take_it_to_jump_anywhere():
    result = simkit.sensitivity(experiment(a=call, b=CALL), ["sigma"])
    estimators = [str(result[f"{name}_derivative_estimator"].values[0]) for name in "ab"]
    assert estimators == ["finite differences", "pathwise"]
    here, there = (float(result[f"{name}_derivative"][0]) for name in "ab")
    assert here == pytest.approx(there, rel=2e-3)


def test_variants_and_constants_see_it():
    variants = {"low": {"constants.K": 90}, "high": {}}
    result = simkit.run(experiment(a=call) | {"variants": variants})
    low, high = (float(result["a_mean"].sel(variant=name)) for name in ("low", "high"))
    assert low > high + 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s, p, t: s.X, r"state has no 'X'; known: S"),
        (lambda s, p, t: s.mu, r"state has no 'mu'; it is in params: params\.mu"),
        (lambda s, p, t: p.strike, r"params has no 'strike'; known: mu, sigma, K"),
        (lambda s, p, t: p.S, r"params has no 'S'; it is in state: state\.S"),
        (lambda s, p, t: t.later, r"raises AttributeError: .*later"),
        (lambda s: s.S, r"must take \(state, params, t\)"),
        (lambda s, p: s.S, r"must take \(state, params, t\)"),
        (lambda s, p, t: (lambda: s.S)(1), r"raises TypeError: .*takes 0 positional arguments"),
        (lambda s, p, t: np.log(s.S), r".*use jax\.numpy in place of numpy"),
        (lambda s, p, t: math.log(s.S), r".*use jax\.numpy in place of math"),
        (lambda s, p, t: float(s.S), r".*leave out float and int"),
        (lambda s, p, t: int(s.S), r".*leave out float and int"),
        (lambda s, p, t: next(iter(())), r"raises StopIteration$"),
        (lambda s, p, t: jnp.stack([s.S, t]), r"must return one real number for one path, got \(2,\)"),
        (
            lambda s, p, t: jax.lax.complex(s.S, s.S),
            r"must return one real .*, got complex64",
        ),
        (lambda s, p, t: s.S + np.random.normal(), r"computes something else each time, as of random"),
        (
            lambda s, p, t: s.S * jnp.asarray(np.random.normal(size=2), s.S.dtype)[0],
            r"computes something else each time",
        ),
        (lambda s, p, t: None, r"must return one real number for one path, got NoneType"),
        (lambda s, p, t: "high", r"must return one real number for one path, got str$"),
        (lambda s, p, t: (s.S, "high"), r"must return one real number for one path, got tuple$"),
        (lambda s, p, t: p, r"must return one real number for one path, got Parameters$"),
        (lambda s, p, t: 1.0 if s.S > 1 else 0.0, r".*use jnp\.where in place of if"),
        (lambda s, p, t: max(s.S, 1.0), r".*use jnp\.where .* jnp\.maximum"),
    ],
)
def test_what_is_wrong_is_named_at_its_place(function, message):
    with pytest.raises(InputError, match=rf"^observe\.bad: <lambda> \(Python\) {message}"):
        load_each(experiment(bad=function))


LEVEL, TABLE, ARRAY = 1.0, {"level": [1.0]}, np.ones(2)


def helper(x):
    return x * LEVEL


class Drifting(AbstractODE):
    State = GBM.State

    def drift(self, t, y):
        return GBM.State(S=helper(1.0 + 0 * y.S))


READERS = {
    "a global": lambda s, p, t: s.S * LEVEL,
    "a helper": lambda s, p, t: helper(s.S),
    "a function inside": lambda s, p, t: (lambda x: x * LEVEL)(s.S),
    "a table": lambda s, p, t: s.S * TABLE["level"][0],
    "an array": lambda s, p, t: s.S * float(ARRAY[0]),
    "a part": functools.partial(lambda factor, s, p, t: s.S * factor * LEVEL, 1.0),
}


def set_level(monkeypatch, level):
    monkeypatch.setitem(globals(), "LEVEL", level)
    monkeypatch.setitem(TABLE, "level", [level])
    monkeypatch.setitem(globals(), "ARRAY", np.full(2, level))


@pytest.mark.parametrize("reader", READERS)
def test_a_global_that_has_changed_is_read_again(reader, monkeypatch):
    """What was compiled has the value of its first use, and the function seems to be the same."""
    means = []
    for level in (1.0, 3.0, 3.0):
        set_level(monkeypatch, level)
        means.append(float(simkit.run(experiment(a=READERS[reader], b="S"))["a_mean"]))
    assert means[1] == means[2] == pytest.approx(3 * means[0])


def test_so_it_is_in_classes_of_models(monkeypatch):
    monkeypatch.setitem(MODELS, "Drifting", Drifting)  # and it is gone from there afterwards
    own = {"model": Drifting(), "initial": {"S": 0.0}, "time": {"t1": 1.0, "steps": 4}, "solver": "Euler"}
    for level in (1.0, 5.0):
        set_level(monkeypatch, level)
        assert float(simkit.run(own)["S_mean"][-1]) == pytest.approx(level)


def test_programs_stay_where_nothing_has_changed(monkeypatch):
    set_level(monkeypatch, 2.0)
    first = simkit.run(experiment(a=READERS["a helper"]))
    again = simkit.run(experiment(a=READERS["a helper"]))
    assert first.attrs["compile_s"] > 20 * again.attrs["compile_s"]


def test_it_cannot_be_an_override():
    for overrides in ({"observe.a": call}, {"observe": {"a": call}}):
        with pytest.raises(InputError, match=r"override observe\.a: a function cannot replace a key"):
            load_each(experiment(), overrides)


def test_a_file_cannot_hold_one():
    with pytest.raises(InputError, match=r"^observe\.a: stands for a Python function; give the function"):
        load_each(experiment(a="call (Python)"))


def test_elsewhere_it_is_refused():
    with pytest.raises(InputError, match=r"^initial\.S: must be a number, text, .* of type function"):
        load_each(experiment() | {"initial": {"S": call}})


@given(mu=st.floats(-0.5, 0.5), sigma=st.floats(0.01, 1.0))
def test_a_model_is_its_name_and_its_parameters(mu, sigma):
    named = load_each(experiment() | {"model": {"type": "GBM", "mu": mu, "sigma": sigma}}).each[""]
    given_itself = load_each(experiment() | {"model": GBM(mu=mu, sigma=sigma)}).each[""]
    assert given_itself.problem == named.problem
