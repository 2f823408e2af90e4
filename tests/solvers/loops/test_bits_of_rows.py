"""The bits of a row of the loop are the same whatever else is saved, and in any number of lanes."""

import functools
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from simkit_solvers import (
    AbstractObserver,
    AbstractODE,
    AbstractSDE,
    CounterNoise,
    EulerMaruyama,
    Grid,
    Scalar,
    States,
    integrate,
    seed_key,
)
from solver_problems import Commutative, PairState
from user_code import user_jit


class WithAreas(diffrax.AbstractSRK, diffrax.AbstractStratonovichSolver):
    """SPaRK with a fraction of the third area, to ask for all that the noise gives."""

    tableau = diffrax.StochasticButcherTableau(
        a=diffrax.SPaRK.tableau.a,
        b_sol=diffrax.SPaRK.tableau.b_sol,
        b_error=None,
        c=diffrax.SPaRK.tableau.c,
        coeffs_w=diffrax.SPaRK.tableau.coeffs_w,
        coeffs_hh=diffrax.SPaRK.tableau.coeffs_hh,
        coeffs_kk=diffrax.SPaRK.tableau.coeffs_hh,
        ignore_stage_f=None,
        ignore_stage_g=None,
    )


SOLVERS_BY_AREAS = EulerMaruyama(), diffrax.SPaRK(), WithAreas()


NOISES = [NamedTuple(f"Noise{n}", [(f"W{i}", Scalar) for i in range(n)]) for n in (1, 2, 3)]


@functools.cache
def several_noises(components):
    class Several(AbstractSDE):
        State = PairState
        Noise = NOISES[components - 1]
        calculus = "any"
        noise_kind = "general"

        def drift(self, t, y):
            return PairState(x=-y.x * jnp.cos(t), v=y.x - y.v)

        def noise(self, t, y, dW):
            loud = sum(0.2 * (i + 1) * w for i, w in enumerate(dW))
            return PairState(x=loud * jnp.cos(y.v), v=0.3 * dW[0] * y.x)

    return Several()


class Twisted(AbstractODE):
    """Products that feed several sums each, so that it shows where the compiler contracts others."""

    State = PairState

    def drift(self, t, y):
        return PairState(
            x=1.3 * y.v * y.x * y.x - y.x**3 * jnp.cos(t), v=jnp.sin(y.x) * y.v - y.x * y.v * y.v
        )


class Watching(AbstractObserver):
    """Accumulators and rows of products and sums, as those of path functionals are."""

    def init(self, problem, t, y):
        return jnp.zeros_like(y.x), y.x * y.x, y.v

    def update(self, problem, acc, k, t, y, dt):
        total, most, integral = acc
        return (
            total + jnp.exp(-t) * y.x * y.v,
            jnp.maximum(most, y.x * y.x),
            integral + 0.5 * dt * (y.v * y.x),
        )

    def row(self, problem, acc, t, y):
        total, most, integral = acc
        return {
            **y._asdict(),
            "total": total * jnp.exp(-t) * y.x,
            "excess": jnp.maximum(most - 0.1, 0),
            "mean": integral / (t + 1.0),
        }

    def coarsened(self, factor):
        return self

    def refined(self, factor):
        return self


@functools.cache
def program_of(components, method, dtype, lanes=64):
    """A function of a grid."""
    problem, solver = (
        (several_noises(components), SOLVERS_BY_AREAS[method])
        if components
        else (Twisted(), ODE_SOLVERS[method])
    )

    def one_path(path, grid):
        noise = CounterNoise.of(seed_key(3), path) if components else None
        y0 = PairState(0.5 + 0.001 * path.astype(dtype), jnp.asarray(0.7, dtype))
        return integrate(problem, solver, y0, grid, noise, Watching())

    paths = jnp.arange(lanes, dtype=jnp.uint32)
    return user_jit(lambda grid: jax.vmap(lambda path: one_path(path, grid), out_axes=1)(paths))


@functools.cache
def rows_of(components, method, steps, every, dtype, lanes=64):
    return program_of(components, method, dtype, lanes)(Grid(0.3, 0.02, steps, every))


ODE_SOLVERS = diffrax.Heun(), diffrax.Tsit5(), diffrax.Bosh3()


def saving_cases(test, count):
    """The test on a number of drawn cases, whose programs take seconds each to compile."""
    cases = given(
        data=st.data(),
        components=st.sampled_from((0, 1, 2, 3)),
        method=st.sampled_from((0, 0, 1, 2)),
        dtype=st.sampled_from(("float32", "float64")),
    )
    return settings(max_examples=count, phases=[Phase.generate])(cases(test))


def check_what_is_saved(data, components, method, dtype):
    """Every value kept at a step that two runs both save: states, accumulators and what is made of them."""
    steps = data.draw(st.sampled_from((6, 9) if components and method else (6, 9, 12, 15, 24)))
    every = data.draw(st.sampled_from([d for d in range(2, steps + 1) if steps % d == 0]))
    each = rows_of(components, method, steps, 1, dtype)
    some = rows_of(components, method, steps, every, dtype)
    for name, values in some.items():
        np.testing.assert_array_equal(values, each[name][::every], name, strict=True)


test_what_is_saved_changes_no_bit = saving_cases(check_what_is_saved, 2)


test_what_is_saved_changes_no_bit_in_many_cases = pytest.mark.slow(saving_cases(check_what_is_saved, 40))


def check_traced_steps(data, components, method, dtype):
    """Two grids with as many rows, at the same places in blocks: one program, and the bits of a `Grid`."""
    program, between = program_of(components, method, dtype), data.draw(st.sampled_from((1, 1, 2, 3)))
    first, longer = data.draw(st.integers(16, 31)), data.draw(st.sampled_from((8, 16, 40)))
    grids = [Grid(0.3, 0.02, between * every, every) for every in (first, first + longer)]
    traced, sizes = zip(*[(program(grid.traced()), program._cache_size()) for grid in grids], strict=True)
    assert sizes[0] == sizes[1]
    for grid, rows in zip(grids, traced, strict=True):
        for name, values in program(grid).items():
            np.testing.assert_array_equal(values, rows[name], name, strict=True)


test_traced_steps_change_no_bit = pytest.mark.more(saving_cases(check_traced_steps, 2))


test_traced_steps_change_no_bit_in_many_cases = pytest.mark.slow(saving_cases(check_traced_steps, 40))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_a_path_is_the_same_in_any_company(dtype):
    """Per-path bits of both precisions and both states in 64, 1000 and 2048 lanes."""
    y0 = PairState(jnp.asarray(0.5, dtype), jnp.asarray(0.7, dtype))

    def end(path):
        rows = integrate(
            Commutative(),
            EulerMaruyama(),
            y0,
            Grid(0.0, 0.01, 21, 7),
            CounterNoise.of(seed_key(3), path),
            States(),
        )
        return rows["x"], rows["v"]

    program = user_jit(jax.vmap(end))
    bits = [np.asarray(program(jnp.arange(n, dtype=jnp.uint32))) for n in (64, 1000, 2048)]
    for others in bits[1:]:
        np.testing.assert_array_equal(others[:, :64], bits[0])
