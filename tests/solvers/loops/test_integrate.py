"""The loop: its clock, its rows, one trace."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
from solver_problems import Commutative, Driven, Level, OneNoise, PairState
from user_code import user_jit


class Still(AbstractODE):
    State = Level

    def drift(self, t, y):
        return Level(0.0 * y.x)


class Clock(AbstractObserver):
    """Counts the steps whose time does not follow the one before by one step."""

    def init(self, problem, t, y):
        return t, jnp.uint32(0), jnp.uint32(0)

    def update(self, problem, acc, k, t, y, dt):
        before, wrong, last = acc
        off = (t - before < 0.3 * dt) | (t - before > 1.7 * dt) | (k != last + jnp.uint32(1))
        return t, wrong + off.astype(jnp.uint32), k

    def row(self, problem, acc, t, y):
        return {"t": t, "wrong": acc[1], "k": acc[2]}

    def coarsened(self, factor):
        return self

    def refined(self, factor):
        return self


def test_the_clock_is_an_integer():
    """Ten million float32 steps of 0.1: summing them up would lose 9 % of the time."""
    grid = Grid(0.0, 0.1, 10**7, 10**6)
    y0 = Level(jnp.float32(1.0))
    rows = user_jit(lambda: integrate(Still(), EulerMaruyama(), y0, grid, None, Clock()))()
    assert rows["t"].dtype == jnp.float32
    np.testing.assert_array_equal(rows["wrong"], 0)
    np.testing.assert_array_equal(rows["k"], np.arange(11) * 10**6)
    np.testing.assert_allclose(rows["t"], grid.times, rtol=1e-7)


class StepCounts(NamedTuple):
    k: Scalar
    late: Scalar
    last: Scalar


class Counting(AbstractSDE):
    """Counts its steps, and those not at `dt` times their number; `last` is the step's own noise."""

    State = StepCounts
    Noise = OneNoise
    calculus = "any"
    noise_kind = "additive"

    dt: Scalar = 3.0

    def drift(self, t, y):
        off = jnp.where(t == y.k * self.dt, 0.0, 1.0).astype(t.dtype)
        return StepCounts(k=1 / self.dt, late=off / self.dt, last=-y.last / self.dt)

    def noise(self, t, y, dW):
        return StepCounts(k=0.0, late=0.0, last=dW.W)


def test_ten_million_steps_lose_no_step_no_time_and_no_word():
    """In float32 times of 3 add up to whole numbers that it has not: from 2**24 on it has the even ones."""
    steps, every = 10**7, 2 * 10**6
    noise, grid = CounterNoise.of(seed_key(2), jnp.uint32(7)), Grid(0.0, 3.0, steps, every)
    y0 = StepCounts(*(jnp.zeros((), jnp.float32),) * 3)
    rows = user_jit(lambda: integrate(Counting(), EulerMaruyama(), y0, grid, noise, States()))()
    np.testing.assert_array_equal(rows["k"], np.arange(0, steps + 1, every))
    np.testing.assert_array_equal(rows["late"], 0)
    for row in range(1, grid.rows):
        drawn = noise.draws(1, 0, jnp.uint32(row * every - 2), 2)[1].W[0]
        assert float(rows["last"][row]) == pytest.approx(3**0.5 * float(drawn), rel=1e-5, abs=1e-6)


def test_rows_are_those_of_a_loop_written_out():
    """Euler's method by hand on a non-autonomous problem; row 0 is the start, row r is step r * every."""
    problem, dt = Driven(), 0.05
    y, written = PairState(0.5, 0.7), [(0.5, 0.7)]
    for k in range(30):
        rate = problem.drift(0.3 + k * dt, y)
        y = PairState(*(float(u + dt * f) for u, f in zip(y, rate, strict=True)))
        written.append(y)
    y0 = PairState(jnp.asarray(0.5), jnp.asarray(0.7))
    for every in (1, 5, 30):
        grid = Grid(0.3, dt, 30, every)
        rows = integrate(problem, EulerMaruyama(), y0, grid, None, States())
        assert rows["x"].shape == (grid.rows,)
        np.testing.assert_allclose(np.transpose([rows["x"], rows["v"]]), written[::every], rtol=1e-13)
        np.testing.assert_allclose(grid.times, 0.3 + dt * every * np.arange(grid.rows))


def test_one_trace():
    """New parameters, start, step, initial value and path compile nothing."""
    traces = []

    @jax.jit
    def run(problem, y0, grid, path):
        traces.append(1)
        return integrate(problem, EulerMaruyama(), y0, grid, CounterNoise.of(seed_key(1), path), States())[
            "x"
        ][-1]

    seen = set()
    for i in range(3):
        y0 = PairState(jnp.asarray(0.5 + i), jnp.asarray(0.7))
        grid = Grid(0.1 * i, 0.01 * (i + 1), 8, 4)
        seen.add(float(run(Commutative(a=1.0 + i), y0, grid, jnp.uint32(i))))
    assert len(traces) == 1
    assert len(seen) == 3


def test_stochastic_problem_without_noise():
    y0 = PairState(jnp.asarray(0.5), jnp.asarray(0.7))
    with pytest.raises(ValueError, match="Commutative is stochastic: `noise` must be a driver, not None"):
        integrate(Commutative(), EulerMaruyama(), y0, Grid(0.0, 0.1, 2, 1), None, States())
