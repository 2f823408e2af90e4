"""What happens when: events, and the rows of saved times."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    AbstractChange,
    AbstractCondition,
    AbstractODE,
    AdaptiveGrid,
    Event,
    Grid,
    Scalar,
    Schedule,
    States,
    Tolerances,
    integrate,
    integrate_adaptive,
    make_solver,
    scheduled,
)
from simkit_solvers.problems.stops import ROW, stops_of


class Nothing(AbstractChange):
    def __call__(self, problem, t, y):
        return y


def test_an_event_at_a_saved_time_comes_before_its_row_whatever_the_rounding():
    times = jnp.arange(8.0) / 7 * 0.7
    for start in (0.0, 0.1, 2020.3):
        schedule = Schedule({}, {}, (Event(Nothing(), np.arange(1, 8) / 10 + start),))
        stops = stops_of(schedule, jnp.asarray(start), times)
        np.testing.assert_array_equal(stops.times[stops.rows], times)
        np.testing.assert_array_equal(stops.which, [ROW, *[0, ROW] * 7])


class Height(NamedTuple):
    h: Scalar


class Falling(AbstractODE):
    """A height that falls at a constant speed, $dh/dt = -v$."""

    State = Height

    v: Scalar

    def drift(self, t, y):
        return Height(-self.v + 0 * y.h)


class Below(AbstractCondition):
    def __call__(self, problem, t, y):
        return y.h < 0.0


class Lift(AbstractChange):
    def __call__(self, problem, t, y):
        return Height(y.h + 1.0)


LIFTED = Event(Lift(), condition=Below())


def lifted(v, grid):
    problem, start = scheduled(Falling(v), events=(LIFTED,)), Height(jnp.asarray(0.5))
    if isinstance(grid, AdaptiveGrid):
        return integrate_adaptive(problem, make_solver("Tsit5"), start, grid, States()).rows["h"][-1]
    return integrate(problem, make_solver("Tsit5"), start, grid, None, States())["h"][-1]


@pytest.mark.more
@pytest.mark.parametrize("grid", [Grid(0.0, 1 / 64, 64, 64), AdaptiveGrid(0.0, 1.0, Tolerances(1e-6, 1e-6))])
@pytest.mark.parametrize("derivative", [jax.grad, jax.jacfwd])
def test_a_derivative_along_a_path_does_not_miss_the_time_of_an_event(grid, derivative):
    assert lifted(1.0, grid) == pytest.approx(0.5, abs=1e-5)
    with pytest.raises(ValueError, match="does not see how that time moves"):
        derivative(lambda v: lifted(v, grid))(1.0)


def test_a_condition_that_still_holds_does_not_trigger_again():
    schedule, now = Schedule({}, {}, (LIFTED,)), jnp.zeros(())
    problem = scheduled(Falling(1.0), events=(LIFTED,))
    for held, h, after, happens in (
        (False, -0.5, 0.5, True),
        (True, -0.5, -0.5, False),
        (False, 0.5, 0.5, False),
        (False, -3.0, -2.0, True),
    ):
        y, happened = schedule.after_events([False], [jnp.bool_(held)], problem, now, Height(jnp.asarray(h)))
        assert (float(y.h), bool(happened.any)) == (after, happens)
