"""Rates of levels and the paths that they take, from levels whose figures are exact powers."""

import itertools

import numpy as np
import pytest

from simkit.multilevel.allocation import FEWEST, SURE, allocated
from simkit.multilevel.level_rates import QuantityLevels

COSTS = [1 if level == 0 else 3 * 2 ** (level - 1) for level in range(12)]


def powers(alpha=1.0, beta=2.0, levels=6, order=1.0, count=10**8, noise=0.0):
    """Means and variances that fall with these powers of the step, from 8 and 4 on, but on level 0."""
    steps = 2.0 ** -np.arange(levels)
    mean, variance = 8 * steps**alpha, 4 * steps**beta
    mean[0], variance[0] = 100.0, 50.0
    return QuantityLevels(order, mean, variance, variance * noise, np.full(levels, count))


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 2.0), (1.0, 1.0), (0.5, 0.5), (2.0, 1.5)])
def test_powers_are_found_and_the_bias_is_what_further_levels_add(alpha, beta):
    levels = powers(alpha, beta, order=alpha)
    assert levels.alpha.rate == pytest.approx(alpha, abs=0.02)
    assert levels.beta.rate == pytest.approx(beta, abs=1e-6)
    further = sum(8 * 2.0 ** (-alpha * level) for level in range(6, 200))
    bias, doubt = levels.bias(5)
    assert bias == pytest.approx(-further, abs=max(2 * doubt, 1e-3))
    assert doubt < 0.1 * abs(bias)
    assert levels.bias(7)[0] == pytest.approx(bias * 4.0**-alpha)


def test_a_smaller_order_than_claimed_counts_and_a_larger_one_does_not():
    assert powers(alpha=0.5).order_used == pytest.approx(0.5, abs=0.01)
    assert powers(alpha=2.0).order_used == 1.0
    assert powers(alpha=0.5, beta=0.0, count=4).order_used == 1.0  # of which noise shows nothing


def test_variances_beyond_the_pilot_fall_with_the_measured_power():
    levels = powers(beta=1.5)
    assert levels.variance_of(8) == pytest.approx(4 * 2.0 ** (-1.5 * 8), rel=0.05)
    seen = powers(beta=1.0)
    seen.variance[5] = 0.0  # of rare differences, which few paths miss
    assert 4 * 2.0**-5 / 4 < seen.variance_of(5) < 4 * 2.0**-5


def variance(levels, paths):
    return sum(levels.variance_of(level) / n for level, n in enumerate(paths))


@pytest.mark.parametrize("error", [0.3, 0.03])
def test_the_error_is_as_wanted_and_no_other_paths_take_less_work(error):
    levels = powers()
    found = allocated({"x": levels}, {"x": error}, COSTS)
    bias = sum(map(abs, levels.bias(len(found.paths) - 1)))
    assert variance(levels, found.paths) + bias**2 <= error**2
    work = np.dot(found.paths, COSTS[: len(found.paths)])
    assert found.work == work
    few = {level for level, n in enumerate(found.paths) if n == FEWEST}
    for more, less in itertools.permutations(range(len(found.paths)), 2):
        if {more, less} & few:
            continue
        moved = np.array(found.paths, float)
        moved[more] *= 1.1
        moved[less] -= 0.1 * found.paths[more] * COSTS[more] / COSTS[less]
        assert moved[less] < 0 or variance(levels, moved) > variance(levels, found.paths) * (1 - 1e-3)


def test_a_doubt_of_the_pilot_takes_more_paths():
    sure, unsure = (
        allocated({"x": powers(noise=noise, count=2048)}, {"x": 0.1}, COSTS).paths[0] for noise in (0.0, 0.1)
    )
    assert 1 + 0.07 * SURE < unsure / sure < 1 + 0.1 * SURE * 2**0.5


def test_of_several_quantities_each_level_has_the_paths_of_the_one_that_takes_most():
    smooth, rough = powers(beta=2.0), powers(beta=1.0)
    each = [allocated({"x": levels}, {"x": 0.03}, COSTS).paths for levels in (smooth, rough)]
    both = allocated({"x": smooth, "y": rough}, {"x": 0.03, "y": 0.03}, COSTS)
    assert both.paths[5] == max(paths[5] for paths in each)
    assert min(a >= b for paths in each for a, b in zip(both.paths, paths, strict=True))


def test_no_number_of_levels_reaches_an_error_below_the_bias_of_all():
    assert allocated({"x": powers(alpha=0.5, order=0.5)}, {"x": 1e-4}, COSTS) is None
