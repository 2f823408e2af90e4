"""Contracts of every registered model."""

import importlib.util
import itertools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkout import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from model_examples import build, columns, functions, state, time
from simkit_physics import MODELS
from simkit_solvers import AbstractSDE, check_parameters, parameters_of, variables_of

import simkit
from simkit import load
from simkit.cli.describe import model_snippet


def of_each(models):
    """A contract that each of these models keeps."""
    classes = list(models)
    mark = pytest.mark.parametrize("model", classes, ids=[model.__name__ for model in classes])
    return lambda test: pytest.mark.more(mark(test))


every_model = of_each(MODELS.values())
every_sde = of_each(model for model in MODELS.values() if issubclass(model, AbstractSDE))
POLES = ("Kepler", "FigureEight", "Arenstorf")  # forces that are infinite where bodies meet
both_dtypes = pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])


@pytest.fixture(autouse=True)
def strict():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


@every_model
def test_documents_itself(model):
    problem = build(model)
    check_parameters(problem)
    assert MODELS[model.__name__] is model
    assert list(parameters_of(model)) == list(model.example)
    assert tuple(model.example_initial) == model.State._fields
    assert list(variables_of(model)) == list(model.State._fields)
    described = [*parameters_of(model).values(), *variables_of(model).values()]
    assert all(entry.unit and entry.description for entry in described)
    assert "doi:10." in model.__doc__
    assert "$" in model.__doc__


@every_model
def test_refuses_parameters_outside_their_range(model):
    for name, spec in parameters_of(model).items():
        outside = [b - 1.0 for b in (spec.at_least, spec.above) if b is not None]
        outside += [b + 1.0 for b in (spec.at_most, spec.below) if b is not None]
        for value in [*outside, float("nan")]:
            with pytest.raises(ValueError, match=rf"^{model.__name__}\.{name}: must be "):
                check_parameters(model(**{**model.example, name: value}))


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        ("GBM", {"sigma": -0.2}),
        ("OrnsteinUhlenbeck", {"theta": -1.0}),
        ("OrnsteinUhlenbeck", {"sigma": -0.2}),
        ("CIR", {"kappa": -1.0}),
        ("CIR", {"theta": -0.1}),
        ("CIR", {"sigma": -0.3}),
        ("DoubleWell", {"gamma": 0.0}),
        ("DoubleWell", {"b": -1.0}),
        ("DoubleWellLangevin", {"u": 0.0}),
        ("DoubleWellLangevin", {"a": 0.0}),
        ("Heston", {"kappa": -1.0}),
        ("Heston", {"theta": -0.1}),
        ("Heston", {"xi": -0.3}),
        ("Heston", {"rho": -1.01}),
        ("Heston", {"rho": 1.01}),
    ],
)
def test_refuses_what_makes_no_sense(model, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"^{model}\.{name}: must be .*, got {value:g}$"):
        check_parameters(MODELS[model](**{**MODELS[model].example, name: value}))


@every_model
@both_dtypes
@pytest.mark.parametrize("arrays", [False, True], ids=["floats", "arrays"])
def test_keeps_state_class_and_dtype(model, dtype, arrays):
    problem = build(model, dtype if arrays else None)
    for name, function in functions(model).items():
        out = jax.eval_shape(lambda y, f=function: f(problem, y), state(model, dtype))
        assert type(out) is model.State, name
        assert all(x.dtype == dtype and x.shape == () for x in out), name


@every_model
def test_vmap_is_a_loop(model):
    ys = [state(model, factor=f) for f in (0.3, 0.5, 1.0, 2.0)]
    problem, coefficients = build(model), functions(model).values()
    step = jax.jit(lambda y: [jnp.stack(f(problem, y)) for f in coefficients])
    together = jax.jit(jax.vmap(step))(jax.tree.map(lambda *x: jnp.stack(x), *ys))
    separately = jax.tree.map(lambda *x: np.stack(x), *map(step, ys))
    for a, b in zip(together, separately, strict=True):
        assert np.isfinite(b).all()
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14 * np.abs(b).max())


def corners(model, dtype):
    """Factors for the example's state: all choices of four for a few variables, else of one at a time."""
    choices, size = (1.0, 0.0, -1.0, float(jnp.finfo(dtype).smallest_subnormal)), len(model.State._fields)
    if size <= 4:
        return list(itertools.product(choices, repeat=size))
    one = [[1.0] * i + [x] + [1.0] * (size - i - 1) for i in range(size) for x in choices[1:]]
    return [*([x] * size for x in choices), *one]


@every_model
@pytest.mark.parametrize("dtype", [pytest.param(jnp.float32, marks=pytest.mark.slow), jnp.float64])
def test_derivatives_are_finite_and_agree(model, dtype):
    """In every parameter and variable, also where variables are zero or below, forward and reverse.

    A sum over entries with random weights is finite only if all of them are. Where a force is infinite, at
    the place of another body, there is nothing to ask.
    """
    problem = build(model, dtype)
    factors = model.State(*jnp.asarray(corners(model, dtype), dtype).T)
    ys = jax.tree.map(lambda x, f: x * f, state(model, dtype), factors)
    numbers = np.random.default_rng(0)

    def direction(tree):
        return jax.tree.map(
            lambda x: jnp.asarray(numbers.choice([-1, 1]) * numbers.uniform(1, 2), x.dtype), tree
        )

    def values(problem, y):
        return [f(problem, y) for f in functions(model).values()]

    inputs = (problem, state(model, dtype))
    along, weights = direction(inputs), direction(jax.eval_shape(values, *inputs))

    def slopes(problem, y):
        value, forward = jax.jvp(values, (problem, y), along)
        _, pull = jax.vjp(values, problem, y)
        return value, forward, pull(weights)

    value, forward, reverse = jax.jit(jax.vmap(slopes, in_axes=(None, 0)))(problem, ys)
    there = np.isfinite(jax.tree.leaves(value)).all(axis=0)
    assert there.all() or model.__name__ in POLES
    assert there.sum() > 3
    products = [
        np.stack([np.asarray(x, float) * float(w) for x, w in zip(*map(jax.tree.leaves, pair), strict=True)])
        for pair in ((forward, weights), (reverse, along))
    ]
    one, other = (terms[:, there] for terms in products)
    assert np.isfinite(one).all()
    assert np.isfinite(other).all()
    size = np.abs(one).sum(axis=0) + np.abs(other).sum(axis=0)
    assert (np.abs(one.sum(axis=0) - other.sum(axis=0)) <= 50 * float(jnp.finfo(dtype).eps) * size).all()


@every_model
def test_its_yaml_runs_as_it_says(model):
    """The documented example is an experiment, whose solver fits."""
    simulation = load(model_snippet(model.__name__, model))
    assert eqx.tree_equal(simulation.problem, build(model))
    assert simulation.initial == model.example_initial
    if model.example_solver:
        assert type(simulation.solver).__name__ == model.example_solver


@pytest.mark.slow
@every_model
def test_its_yaml_ends_finite(model):
    text = model_snippet(model.__name__, model)
    paths = "ensemble.paths=64" if issubclass(model, AbstractSDE) else "ensemble.seed=0"
    result = simkit.run(text, overrides=[paths, "ensemble.devices=1"])
    assert all(np.isfinite(result[f"{name}_mean"]).all() for name in model.State._fields)


@every_sde
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_noise_is_linear_in_the_increments(model, data):
    number = st.floats(-3, 3, allow_subnormal=False)
    problem, y = build(model), state(model, factor=data.draw(st.floats(-0.5, 3), "factor"))
    size = len(model.Noise._fields)
    first = model.Noise(*(jnp.asarray(data.draw(number)) for _ in range(size)))
    second = model.Noise(*(jnp.asarray(data.draw(number)) for _ in range(size)))
    a, b = data.draw(number), data.draw(number)
    mixed = problem.noise(
        time(), y, model.Noise(*(a * p + b * q for p, q in zip(first, second, strict=True)))
    )
    one, two = problem.noise(time(), y, first), problem.noise(time(), y, second)
    for whole, p, q in zip(mixed, one, two, strict=True):
        np.testing.assert_allclose(whole, a * p + b * q, rtol=1e-12, atol=1e-9)


def noise_properties(g, slope):
    """What is true of noise g_k, and of its slopes as [variable, noise, by variable]: kinds that hold, and
    whether Itô and Stratonovich agree.
    """
    along = np.einsum("ijl,lk->ijk", slope, g)  # derivative of g_j along g_k
    size = 1e-12 * (1 + np.abs(g).max() * np.abs(slope).max())
    variables, noises = g.shape
    off = ~np.eye(variables, noises, dtype=bool)
    own = np.eye(variables)[:, None, :] * np.ones((1, noises, 1))
    kinds = {
        "additive": bool((slope == 0).all()),
        "scalar": noises == 1,
        "diagonal": variables == noises and bool((g[off] == 0).all() and (slope * (1 - own) == 0).all()),
        "commutative": bool((np.abs(along - along.swapaxes(1, 2)) < size).all()),
        "general": True,
    }
    return kinds, bool((np.abs(np.einsum("ikk->i", along)) < size).all())


@every_sde
def test_noise_kind_and_calculus_are_true(model):
    """The declared kind holds at every state tried, and no stronger one does: it would be wasted."""
    problem = build(model)
    ys = [state(model, factor=f) for f in (0.4, 1.0, 1.7)]

    @jax.jit
    def noise(y):
        slopes = jax.jacfwd(lambda z: columns(problem, z))(y)
        return columns(problem, y), jnp.stack(slopes, axis=-1)

    kinds, agree = zip(*(noise_properties(*map(np.asarray, noise(y))) for y in ys), strict=True)
    holds = {kind: all(each[kind] for each in kinds) for kind in kinds[0]}
    assert holds[model.noise_kind]
    order = ["additive", "scalar", "diagonal", "commutative", "general"]
    assert not any(holds[kind] for kind in order[: order.index(model.noise_kind)])
    assert (model.calculus == "any") == all(agree)
    assert model.calculus in ("ito", "stratonovich", "any")


def test_the_readme_model_keeps_the_contract(tmp_path):
    page = (ROOT / "physics" / "README.md").read_text("utf-8")
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    (tmp_path / "bachelier.py").write_text(block, "utf-8")
    spec = importlib.util.spec_from_file_location("bachelier", tmp_path / "bachelier.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Bachelier
    assert list(parameters_of(model)) == list(model.example)
    assert variables_of(model)["F"].unit == "currency"
    test_keeps_state_class_and_dtype(model, jnp.float32, arrays=False)
    test_derivatives_are_finite_and_agree(model, jnp.float64)
    test_noise_kind_and_calculus_are_true(model)
