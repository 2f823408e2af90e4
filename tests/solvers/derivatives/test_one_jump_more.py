"""Derivatives of jump diffusions by how often they jump: one jump more."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jump_derivatives import KEY, assert_near
from simkit_physics import Kou, Merton
from simkit_solvers import CounterNoise, Direction, Grid, States, extra_jump, integrate, make_solver
from user_code import user_jit

from simkit.closed_forms.jump_diffusions import kou_call, merton_call

JUMPY = {Merton: ("lam",), Kou: ("lam", "p")}


class Payoffs(States):
    def row(self, problem, acc, t, y):
        return {"S": y.S, "call": jnp.maximum(y.S - 100.0, 0.0)}


@pytest.mark.more
@pytest.mark.parametrize("model", [Merton, pytest.param(Kou, marks=pytest.mark.slow)])
def test_one_jump_more_is_what_the_derivative_along_a_path_lacks(model):
    """By the rate of jumps, and by the fraction of upward ones; the mean does not depend on either."""
    paths, solver, names = 16384, make_solver("ExactSampling"), JUMPY[model]
    grid = Grid(0.0, 1.0, 1, 1)
    numbers = {name: jnp.asarray(x) for name, x in model.example.items()}
    units = {name: {each: jnp.asarray(float(each == name)) for each in numbers} for name in names}

    @user_jit
    @jax.vmap
    def run(path):
        y0, noise = model.State(S=jnp.asarray(100.0)), CounterNoise.of(KEY, path)

        def rows(numbers):
            return integrate(model(**numbers), solver, y0, grid, noise, Payoffs())

        directions = tuple(Direction(model(**units[name])) for name in names)
        given = model(**numbers), solver, y0, grid, noise, KEY, path, Payoffs(), directions
        along = [jax.jvp(rows, (numbers,), (units[name],))[1] for name in names]
        return along, extra_jump(*given)[1]

    call = {Merton: merton_call, Kou: kou_call}[model]
    values = {name: float(x) for name, x in model.example.items()}
    rate = values.pop("mu")

    def price(**changed):
        return call(S=100.0, K=100.0, r=rate, T=1.0, **{**values, **changed}) * math.exp(rate)

    for name, along, missing in zip(names, *run(jnp.arange(paths, dtype=jnp.uint32)), strict=True):
        h = 1e-4
        slope = (price(**{name: values[name] + h}) - price(**{name: values[name] - h})) / (2 * h)
        for what, wanted in {"S": 0.0, "call": slope}.items():
            x = np.asarray(along[what] + missing[what])[:, -1]
            assert_near(x.mean(), x.std() / paths**0.5, wanted)
            lacking = np.asarray(along[what])[:, -1]
            assert abs(lacking.mean() - wanted) > 10 * lacking.std() / paths**0.5


@pytest.mark.more
def test_a_jump_more_counts_with_the_sign_of_its_rate():
    """One more upward jump raises the price as one downward jump less does, and moving back lowers it."""
    ids = jnp.arange(64, dtype=jnp.uint32)
    numbers = {name: jnp.asarray(x) for name, x in Kou.example.items()}
    forward, back = (
        Direction(Kou(**{name: sign * (name == "p") for name in numbers})) for sign in (1.0, -1.0)
    )

    @jax.jit
    @jax.vmap
    def missing(path):
        given = Kou(**numbers), make_solver("ExactSampling"), Kou.State(S=jnp.asarray(100.0))
        noise, grid = CounterNoise.of(KEY, path), Grid(0.0, 1.0, 1, 1)
        return extra_jump(*given, grid, noise, KEY, path, States(), (forward, back))[1]

    up, down = (np.asarray(each["S"])[:, -1] for each in missing(ids))
    assert (up > 0).all()
    assert np.array_equal(down, -up)
