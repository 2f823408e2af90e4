"""Grids: saved rows at their times, the last one at the end, and what each refuses."""

from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simkit_solvers import (
    AbstractObserver,
    AbstractODE,
    AdaptiveGrid,
    Grid,
    JumpGrid,
    Scalar,
    Tolerances,
    integrate,
    integrate_adaptive,
    make_solver,
)
from user_code import user_jit

TOLERANCES = Tolerances(1e-3, 1e-3)
TIME, LENGTH = st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)
COUNT = st.integers(1, 300)
# Each compiles something. 49 times the reciprocal of 49 is less than 1 in float64, and so for 41 in float32.
FEW_COUNTS = st.sampled_from([1, 10, 41, 49])
WITHOUT_STEPS = {
    "adaptive": lambda t0, t1, points: AdaptiveGrid(t0, t1, TOLERANCES, points=points),
    "jump": JumpGrid,
}
without_steps = pytest.mark.parametrize("kind", WITHOUT_STEPS)


def is_near(number: float, exact: Fraction, size: float) -> bool:
    """Whether a float64 number is off by no more than three roundings of numbers of this size."""
    return abs(Fraction(float(number)) - exact) <= Fraction(3 * 2**-53) * Fraction(size)


@given(TIME, LENGTH, COUNT, COUNT)
def test_a_row_of_a_fixed_grid_is_at_the_time_of_its_step(t0, dt, every, saved):
    grid = Grid(t0, dt, every * saved, every)
    assert grid.rows == len(grid.times) == saved + 1
    assert grid.times[0] == t0
    assert grid.times.dtype == np.float64
    size = abs(t0) + grid.steps * dt
    for row, time in enumerate(grid.times):
        assert is_near(time, Fraction(t0) + row * every * Fraction(dt), size)


@without_steps
@settings(max_examples=50)
@given(t0=TIME, length=LENGTH, points=FEW_COUNTS)
def test_rows_without_common_steps_are_equally_spaced_and_end_at_the_end(kind, t0, length, points):
    grid = WITHOUT_STEPS[kind](t0, t0 + length, points)
    assert grid.rows == len(grid.times) == points + 1
    assert (grid.times[0], grid.times[-1]) == (t0, grid.t1)
    assert is_near(grid.t1, Fraction(t0) + Fraction(length), abs(t0) + length)
    for row, time in enumerate(grid.times):
        assert is_near(time, Fraction(t0) + Fraction(row, points) * Fraction(grid.span), abs(t0) + length)
    for dtype in (jnp.float32, jnp.float64):
        elapsed = np.asarray(grid.elapsed(dtype))
        assert elapsed.dtype == dtype
        assert (elapsed[0], elapsed[-1]) == (0, dtype(grid.span))
        assert (np.diff(elapsed) > 0).all()


@given(TIME, LENGTH, COUNT, COUNT)
def test_a_traced_grid_has_the_steps_and_the_rows_of_its_grid(t0, dt, every, saved):
    grid = Grid(t0, dt, every * saved, every)
    traced = grid.traced()
    for name in ("t0", "dt", "steps", "every", "rows", "long"):
        assert getattr(traced, name) == getattr(grid, name), name
    known = jax.tree.structure(Grid(t0, dt, (every + 8) * saved, every + 8).traced())
    # Where rows lie far enough apart, a program for one number of steps is that for 8 more between rows.
    assert (jax.tree.structure(traced) == known) == (every >= 16)


@given(LENGTH, st.floats(1e-3, 1.0), st.integers(1, 9))
def test_no_stochastic_path_takes_fewer_steps_than_the_longest_allow(span, fraction, points):
    interval = span / points
    grid = AdaptiveGrid(0.0, span, TOLERANCES, fraction * interval, points)
    steps, rest = divmod(grid.fewest_steps, points)
    assert rest == 0
    assert interval / steps <= grid.first_step * 1.001
    assert steps == 1 or interval / (steps - 1) > grid.first_step
    assert AdaptiveGrid(0.0, span, TOLERANCES, points=points).fewest_steps == points


class Ageing(NamedTuple):
    age: Scalar


class Clock(AbstractODE):
    """Its variable is the time since the start."""

    State = Ageing

    def drift(self, t, y):
        return Ageing(age=1.0)


class Times(AbstractObserver):
    """The times of rows, and the state there."""

    def init(self, problem, t, y):
        return ()

    def update(self, problem, acc, k, t, y, dt):
        return ()

    def row(self, problem, acc, t, y):
        return {"t": t, "age": y.age}

    def coarsened(self, factor):
        return self

    def refined(self, factor):
        return self


@user_jit
def on_a_grid(grid):
    """Rows of a path, by the loop that goes with its grid."""
    start = Ageing(jnp.zeros(()))
    if isinstance(grid, AdaptiveGrid):
        return integrate_adaptive(Clock(), make_solver("Tsit5"), start, grid, Times()).rows
    return integrate(Clock(), make_solver("Tsit5"), start, grid, None, Times())


@pytest.mark.parametrize("kind", ["fixed", "traced", "adaptive"])
@settings(max_examples=20)
@given(t0=TIME, dt=st.floats(1e-2, 10.0))
def test_a_path_is_saved_at_the_times_of_its_grid_and_ends_at_its_end(kind, t0, dt):
    grid = Grid(t0, dt, 51, 17)
    if kind == "traced":
        grid = grid.traced()
    elif kind == "adaptive":
        grid = AdaptiveGrid(t0, t0 + 51 * dt, Tolerances(1e-9, 1e-9), points=3)
    rows = on_a_grid(jax.tree.map(jnp.asarray, grid))
    since = np.arange(4) * 17 * dt
    size = abs(t0) + 51 * dt
    np.testing.assert_allclose(rows["t"], t0 + since, rtol=0, atol=4e-16 * size)
    np.testing.assert_allclose(rows["age"], since, rtol=0, atol=3e-14 * size)


@pytest.mark.parametrize(
    ("steps", "every", "message"),
    [
        (0, 1, "steps: must be from 1 to 2147483647, got 0"),
        (2**31, 1, "steps: must be from 1 to 2147483647, got 2147483648"),
        (10, 3, "every: 3 does not divide the 10 steps; choose a divisor"),
        (10, 0, "every: 0 does not divide the 10 steps; choose a divisor"),
    ],
)
def test_steps_that_cannot_be_saved_are_refused(steps, every, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Grid(0.0, 0.1, steps, every)


OF_ADAPTIVE = [
    ({"t1": 0.5}, "t1 - t0: must be positive, got -0.5"),
    ({"t1": float("nan")}, "t1 - t0: must be positive, got nan"),
    ({"first_step": -0.1}, "first_step: must be positive, got -0.1"),
    ({"points": 0}, "points: must be from 1 to 2147483647, got 0"),
    ({"max_steps": 2**31}, "max_steps: must be from 1 to 2147483647, got 2147483648"),
]
OF_JUMPS = [
    ({"t1": 1.0}, "t1 - t0: must be positive, got 0"),
    ({"points": 0}, "points: must be from 1 to 2147483647, got 0"),
    ({"max_steps": 0}, "max_steps: must be from 1 to 2147483647, got 0"),
]


@pytest.mark.parametrize(
    ("grid", "given", "message"),
    [(AdaptiveGrid, *each) for each in OF_ADAPTIVE] + [(JumpGrid, *each) for each in OF_JUMPS],
    ids=str,
)
def test_times_that_cannot_be_are_refused(grid, given, message):
    usual = {"t0": 1.0, "t1": 2.0} | ({"tolerances": TOLERANCES} if grid is AdaptiveGrid else {})
    with pytest.raises(ValueError, match=f"^{message}$"):
        grid(**usual | given)


@without_steps
def test_times_that_are_traced_were_checked_before(kind):
    grid = jax.jit(lambda t1: WITHOUT_STEPS[kind](2.0, t1, 3))(1.0)
    assert float(grid.span) == -1.0
