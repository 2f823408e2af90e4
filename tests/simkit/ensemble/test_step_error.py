"""The step error of given numbers: its order, its error, and where it has no claim."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, given
from hypothesis import strategies as st

from simkit.ensemble.step_bias.resolution import resolution
from simkit.ensemble.step_bias.step_error import DOUBT, StepError, step_error, student_quantile

PAIRS = [(2, 4), (3, 9), (0.5, 2), (0.5, 3), (0.5, 0.25), (2, 3)]
SIZES = st.floats(0.01, 10) | st.floats(-10, -0.01)


def of_means(mean, factors, order, rounding=1e-13) -> StepError:
    """By the means on the run's grid and the others, as of an ordinary equation."""
    result = step_error(np.array([[mean(1.0), *map(mean, factors)]]), factors, order, rounding)
    assert result is not None
    return result


@given(st.sampled_from(PAIRS), st.sampled_from([1, 2, 3, 4, 5]), st.sampled_from([1.0, 2.0, 5.0]), SIZES)
def test_a_pure_power_is_known_by_the_lower_of_the_measured_and_the_claimed_order(factors, order, claimed, c):
    """Jumps or kinks may spoil an order; a better one than claimed is covered by the error."""
    result = of_means(lambda h: 1e9 + c * h**order, factors, claimed, 1e-6)
    assert result.claim == "estimate"
    assert result.order == pytest.approx(min(order, claimed), abs=0.01)
    assert abs(result.bias) > 0.99 * abs(c)
    assert abs(result.bias - c) <= 1.01 * result.stderr + 1e-4
    if order == claimed:
        assert result.bias == pytest.approx(c, rel=1e-3)
        assert result.stderr < 1e-3 * abs(c)


@given(st.sampled_from(PAIRS), st.sampled_from([1.0, 2.0, 5.0]), SIZES, st.floats(0.1, 10))
def test_differences_that_agree_are_doubted_as_they_are_large_compared_with_the_value(
    factors, order, c, value
):
    result = of_means(lambda h: value + c * h**order, factors, order)
    change = abs(c) * (max(1, *factors) ** order - min(1, *factors) ** order)
    part = min(change / max(abs(value + c), 1e-300), DOUBT)
    assert result.stderr == pytest.approx(abs(c) * part, rel=1e-4, abs=1e-10)


@given(st.sampled_from(PAIRS), st.sampled_from([1.0, 2.0]), SIZES, st.floats(-0.1, 0.1))
def test_the_error_covers_the_next_power(factors, order, c, part):
    """Where that is up to a tenth of the first on the longest steps, of either sign."""
    part = part / max(1, *factors)
    result = of_means(lambda h: 3 + c * h**order + part * c * h ** (order + 1), factors, order)
    assert result.claim == "estimate"
    exact = c * (1 + part)
    assert abs(result.bias - exact) <= 1.5 * result.stderr + 1e-9
    assert result.stderr <= 1.1 * abs(result.bias) + 1e-9


@given(st.sampled_from(PAIRS), st.floats(0.02, 0.25), SIZES)
def test_the_error_covers_a_mixture_that_looks_like_another_order(factors, part, c):
    """Of a little of the first power, which is claimed, and much of the second."""
    result = of_means(lambda h: 3 + part * c * h + c * h**2, factors, 1.0)
    assert result.claim == "estimate"
    assert abs(result.bias - (1 + part) * c) <= 2 * result.stderr


@given(st.sampled_from(PAIRS), st.floats(3, 100), SIZES)
def test_what_has_levelled_off_is_a_bound_below_the_exact_value(factors, steepness, c):
    """The mean of a stiff equation by an implicit method: c / (1 + h times the rate)."""
    result = of_means(lambda h: c / (1 + steepness * h), factors, 1.0)
    exact = c / (1 + steepness) - c
    assert result.claim == "at least"
    assert 0 < abs(result.bias) < abs(exact)
    assert result.bias * exact > 0


@given(st.sampled_from(PAIRS), st.floats(1.05, 4))
def test_differences_that_change_sign_have_no_claim(factors, growth):
    """Euler's steps beyond their limit of stability: the sign goes with the number of steps."""
    result = of_means(lambda h: math.cos(growth * 3 * h) * math.exp(h), factors, 1.0)
    values = [math.cos(growth * 3 * h) * math.exp(h) for h in sorted((1.0, *factors))]
    assume((values[1] - values[0]) * (values[2] - values[1]) < -1e-3)
    assert result.claim == "at least"


@given(st.floats(1.05, 1.95), SIZES)
def test_a_bound_is_the_largest_difference_to_shorter_steps(swing, c):
    """The shortest of three may be nearer to the run by chance than the second is."""
    result = of_means(lambda h: {1.0: 0.0, 0.1: c, 0.01: c - swing * c}[h], (0.1, 0.01), 5.0)
    assert result.claim == "at least"
    assert result.bias == pytest.approx(-c)


@given(st.sampled_from(PAIRS), st.floats(-1e3, 1e3))
def test_rounding_is_no_difference(factors, value):
    """Differences of some roundings in any order and of any sign are noise of that size."""
    rounding = 1e-15 * (1 + abs(value))
    rng = np.random.default_rng(int(1000 * abs(value)))
    values = value + rng.uniform(-1, 1, (1, 3)) * rounding
    result = step_error(values, factors, 1.0, rounding)
    assert result is not None
    assert result.claim == "estimate"
    assert abs(result.bias) < 5 * result.stderr


def test_values_near_the_largest_number_are_no_error():
    result = of_means(lambda h: 1e294 * (h >= 1), (0.5, 0.25), 5.0)
    assert result.bias == pytest.approx(1e294)
    assert result.stderr == pytest.approx(DOUBT * 1e294)


@pytest.mark.more
@pytest.mark.parametrize("paths", [5, 30, 1000])
@pytest.mark.parametrize("tail", [None, 3])
def test_noise_is_distinguished_from_a_bias_and_covers_it(paths, tail):
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
            result = step_error(values, factors, 1.0)
            assert result is not None
            covered.append(abs(result.bias - c) < 1.96 * result.stderr)
            claims.append(result.claim)
    least = {5: 0.85, 30: 0.93, 1000: 0.94}[paths]  # with five paths normal errors cover 88 %
    assert np.mean(covered) > least
    assert claims.count("at least") <= 2


AMPLIFICATION = {  # by a step of x' = λx, of z = λh; and the order
    "Euler": (1, lambda z: 1 + z),
    "Heun": (2, lambda z: 1 + z + z**2 / 2),
    "trapezoidal rule": (2, lambda z: (1 + z / 2) / (1 - z / 2)),
    "Runge–Kutta 4": (4, lambda z: sum(z**k / math.factorial(k) for k in range(5))),
    "Tsit5": (5, lambda z: sum(z**k / math.factorial(k) for k in range(6)) + z**6 / 600),
}
RATES = [-200, -50, -20, -10, -5, -1, 2, 5, 10, *(1j * w for w in (1, 3, 10, 20, 30, 50, 80))]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", AMPLIFICATION)
def test_steps_of_any_length_say_how_wrong_they_are(method):
    """Stable or not: within four errors, or by a bound, or there is no result."""
    order, amplify = AMPLIFICATION[method]
    wrong, silent, total = [], [], 0
    for n in (8, 16, 20, 24, 32, 40, 48, 64, 100, 128, 200, 256):
        for rate in np.array([*RATES, -3 + 10j, -3 + 20j, -3 + 40j]):
            means = [(amplify(rate * h / n) ** (n / h)).real for h in (1, 2, 4, 0.5, 0.25)]
            longer = n >= 16 and n % 4 == 0 and np.isfinite(means[:3]).all()
            values, factors = (means[:3], (2, 4)) if longer else ([means[0], *means[3:]], (0.5, 0.25))
            if not np.isfinite(values).all():
                continue
            error = step_error(np.array([values]), factors, order, 1e-15 * abs(values[0]))
            bias, size = values[0] - np.exp(rate).real, max(abs(values[0]), 1.0)
            total += 1
            if error.claim == "estimate" and abs(error.bias - bias) > 4 * error.stderr + 1e-13:
                wrong.append((n, rate))
            kind = resolution(error, size, 0.0, 0.0, n).kind
            if abs(bias) > 0.2 * size and kind == "resolved":
                silent.append((n, rate))
    assert total > 200
    assert len(wrong) <= 0.025 * total, wrong
    assert len(silent) <= 0.01 * total, silent


def test_paths_without_a_value_are_left_out():
    values = np.array([[1.0, 2.0, 4.0], [5.0, 7.0, 11.0], [0.0, np.nan, 1.0], [-2.0, 4.0, 16.0]])
    result, alone = (step_error(values[rows], (2, 4), 1.0) for rows in ([0, 1, 2, 3], [0, 1, 3]))
    assert result == alone
    assert step_error(values[2:3], (2, 4), 1.0) is None


@given(st.sampled_from(PAIRS), SIZES)
def test_differences_on_one_random_path_follow_no_order(factors, c):
    """They may look as if they did, by luck; where they are rounding, the steps make no difference."""
    values = np.array([[3 + c, *(3 + c * h for h in factors)]])
    assert step_error(values, factors, 1.0, 1e-13).claim == "estimate"
    assert step_error(values, factors, 1.0, 1e-13, random=True).claim == "at least"
    assert step_error(values[:, :2], factors[:1], 1.0, 1e-13, random=True).claim == "at least"
    assert step_error(values, factors, 1.0, 100.0, random=True).claim == "estimate"
    twice = np.repeat(values, 2, axis=0)
    assert step_error(twice, factors, 1.0, 1e-13, random=True).claim == "estimate"


def test_its_noise_is_the_standard_error_of_a_mean_of_a_sample():
    """Differences 1, 2, 6 have mean 3 and sample variance 7; three times as coarse, of weak order 1."""
    values = np.array([[1.0, 2.0], [5.0, 7.0], [-2.0, 4.0]])
    assert step_error(values, (3,), 1.0) == StepError(
        1.5, pytest.approx(math.sqrt(7 / 3) / 2), pytest.approx(math.sqrt(7 / 3) / 2), "estimate", 1.0
    )


@pytest.mark.parametrize("freedom", [1, 20, 999, 1000, 4095, 10**6])
def test_quantiles_of_student(freedom):
    for chance in (0.5, 0.6, 0.99, 1 - 3e-5):
        assert student_quantile(freedom, chance) == pytest.approx(
            scipy.special.stdtrit(freedom, chance), rel=5e-3, abs=1e-12
        )
