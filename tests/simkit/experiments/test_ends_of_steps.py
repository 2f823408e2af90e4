"""Times that must be ends of steps: the numbers of steps that a message offers."""

from fractions import Fraction

import pytest

from simkit.experiments.ends_of_steps import inside_a_step


@pytest.mark.parametrize("times", [["1/2"], ["1/3"], ["1/4", "1/3"], ["3/10"], ["1/6", "5/8"]])
@pytest.mark.parametrize("steps", [4, 5, 7, 11, 25])
def test_the_numbers_of_steps_offered_are_the_nearest_that_meet_all_times(times, steps):
    exact = [Fraction(time) for time in times]

    def meets(n):
        return all((n * time).denominator == 1 for time in exact)

    wrong = inside_a_step([10 + 2 * float(time) for time in exact], (10.0, 12.0), steps, "none")
    below = [n for n in range(1, steps) if meets(n)][-1:]
    above = next(n for n in range(steps + 1, 2 * steps + 25) if meets(n))
    offered = " or ".join(map(str, [*below, above]))
    assert (wrong is None) == meets(steps)
    if wrong is not None:
        first = next(i for i, time in enumerate(exact) if (steps * time).denominator > 1)
        assert wrong[0] == first
        assert wrong[1].endswith(f"use steps: {offered}")
