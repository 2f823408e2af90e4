"""The step error of given numbers: its order, its error, and where it has no claim."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simkit.step_error import StepError, step_error

PAIRS = [(2, 4), (3, 9), (0.5, 2), (0.5, 3), (0.5, 0.25), (2, 3)]
SIZES = st.floats(0.01, 10) | st.floats(-10, -0.01)


def of_means(mean, factors, order, rounding=1e-13) -> StepError:
    """By the means on the run's grid and the others, as of an ordinary equation."""
    found = step_error(np.array([[mean(1.0), *map(mean, factors)]]), factors, order, rounding)
    assert found is not None
    return found


@given(st.sampled_from(PAIRS), st.sampled_from([1, 2, 3, 4, 5]), st.sampled_from([1.0, 2.0, 5.0]), SIZES)
def test_a_pure_power_is_told_whatever_order_is_claimed(factors, order, claimed, c):
    """Also the other way round: an order that jumps or kinks have spoilt."""
    found = of_means(lambda h: 3 + c * h**order, factors, claimed)
    assert found.claim == "estimate"
    assert found.order == pytest.approx(order, abs=1e-6)
    assert found.bias == pytest.approx(c, rel=1e-6)
    assert found.stderr < 1e-4 * abs(c)


@given(st.sampled_from(PAIRS), st.sampled_from([1.0, 2.0]), SIZES, st.floats(-0.1, 0.1))
def test_the_error_covers_the_next_power(factors, order, c, part):
    """Where that is up to a tenth of the first on the longest steps, of either sign."""
    part = part / max(1, *factors)
    found = of_means(lambda h: 3 + c * h**order + part * c * h ** (order + 1), factors, order)
    assert found.claim == "estimate"
    truth = c * (1 + part)
    assert abs(found.bias - truth) <= 1.5 * found.stderr + 1e-9
    assert found.stderr <= 1.1 * abs(found.bias) + 1e-9


@given(st.sampled_from(PAIRS), st.floats(3, 100), SIZES)
def test_what_has_levelled_off_is_a_bound_below_the_truth(factors, steepness, c):
    """The mean of a stiff equation by an implicit method: c / (1 + h times the rate)."""
    found = of_means(lambda h: c / (1 + steepness * h), factors, 1.0)
    truth = c / (1 + steepness) - c
    assert found.claim == "at least"
    assert 0 < abs(found.bias) < abs(truth)
    assert found.bias * truth > 0


@given(st.sampled_from(PAIRS), st.floats(1.05, 4))
def test_differences_that_change_sign_have_no_claim(factors, growth):
    """Euler's steps beyond their limit of stability: the sign goes with the number of steps."""
    found = of_means(lambda h: math.cos(growth * 3 * h) * math.exp(h), factors, 1.0)
    values = [math.cos(growth * 3 * h) * math.exp(h) for h in sorted((1.0, *factors))]
    assume((values[1] - values[0]) * (values[2] - values[1]) < -1e-3)
    assert found.claim == "at least"


@given(st.sampled_from(PAIRS), st.floats(-1e3, 1e3))
def test_rounding_is_no_difference(factors, value):
    """Differences of some roundings in any order and of any sign are noise of that size."""
    rounding = 1e-15 * (1 + abs(value))
    rng = np.random.default_rng(int(1000 * abs(value)))
    values = value + rng.uniform(-1, 1, (1, 3)) * rounding
    found = step_error(values, factors, 1.0, rounding)
    assert found is not None
    assert found.claim == "estimate"
    assert abs(found.bias) < 5 * found.stderr


def test_values_near_the_largest_number_are_no_mistake():
    found = of_means(lambda h: 1e294 * (h >= 1), (0.5, 0.25), 5.0)
    assert found.bias == pytest.approx(1e294)
    assert found.stderr < 0.1 * found.bias


@pytest.mark.parametrize("paths", [5, 30, 1000])
@pytest.mark.parametrize("tail", [None, 3])
def test_noise_is_told_from_a_bias_and_covers_it(paths, tail):
    """A bias from none to 30 standard errors: covered in 95 of 100 samples, and never without a claim."""
    rng = np.random.default_rng(paths)
    factors, rounds = (2, 4), 400
    covered, claims = [], []
    for c in (0.0, 0.3, 3.0, 30.0):
        c = c / math.sqrt(paths)
        draws = (
            rng.standard_normal((2, rounds, paths))
            if tail is None
            else rng.standard_t(tail, (2, rounds, paths))
        )
        for fine, coarse in zip(*draws, strict=True):
            run = rng.standard_normal(paths)
            values = np.stack([run, run + c + fine, run + 3 * c + fine + 1.4 * coarse], 1)
            found = step_error(values, factors, 1.0)
            assert found is not None
            covered.append(abs(found.bias - c) < 1.96 * found.stderr)
            claims.append(found.claim)
    least = {5: 0.85, 30: 0.93, 1000: 0.94}[paths]  # with five paths normal errors cover 88 %
    assert np.mean(covered) > least
    assert claims.count("at least") <= 2


def test_paths_without_a_value_are_left_out():
    values = np.array([[1.0, 2.0, 4.0], [5.0, 7.0, 11.0], [0.0, np.nan, 1.0], [-2.0, 4.0, 16.0]])
    found, alone = (step_error(values[rows], (2, 4), 1.0) for rows in ([0, 1, 2, 3], [0, 1, 3]))
    assert found == alone
    assert step_error(values[2:3], (2, 4), 1.0) is None


def test_its_noise_is_the_standard_error_of_a_mean_of_a_sample():
    """Differences 1, 2, 6 have mean 3 and sample variance 7; three times as coarse, of weak order 1."""
    values = np.array([[1.0, 2.0], [5.0, 7.0], [-2.0, 4.0]])
    assert step_error(values, (3,), 1.0) == StepError(
        1.5, pytest.approx(math.sqrt(7 / 3) / 2), pytest.approx(math.sqrt(7 / 3) / 2), "estimate", 1.0
    )
