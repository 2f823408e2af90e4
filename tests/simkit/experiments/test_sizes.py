"""Models of a chosen size, and one value or a list for numbered names."""

import inspect
import itertools

import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest
from simkit_physics import MODELS, is_sized
from simkit_physics.sized import of_size, pair_name
from simkit_solvers import check_parameters, parameters_of, variables_of

import simkit
from simkit import InputError, experiment_schema, load

SIZED = {name: model for name, model in MODELS.items() if is_sized(model)}
TIME = {"t1": 1.0, "steps": 10}


def lorenz(initial, **model):
    return {"model": {"type": "Lorenz96", "F": 8.0, **model}, "initial": initial, "time": TIME}


def state(model, seed=0):
    numbers = np.random.default_rng(seed).uniform(-2, 2, len(model.State._fields))
    return model.State(*map(jnp.asarray, numbers))


@pytest.mark.parametrize("model", SIZED.values(), ids=SIZED)
def test_a_size_is_a_class_like_the_registered_one(model):
    smallest, largest = model.sizes
    default = next(n for n in range(smallest, largest) if of_size(model, n) is model)
    assert len(SIZED) == 4
    for size in (smallest, default, default + 1, largest):
        result = of_size(model, size)
        assert result is of_size(model, size)
        assert result.__name__ == model.__name__
        assert not inspect.isabstract(result)
        assert len(result.State._fields) * default == len(model.State._fields) * size
        described = [*parameters_of(result).values(), *variables_of(result).values()]
        assert all(entry.unit and entry.description for entry in described)
    parts = model.parts(default)
    assert dict(parts.parameters).keys() == parameters_of(model).keys()
    for name, spec in parameters_of(model).items():
        assert (spec.unit, spec.range) == (parts.parameters[name].unit, parts.parameters[name].range)
    for size in (smallest - 1, largest + 1):
        with pytest.raises(
            ValueError, match=rf"{model.__name__} comes in sizes from {smallest} to {largest}"
        ):
            of_size(model, size)


@pytest.mark.parametrize("size", [4, 5, 40])
def test_lorenz96_is_the_ring_of_its_equation(size):
    model = of_size(MODELS["Lorenz96"], size)
    y = state(model)
    x = np.asarray(y)
    wanted = (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8
    np.testing.assert_allclose(np.asarray(model(F=8.0).drift(0.0, y)), wanted, rtol=1e-12)


@pytest.mark.parametrize("size", [2, 5, 20])
def test_kuramoto_pulls_each_pair_alike(size):
    model = of_size(MODELS["Kuramoto"], size)
    y = state(model)
    theta = np.asarray(y)
    given = np.random.default_rng(size).normal(size=size)
    omega = given + 0.5 * np.tan(np.pi * ((np.arange(size) + 0.5) / size - 0.5))
    wanted = omega + 3 / size * np.sin(theta[None, :] - theta[:, None]).sum(1)
    own = {f"omega{i}": float(each) for i, each in enumerate(given, 1)}
    drift = model(K=3.0, gamma=0.5, D=0.1, **own).drift(0.0, y)
    np.testing.assert_allclose(np.asarray(drift), wanted, rtol=1e-11, atol=1e-12)
    assert len(model.Noise._fields) == size


@pytest.mark.parametrize("size", [2, 3, 5])
def test_assets_have_the_requested_correlations(size):
    model = of_size(MODELS["MultiAssetGBM"], size)
    rho = np.corrcoef(np.random.default_rng(size).standard_normal((size, 2 * size)))
    sigma, pairs = 0.1 * np.arange(1, size + 1), list(itertools.combinations(range(size), 2))
    numbers = {f"mu{i + 1}": 0.05 for i in range(size)}
    numbers |= {f"sigma{i + 1}": float(each) for i, each in enumerate(sigma)}
    problem = model(**numbers, **{f"rho{i + 1}{j + 1}": float(rho[i, j]) for i, j in pairs})
    check_parameters(problem)
    prices = model.State(*([1.0] * size))
    columns = [np.asarray(problem.noise(0.0, prices, model.Noise(*unit))) for unit in np.eye(size)]
    np.testing.assert_allclose(np.transpose(columns) @ columns, np.outer(sigma, sigma) * rho, rtol=1e-12)


def test_impossible_correlations_of_more_assets():
    """Of four, each pair of which falls together, the determinant is positive."""
    model = of_size(MODELS["MultiAssetGBM"], 4)
    numbers = dict.fromkeys([f"{name}{i}" for name in ("mu", "sigma") for i in range(1, 5)], 0.1)
    rhos = {"rho12": -0.9, "rho13": -0.9, "rho14": 0.0, "rho23": 0.0, "rho24": -0.9, "rho34": -0.9}
    with pytest.raises(ValueError, match=r"^MultiAssetGBM\.rho12, rho13, .* must be >= 0, got -0\.8;"):
        model(**numbers, **rhos)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_bodies_fall_towards_each_other(size):
    model = of_size(MODELS["NBody"], size)
    masses = 0.5 + np.arange(size)
    given = dict(zip([f"m{i + 1}" for i in range(size)], masses.tolist(), strict=True))
    problem = model(G=2.0, softening=0.3, **given)
    check_parameters(problem)
    y = state(model)
    places = np.asarray(y)[: 2 * size].reshape(size, 2)
    separation = places[None] - places[:, None]
    distance = np.sqrt((separation**2).sum(-1) + 0.3**2)
    force = (2 * masses[:, None, None] * masses[None, :, None] * separation / distance[..., None] ** 3).sum(1)
    result = np.asarray(jax.tree.leaves(problem.drift(0.0, y)))
    np.testing.assert_allclose(result[2 * size :].reshape(size, 2), force, rtol=1e-10, atol=1e-12)


def test_all_sites_at_the_forcing_rest():
    result = simkit.run({**lorenz({"x": 8.0}, size=5), "solver": "Euler"})
    assert result.attrs["state_variables"] == "x1 x2 x3 x4 x5"
    for name in result.attrs["state_variables"].split():
        np.testing.assert_allclose(result[f"{name}_mean"], 8.0, rtol=1e-12)


def test_one_value_or_a_list_stands_for_numbered_names():
    every = load(lorenz({"x": 8.0, "x3": 8.01}, size=6))
    assert every.initial == {f"x{i}": 8.01 if i == 3 else 8.0 for i in range(1, 7)}
    listed = load(lorenz({"x": [1, "2*3", 3, 4]}, size=4))
    assert list(listed.initial.values()) == [1, 6, 3, 4]
    assert load(listed.experiment.resolved()).initial == listed.initial
    assets = {"type": "MultiAssetGBM", "mu": 0.05, "sigma": [0.2, 0.3, 0.25]}
    assets |= {"rho12": 0.5, "rho13": 0.0, "rho23": 0.0}
    problem = load({"model": assets, "initial": {"S": 100.0}, "time": TIME}).problem
    assert [problem.mu1, problem.mu3, problem.sigma2] == [0.05, 0.05, 0.3]
    bodies = {"type": "NBody", "size": 2, "G": 1, "softening": 0.1, "m": [1.0, 0.01]}
    starts = {"x": [0, 1], "y": 0, "px": 0, "py": [-0.01, 0.01]}
    built = load({"model": bodies, "initial": starts, "time": TIME})
    assert (built.problem.m1, built.problem.m2) == (1.0, 0.01)
    assert list(built.initial) == ["x1", "y1", "x2", "y2", "px1", "py1", "px2", "py2"]
    phases = {"type": "Kuramoto", "size": 3, "K": 2, "omega": ["-w", 0, "w"], "gamma": 0, "D": 0}
    given = {"constants": {"w": 0.4}, "model": phases, "initial": {"theta": [0, 1, 2]}, "time": TIME}
    problem = load(given).problem
    assert [problem.omega1, problem.omega2, problem.omega3] == [-0.4, 0, 0.4]
    schema = experiment_schema()
    for model in (assets, bodies, phases, lorenz({}, size=40)["model"]):
        jsonschema.validate({"model": model, "initial": {"x": [1.0, "2*a"]}, "time": TIME}, schema)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lorenz({"x": 1}, size=3), r"^model\.size: Lorenz96 comes in sizes from 4 to 64, got 3$"),
        (lorenz({"x": 1}, size=65), r"^model\.size: .*: larger ones take minutes to compile, got 65$"),
        (lorenz({"x": 1}, size=4.5), r"^model\.size: must be a whole number from 4 to 64, got 4\.5$"),
        (lorenz({"x": 1}, size=[4]), r"^model\.size: must be a whole number from 4 to 64, got \[4\]$"),
        (lorenz({"x": [1, 2]}), r"^initial\.x: has 2 values, and there are 8, x1 to x8$"),
        (
            lorenz({"x": 1, "x1": [1]}),
            r"^initial\.x1: must be a single value: a list is for numbered names, and `variants` .*; write",
        ),
        (lorenz({"x": 1, "x9": 1}), r"^initial\.x9: unknown variable of the model"),
        (lorenz({"x": 1}, F=[1, 2]), r"model\.F: must be a single value"),
        (
            {"model": {"type": "GBM", "mu": 0, "sigma": 1, "size": 3}, "initial": {"S": 1}, "time": TIME},
            r"^model\.size: unknown parameter of GBM",
        ),
    ],
)
def test_errors_in_sizes_and_lists(settings, message):
    with pytest.raises(InputError, match=message):
        load(settings)


def assets(size, **given):
    model = {"type": "MultiAssetGBM", "size": size, "mu": 0.05, "sigma": 0.2, **given}
    return {"model": model, "initial": {"S": 100.0}, "time": TIME}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rho": 1.5}, r"^model\.rho: must be >= -1 and <= 1, got 1\.5$"),
        ({"rho": 1.5, "rho12": 0, "rho13": 0, "rho23": 0}, r"^model\.rho: has no effect: rho12 to rho23 are"),
        (
            {"rho": [[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]},
            r"^model: .*the least eigenvalue of their",
        ),
    ],
)
def test_correlations_that_cannot_be_or_are_not_used_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        load(assets(3, **given))


def test_an_unknown_name_among_many_shows_some_of_them():
    with pytest.raises(
        InputError, match=r"unknown name 'S4' \(column 1 of the expression\); known: S1, S2, S3, mu1, .*, …$"
    ):
        load(assets(3, rho=0.3) | {"observe": {"spread": "S4 - S1"}})


@pytest.mark.more
def test_one_correlation_or_a_matrix_stands_for_all_pairs():
    rho = np.corrcoef(np.random.default_rng(3).standard_normal((12, 30)))
    same = load(assets(12, rho=0.3)).problem
    assert (same.rho12, same.rho3_10, same.rho11_12) == (0.3, 0.3, 0.3)
    mixed = load(assets(3, rho=0.3, rho13=-0.1)).problem
    assert (mixed.rho12, mixed.rho13, mixed.rho23) == (0.3, -0.1, 0.3)
    full = load(assets(12, rho=rho.tolist()))
    result = full.problem
    assert all(
        getattr(result, pair_name("rho", i + 1, j + 1)) == rho[i, j]
        for i, j in itertools.combinations(range(12), 2)
    )
    again = load(full.experiment.resolved()).problem
    assert jax.tree.leaves(again) == jax.tree.leaves(result)
    for given in (0.3, rho.tolist()):
        jsonschema.validate(assets(12, rho=given), experiment_schema())
    named = {"constants": {"c": 0.4}, **assets(2, rho=[[1, "c"], ["c", 1]])}
    assert load(named).problem.rho12 == 0.4


@pytest.mark.parametrize(
    "size", [1, pytest.param(12, marks=pytest.mark.more), pytest.param(40, marks=pytest.mark.slow)]
)
def test_many_assets_have_the_requested_correlations(size):
    """Also where their matrix is singular: the last two are one and the same."""
    rho = np.atleast_2d(np.corrcoef(np.random.default_rng(size).standard_normal((size, 2 * size))))
    if size > 1:
        rho[-1], rho[:, -1] = rho[-2], rho[:, -2]
        rho[-1, -1] = 1
    given = {"rho": rho.tolist()} if size > 1 else {"mu1": 0.05, "sigma1": 0.2}
    settings = assets(size, **given)
    if size == 1:
        settings["model"] = {key: x for key, x in settings["model"].items() if key not in ("mu", "sigma")}
        settings["initial"] = {"S1": 100.0}
    problem = load(settings).problem
    prices = type(problem).State(*([1.0] * size))
    noise = jax.jit(jax.vmap(lambda unit: problem.noise(0.0, prices, problem.Noise(*unit))))
    columns = np.asarray(noise(jnp.eye(size)))
    np.testing.assert_allclose(columns @ columns.T, 0.04 * rho, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"rho": [[1, 0.5], [0.4, 1]]},
            r"^model\.rho.*: must be 0\.5, as in row 1: the matrix is symmetric; got 0\.4",
        ),
        (
            {"rho": [[1, 0.5], [0.5, 0.9]]},
            r"^model\.rho.*: must be 1, the correlation of 2 with itself, got 0\.9",
        ),
        ({"rho": [1, 0.5]}, r"^model\.rho: must be one value, or 2 rows of 2 values: a matrix"),
        ({"rho": 1.5}, r"^model\.rho: must be >= -1 and <= 1, got 1\.5"),
        ({"rho": 0.3, "mu": [[1, 2], [1, 2]]}, r"^model\.mu: must be one value, or a list of values"),
    ],
)
def test_errors_in_correlations(given, message):
    with pytest.raises(InputError, match=message):
        load(assets(2, **given))


def test_impossible_and_missing_correlations_are_reported_once():
    with pytest.raises(InputError, match=r"rho12, rho13, .*, …, rho11_12: .* must be >= 0, got -4\.5;"):
        load(assets(12, rho=-0.5))
    with pytest.raises(InputError) as error:
        load(assets(12))
    assert str(error.value).count("is missing") == 1
    assert "model.rho: is missing; the correlation of all pairs, their matrix, or rho12 to rho11_12" in str(
        error.value
    )
