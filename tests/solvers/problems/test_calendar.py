"""What happens when: events, and the rows of saved times."""

import jax.numpy as jnp
import numpy as np
from simkit_solvers import AbstractChange, Event, Schedule
from simkit_solvers.problems.calendar import ROW, stops_of


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
