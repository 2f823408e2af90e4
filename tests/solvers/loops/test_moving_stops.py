"""Derivatives by the times of events and jumps, which saved times and one another may meet."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simkit_solvers import (
    AbstractChange,
    AbstractODE,
    AdaptiveGrid,
    Curve,
    Event,
    Scalar,
    States,
    Tolerances,
    integrate_adaptive,
    parameter,
    scheduled,
)
from solver_problems import Level
from user_code import user_jit

DECAY, END, DOSE, LEVELS = 0.7, 4.0, 2.5, (3.0, 0.5)
TIMES = st.sampled_from([1.0, 1.4, 2.0, 2.0 + 1e-15, 3.0])


class TwoFeeds(AbstractODE):
    """x' = first + second - 0.7 x."""

    State = Level
    first: Scalar = parameter("1/time", "one feed")
    second: Scalar = parameter("1/time", "the other")

    def drift(self, t, y):
        return Level(self.first + self.second - DECAY * y.x)


class Dose(AbstractChange):
    def __call__(self, problem, t, y):
        return y._replace(x=y.x + DOSE)


def at_end(first, second, dose, end):
    """The last of four rows, of feeds that stop at two times and a dose at a third."""

    def feed(until):
        return Curve(jnp.stack([0.0 * until, until]), jnp.asarray([LEVELS[0], LEVELS[1]]), "previous")

    feeds = {"first": feed(first), "second": feed(second)}
    problem = scheduled(TwoFeeds(0.0, 0.0), feeds, events=(Event(Dose(), dose[None]),))
    grid = AdaptiveGrid(0.0, end, Tolerances(1e-9, 1e-9), points=4)
    return integrate_adaptive(problem, diffrax.Tsit5(), Level(jnp.asarray(0.2)), grid, States()).rows["x"][-1]


@user_jit
def slopes(*times):
    by = tuple(range(len(times)))
    value, reverse = jax.value_and_grad(at_end, by)(*times)
    return value, jnp.stack(jax.jacfwd(at_end, by)(*times)), jnp.stack(reverse)


@pytest.mark.more
@given(TIMES, TIMES, TIMES)
def test_derivatives_do_not_depend_on_which_times_meet(first, second, dose):
    """Each time has its own, forward and in reverse, whether a row, a jump or an event is there too."""
    times = tuple(map(jnp.asarray, (first, second, dose, END)))
    drop, left = LEVELS[0] - LEVELS[1], [np.exp(-DECAY * (END - t)) for t in (first, second, dose)]
    by_times = [drop * left[0], drop * left[1], DECAY * DOSE * left[2]]
    value, *each_way = slopes(*times)
    by_end = 2 * LEVELS[1] - DECAY * float(value)
    for derivatives in each_way:
        assert derivatives == pytest.approx([*by_times, by_end], rel=1e-6)


class Integral(AbstractODE):
    """x' = rate."""

    State = Level
    rate: Scalar = parameter("1/time", "of change")

    def drift(self, t, y):
        return Level(jnp.asarray(self.rate))


@pytest.mark.parametrize("late", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("at_start", [True, False])
def test_a_bend_of_a_curve_at_an_end_of_the_run_has_a_whole_derivative(late, at_start):
    """Of a ramp from 0 to 1 that begins or ends there: the integral of its derivative."""

    def area(time):
        times = jnp.stack([time, 2.0 + 0 * time] if at_start else [0.0 * time, time])
        ramp = Curve(times, jnp.asarray([0.0, 1.0]))
        grid = AdaptiveGrid(0.0, 2.0, Tolerances(1e-9, 1e-9), points=2)
        problem = scheduled(Integral(0.0), {"rate": ramp})
        run = integrate_adaptive(problem, diffrax.Tsit5(), Level(jnp.asarray(0.0)), grid, States())
        return run.rows["x"][-1]

    time = late if at_start else 2.0 - late
    assert float(user_jit(jax.jacfwd(area))(jnp.asarray(time))) == pytest.approx(-0.5, rel=1e-6)
