"""States found again by stepping back: the gradients of the run that keeps them, in constant memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import HenonHeiles, Lorenz63
from simkit_solvers.grid import Grid
from simkit_solvers.integrate import integrate
from simkit_solvers.observe import States
from simkit_solvers.reversible import end_state
from simkit_solvers.symplectic import Leapfrog, Yoshida4

START = HenonHeiles.State(*map(jnp.asarray, (0.1, -0.2, 0.3, 0.1)))


def ends(solver, steps):
    """The end by both ways as functions of parameter, initial values, start and step."""

    def reversible(numbers, y0, t0, dt):
        return end_state(problem(numbers), solver, y0, Grid(t0, dt, steps, steps))

    def ordinary(numbers, y0, t0, dt):
        grid = Grid(t0, dt, steps, steps)
        rows = integrate(problem(numbers), solver, y0, grid, None, States(), 1e9)
        return HenonHeiles.State(**{name: rows[name][-1] for name in HenonHeiles.State._fields})

    def problem(numbers):
        return HenonHeiles(*numbers)

    return reversible, ordinary


def weighed(end, *point):
    return jnp.sum(jnp.stack(end(*point)) * jnp.asarray([1.0, -0.7, 0.4, 1.3]))


@pytest.mark.parametrize("solver", [Leapfrog(), pytest.param(Yoshida4(), marks=pytest.mark.slow)])
def test_gradients_are_those_of_the_run_that_keeps_its_states(solver):
    numbers = [jnp.asarray(1.0)]
    point = numbers, START, jnp.asarray(0.0), jnp.asarray(0.02)
    found = [
        jax.jit(jax.value_and_grad(functools.partial(weighed, end), (0, 1, 3)))(*point)
        for end in ends(solver, 500)
    ]
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_memory_is_the_same_for_any_number_of_steps():
    def temporary(which, steps):
        numbers = [jnp.asarray(1.0)]
        point = numbers, START, jnp.asarray(0.0), jnp.asarray(0.02)
        function = jax.jit(jax.grad(functools.partial(weighed, ends(Leapfrog(), steps)[which]), (0, 1)))
        return function.lower(*point).compile().memory_analysis().temp_size_in_bytes

    assert temporary(0, 100) == temporary(0, 10_000) < temporary(1, 10_000) / 50


def test_what_does_not_go_back_is_refused():
    with pytest.raises(ValueError, match="Leapfrog on Lorenz63 does not go back"):
        end_state(Lorenz63(**Lorenz63.example), Leapfrog(), START, Grid(0.0, 0.1, 2, 2))
