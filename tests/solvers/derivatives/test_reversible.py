"""States found again by stepping back: the gradients of the run that keeps them, in constant memory."""

import functools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import GBM, HenonHeiles, Lorenz63, Merton
from simkit_solvers import (
    AbstractODE,
    CounterNoise,
    EulerMaruyama,
    Grid,
    Leapfrog,
    Scalar,
    States,
    Yoshida4,
    end_state,
    in_calculus,
    integrate,
    parameter,
    seed_key,
)
from solver_problems import PairState
from user_code import user_jit

START = HenonHeiles.State(*map(jnp.asarray, (0.1, -0.2, 0.3, 0.1)))


class DrivenVanDerPol(AbstractODE):
    """Van der Pol's oscillator under a force that changes with time."""

    State = PairState
    mu: Scalar = parameter("1", "strength of the feedback")

    def drift(self, t, y):
        return PairState(y.v, self.mu * (1 - y.x**2) * y.v - y.x + jnp.cos(3 * t))


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
    results = [
        user_jit(jax.value_and_grad(functools.partial(weighed, end), (0, 1, 3)))(*point)
        for end in ends(solver, 500)
    ]
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_memory_is_the_same_for_any_number_of_steps():
    def temporary(which, steps):
        numbers = [jnp.asarray(1.0)]
        point = numbers, START, jnp.asarray(0.0), jnp.asarray(0.02)
        function = user_jit(jax.grad(functools.partial(weighed, ends(Leapfrog(), steps)[which]), (0, 1)))
        return function.lower(*point).compile().memory_analysis().temp_size_in_bytes

    assert temporary(0, 100) == temporary(0, 10_000) < temporary(1, 10_000) / 50


@pytest.mark.more
@pytest.mark.parametrize(
    ("make", "begin", "numbers", "steps"),
    [
        # An odd number of steps, of which two share a block of noise.
        (lambda *x: in_calculus(GBM(*x), "stratonovich"), GBM.State(1.2), (0.3, 0.4), 101),
        (DrivenVanDerPol, PairState(1.0, 0.5), (1.5,), 200),
    ],
    ids=["stochastic", "ordinary"],
)
def test_reversible_heun_finds_its_copy_and_its_noise_again(make, begin, numbers, steps):
    begin = jax.tree.map(jnp.asarray, begin)

    def noise_of(path):
        return CounterNoise.of(seed_key(3), path) if make(*numbers).stochastic else None

    def end(reversible, numbers, y0, t0, dt, path):
        problem, grid, noise = make(*numbers), Grid(t0, dt, steps, steps), noise_of(path)
        if reversible:
            return jnp.sum(jnp.stack(end_state(problem, diffrax.ReversibleHeun(), y0, grid, noise)) ** 2)
        rows = integrate(problem, diffrax.ReversibleHeun(), y0, grid, noise, States(), 1e9)
        return sum(rows[name][-1] ** 2 for name in y0._fields)

    point = tuple(map(jnp.asarray, numbers)), begin, jnp.asarray(0.0), jnp.asarray(0.01)
    paths = jnp.arange(3, dtype=jnp.uint32)
    results = [
        jax.jit(
            jax.vmap(
                jax.value_and_grad(functools.partial(end, reversible), (0, 1, 2, 3)),
                (None, None, None, None, 0),
            )
        )(*point, paths)
        for reversible in (True, False)
    ]
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        # The normals are float32, and those of one program differ from the other's in their last digit.
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-9)


def test_what_does_not_go_back_is_refused():
    lorenz, whole = Lorenz63(**Lorenz63.example), Grid(0.0, 0.1, 2, 2)
    with pytest.raises(ValueError, match="Leapfrog on Lorenz63 does not go back"):
        end_state(lorenz, Leapfrog(), START, whole)
    with pytest.raises(ValueError, match="Merton does not go back"):
        end_state(Merton(**Merton.example), diffrax.ReversibleHeun(), START, whole)
    with pytest.raises(ValueError, match="EulerMaruyama on GBM does not go back"):
        end_state(GBM(0.1, 0.2), EulerMaruyama(), START, whole)
    with pytest.raises(ValueError, match=r"ReversibleHeun .*Stratonovich"):
        end_state(GBM(0.1, 0.2), diffrax.ReversibleHeun(), START, whole)
    converted = in_calculus(GBM(0.1, 0.2), "stratonovich")
    with pytest.raises(ValueError, match="`noise` must be a driver, not None"):
        end_state(converted, diffrax.ReversibleHeun(), START, whole)
