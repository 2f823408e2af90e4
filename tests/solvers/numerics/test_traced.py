"""Functions that are traced once, and hold nothing twice."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import GBM
from simkit_solvers import (
    CounterNoise,
    Direction,
    EulerMaruyama,
    Grid,
    Release,
    Smoothing,
    States,
    integrate_with_tangents,
    seed_key,
)
from simkit_solvers.numerics.traced import traced_once
from simkit_solvers.random.noise import on_sums


def operations(jaxpr) -> list[str]:
    """The names of all operations, those of called functions in place of the calls."""
    names = []
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr") if eqn.primitive.name == "jit" else None
        names += [eqn.primitive.name] if inner is None else operations(inner.jaxpr)
    return names


def test_what_is_written_twice_is_computed_once():
    """Through calls of functions too, with one exponential for three; the value is that without."""

    def twice(x, rate):
        def factor(x):
            return jnp.where(x > 0, jnp.exp(rate * x), 1.0)

        return jax.jit(factor)(x) * factor(x) + jax.jvp(factor, (x,), (jnp.ones_like(x),))[1]

    x, rate = jnp.float64(0.7), jnp.float64(1.3)
    traced = jax.make_jaxpr(lambda x, rate: traced_once(twice, x, rate))(x, rate)
    assert operations(jax.make_jaxpr(twice)(x, rate).jaxpr).count("exp") == 3
    assert operations(traced.jaxpr).count("exp") == 1
    assert float(traced_once(twice, x, rate)) == float(twice(x, rate))
    slope, exact = (jax.grad(f)(x, rate) for f in (lambda x, r: traced_once(twice, x, r), twice))
    assert float(slope) == pytest.approx(float(exact), rel=1e-14)


def test_only_equal_operations_are_taken_for_one():
    """Not those of numbers of other types, in another order, or with other settings."""

    def different(x, y):
        both = jnp.stack([x, y])
        narrow = jnp.where(x > 0, jnp.float32(0.1), jnp.float32(0.2)).astype(jnp.float64)
        wide = jnp.where(x > 0, 0.1, 0.2)
        sums = jax.lax.cumsum(both), jax.lax.cumsum(both, reverse=True)
        return x - y, y - x, *sums, wide - narrow, x * 2.0, x * jnp.float64(2), x * -2.0

    given = jnp.float64(3.0), jnp.float64(5.0)
    results = [np.asarray(x).tolist() for x in traced_once(different, *given)]
    assert results == [-2.0, 2.0, [3.0, 8.0], [8.0, 5.0], 0.1 - float(np.float32(0.1)), 6.0, 6.0, -6.0]


def test_a_function_is_traced_once_for_arguments_that_differ_in_arrays():
    calls = []

    def counted(x, power, factors):
        calls.append(power)
        return jax.tree.map(lambda f: f * x**power, factors)

    for x in (1.0, 2.0, 3.0):
        assert float(traced_once(counted, jnp.float64(x), 2, {"a": jnp.float64(2.0)})["a"]) == 2 * x**2
    jax.vmap(lambda x: traced_once(counted, x, 2, {"a": x}))(jnp.arange(3.0))
    assert calls == [2]
    traced_once(counted, jnp.float64(1.0), 3, {"a": jnp.float64(2.0)})
    traced_once(counted, jnp.float64(1.0), 3.0, {"a": jnp.float64(2.0)})
    assert calls == [2, 3, 3.0]


@pytest.mark.parametrize("release", [None, Release, lambda every: Smoothing(from_strike, (every,))])
def test_another_number_of_steps_and_of_draws_finds_the_step_traced(monkeypatch, release):
    """A derivative on steps twice as long, whose noise is sums of two draws, traces no step of the model."""
    calls, noise = [], GBM.noise

    def counted(self, *args):
        calls.append(self)
        return noise(self, *args)

    monkeypatch.setattr(GBM, "noise", counted)
    problem = GBM(mu=jnp.float64(0.05), sigma=jnp.float64(0.2))
    direction = Direction(GBM(mu=None, sigma=jnp.float64(1.0)), States(), problem.State(S=None))

    def along(path, steps):
        driver = on_sums(CounterNoise.of(seed_key(1), path, False), 8 // steps)
        grid, y0 = Grid(0.0, 1 / steps, steps, steps), problem.State(S=jnp.float64(100.0))
        released = None if release is None else release(steps)
        return integrate_with_tangents(
            problem, EulerMaruyama(), y0, grid, driver, States(), [direction], released
        ).changes

    with jax.enable_x64(True):
        counts, compared = [], [len(COMPARED)]
        for steps in (8, 4, 2):
            jax.eval_shape(functools.partial(along, steps=steps), jnp.uint32(0))
            counts.append(len(calls))
            compared.append(len(COMPARED))
    assert 0 < counts[0] == counts[1] == counts[2]
    first, second, third = np.diff(compared)  # the question whether noise drives what is compared is another
    assert third == second < max(first, 1)


COMPARED = []


def from_strike(observer, problem, acc, k, t, y) -> tuple:
    """How far the price is from 107, as `Smoothing` takes it."""
    COMPARED.append(k)
    return (y.S - 107.0,)
