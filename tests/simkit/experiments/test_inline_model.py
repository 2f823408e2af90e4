"""Models written in the file are models like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import CIR, GBM, Heston
from simkit_solvers import AbstractODE, AbstractSDE, parameters_of, variables_of

from simkit import load
from simkit.experiments.inline.inline_differential import cholesky

GBM_TEXT = {
    "sde": {"S": {"drift": "mu * S", "noise": {"W": "sigma * S"}}},
    "parameters": {"mu": 0.05, "sigma": 0.2},
}
HESTON_TEXT = {
    "sde": {
        "S": {"drift": "mu * S", "noise": {"W1": "sqrt(maximum(v, 0)) * S"}},
        "v": {"drift": "kappa * (theta - maximum(v, 0))", "noise": {"W2": "xi * sqrt(maximum(v, 0))"}},
    },
    "parameters": {"mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.7},
    "correlation": {"W1-W2": "rho"},
}
CIR_TEXT = {
    "sde": {"r": {"drift": "kappa*(theta - maximum(r, 0))", "noise": {"W": "sigma*sqrt(maximum(r, 0))"}}},
    "parameters": {"kappa": 1.5, "theta": 0.04, "sigma": 0.3},
}


def problem(model, constants=None):
    variables = [*model.get("sde", ()), *model.get("ode", ())]
    source = {"constants": constants or {}, "model": model, "time": {"t1": 1, "steps": 4}}
    return load({**source, "initial": dict.fromkeys(variables, 1.0)}).problem


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (GBM_TEXT, GBM(mu=0.05, sigma=0.2)),
        (HESTON_TEXT, Heston(mu=0.05, kappa=2.0, theta=0.04, xi=0.3, rho=-0.7)),
        (CIR_TEXT, CIR(kappa=1.5, theta=0.04, sigma=0.3)),
    ],
    ids=["GBM", "Heston", "CIR"],
)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("level", [0.3, 0.0, -0.1])
def test_the_same_values_and_derivatives_as_the_model_in_python(text, model, dtype, level):
    inline = problem(text)
    numbers = [100.0, level][-len(model.State._fields) :]
    dW = [jnp.asarray(x, dtype) for x in (0.3, -0.2)[: len(model.Noise._fields)]]

    def everything(p, numbers):
        y = p.State(*numbers)
        t = jnp.asarray(0.5, dtype)
        return tuple(p.drift(t, y)), tuple(p.noise(t, y, p.Noise(*dW)))

    arrays = [jnp.asarray(x, dtype) for x in numbers]
    assert list(parameters_of(inline)) == list(parameters_of(model))
    casted = [jax.tree.map(lambda x: jnp.asarray(x, dtype), p) for p in (inline, model)]
    ours, theirs = (everything(p, arrays) for p in casted)
    assert all(x.dtype == dtype for x in jax.tree.leaves(ours))
    close = {"rtol": 1e-5 if dtype == jnp.float32 else 1e-13, "atol": 1e-12}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), ours, theirs)
    slopes = [jax.jacrev(everything, argnums=(0, 1))(p, arrays) for p in casted]
    for a, b in zip(*(jax.tree.leaves(s) for s in slopes), strict=True):
        assert np.isfinite(a)
        np.testing.assert_allclose(a, b, **close)


def test_it_is_a_module_with_parameters_and_variables():
    inline = problem(HESTON_TEXT)
    assert isinstance(inline, AbstractSDE)
    assert list(parameters_of(type(inline))) == ["mu", "kappa", "theta", "xi", "rho"]
    assert list(variables_of(inline)) == ["S", "v"]
    assert inline.Noise._fields == ("W1", "W2")
    assert "dS = (mu * S) dt + (sqrt(maximum(v, 0)) * S) dW1" in type(inline).__doc__


def test_the_same_text_is_the_same_class():
    other = {**GBM_TEXT, "parameters": {"mu": 0.5, "sigma": 0.3}}
    assert type(problem(GBM_TEXT)) is type(problem(other))


def test_an_ordinary_equation_has_no_noise():
    inline = problem({"ode": {"x": "v", "v": "-k*x + sin(t)"}, "parameters": {"k": "8/2"}})
    assert isinstance(inline, AbstractODE)
    assert not isinstance(inline, AbstractSDE)
    assert tuple(inline.drift(jnp.asarray(0.0), inline.State(jnp.asarray(2.0), jnp.asarray(3.0)))) == (
        3.0,
        -8.0,
    )


def test_constants_in_equations_are_parameters_of_the_model():
    inline = problem({"ode": {"x": "-a*x", "y": 1}}, {"a": 2.0, "unused": 1.0})
    assert list(parameters_of(inline)) == ["a"]
    state = inline.State(jnp.float32(3.0), jnp.float32(0.0))
    assert jax.grad(lambda p: p.drift(jnp.float32(0), state).x)(inline).a == -3.0
    assert [x.dtype for x in inline.drift(jnp.float32(0), state)] == [jnp.float32] * 2


@pytest.mark.parametrize(
    ("sde", "correlation", "kind", "calculus"),
    [
        ({"x": {"drift": "x", "noise": {"W": "2*t"}}}, {}, "additive", "any"),
        ({"x": {"noise": {"W": 1}}, "y": {"noise": {"V": 2}}}, {"V-W": 0.5}, "additive", "any"),
        ({"x": {"noise": {"W": "x*y"}}, "y": {"noise": {"W": 2}}}, {}, "scalar", "ito"),
        ({"x": {"noise": {"W": "x"}}, "y": {"noise": {"V": 2}}}, {}, "diagonal", "ito"),
        ({"x": {"noise": {"W": "x"}}, "y": {"noise": {"V": "y"}}}, {"W-V": 0.5}, "commutative", "ito"),
        (
            {"x": {"noise": {"W": "x"}}, "z": {"drift": "x"}, "y": {"noise": {"V": "y"}}},
            {},
            "commutative",
            "ito",
        ),
        ({"x": {"noise": {"W": "y"}}, "y": {"noise": {"V": 1}}}, {}, "general", "ito"),
        ({"x": {"noise": {"W": "x", "V": 1}}}, {}, "general", "ito"),
        ({"x": {"noise": {"W": "x"}}, "y": {"noise": {"W": "y", "V": "y"}}}, {}, "general", "ito"),
    ],
)
def test_the_kind_of_noise_is_seen_from_the_equations(sde, correlation, kind, calculus):
    inline = problem({"sde": sde, "correlation": correlation})
    assert (inline.noise_kind, inline.calculus) == (kind, calculus)


@pytest.mark.parametrize(
    "text",
    [
        {"x": {"noise": {"W": "x"}}, "y": {"noise": {"V": "sin(y)"}}},
        {"x": {"noise": {"W": "x**2"}}, "z": {"drift": "x"}, "y": {"noise": {"V": "exp(y)"}}},
    ],
)
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_noise_called_commutative_is(text, rho):
    """The columns g_j satisfy (g_j . grad) g_k = (g_k . grad) g_j."""
    inline = problem({"sde": text, "correlation": {"W-V": rho} if rho else {}})
    assert inline.noise_kind in ("diagonal", "commutative")
    y = inline.State(*(jnp.asarray(0.4 + 0.3 * i) for i in range(len(text))))
    columns = [
        lambda y, unit=unit: inline.noise(jnp.asarray(0.0), y, inline.Noise(*unit)) for unit in np.eye(2)
    ]
    one, two = (jax.jvp(a, (y,), (b(y),))[1] for a, b in [columns, columns[::-1]])
    np.testing.assert_allclose(one, two, rtol=1e-14)


def test_correlated_increments_have_the_correlation():
    rho = {"A-B": 0.5, "C-A": -0.3, "B-C": 0.2}
    sde = {name.lower(): {"noise": {name: 1}} for name in "ABC"}
    inline = problem({"sde": sde, "correlation": rho})
    y = inline.State(*(jnp.asarray(0.0),) * 3)
    columns = [inline.noise(jnp.asarray(0.0), y, inline.Noise(*unit)) for unit in np.eye(3)]
    lower = np.array(columns).T
    np.testing.assert_allclose(lower @ lower.T, [[1, 0.5, -0.3], [0.5, 1, 0.2], [-0.3, 0.2, 1]], atol=1e-15)


def test_cholesky_of_singular_matrices_is_finite_with_finite_slopes():
    given = {(1, 0): 1.0, (2, 0): 0.5, (2, 1): 0.5}
    rows = cholesky(3, given)
    lower = np.array([[*row, *[0.0] * (3 - len(row))] for row in rows])
    np.testing.assert_allclose(lower @ lower.T, [[1, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]], atol=1e-15)
    slope = jax.grad(lambda rho: cholesky(3, {(1, 0): rho, (2, 0): 0.5, (2, 1): 0.5})[2][1])(1.0)
    assert np.isfinite(slope)


def test_constants_reach_correlations():
    text = {**HESTON_TEXT, "parameters": {k: v for k, v in HESTON_TEXT["parameters"].items() if k != "rho"}}
    inline = problem(text, {"rho": -0.7})
    assert "rho" in parameters_of(inline)
    y = inline.State(jnp.asarray(1.0), jnp.asarray(0.04))
    dW = inline.Noise(jnp.asarray(1.0), jnp.asarray(0.0))
    slope = jax.grad(lambda p: p.noise(jnp.asarray(0.0), y, dW).v)(inline).rho
    np.testing.assert_allclose(slope, 0.3 * 0.2, rtol=1e-14)
