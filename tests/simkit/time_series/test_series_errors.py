"""Standard errors and autocorrelation times of correlated series: AR(1) processes, whose laws are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from correlated_series import ONE_SIGMA, autoregressive, binomial_z, coverage, time_of

from simkit.time_series import (
    LEAST,
    block_errors,
    estimated_mean,
    levels_of,
    no_levels,
    of_series,
    with_level_samples,
)
from simkit.time_series.levels import MANY
from simkit.time_series.window import windowed

SEEDS = 300


@pytest.mark.parametrize(("a", "samples"), [(0.0, 500), (0.5, 1500), (0.9, 5000), (0.99, 40_000)])
def test_errors_cover_the_true_mean_as_often_as_they_say(a, samples):
    series = autoregressive(a, samples, SEEDS)
    result = of_series(series)
    assert result.reason is None
    np.testing.assert_allclose(result.value, series[0].mean(0), rtol=0, atol=1e-12)
    assert abs(binomial_z(coverage(result), ONE_SIGMA, SEEDS)) < 3.5
    exact = 2 * time_of(a) / samples
    assert np.mean(result.stderr**2) == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize(("a", "samples"), [(0.5, 3000), (0.9, 8000), (0.98, 40_000)])
def test_the_autocorrelation_time_has_the_error_that_it_says(a, samples):
    result = of_series(autoregressive(a, samples, SEEDS))
    assert np.mean(result.tau) == pytest.approx(time_of(a), rel=0.05)
    z = (result.tau - time_of(a)) / result.tau_stderr
    assert 0.75 < np.std(z) < 1.35


def test_below_fifty_autocorrelation_times_the_error_is_unknown_and_above_it_is_there():
    a = 0.95
    few = of_series(autoregressive(a, int(15 * time_of(a)), SEEDS))
    assert np.mean(np.isnan(few.stderr)) > 0.97
    assert "unknown" in few.reason
    many = of_series(autoregressive(a, int(150 * time_of(a)), SEEDS))
    assert np.mean(np.isfinite(many.stderr)) > 0.97
    short = of_series(autoregressive(a, int(35 * time_of(a)), SEEDS))
    assert np.mean(np.isnan(short.stderr)) > 0.85
    assert f"at least {LEAST} are needed; run" in short.reason
    assert np.all(short.samples >= LEAST * short.tau[np.isfinite(short.stderr)])


def test_a_slow_motion_of_small_amplitude_is_not_overlooked():
    """Its variance is a hundredth of the whole, and its part of the error two thirds."""
    slow, samples = 0.99, 2**15
    series = autoregressive(0.0, samples, 100) + 0.1 * autoregressive(slow, samples, 100, seed=1)
    result = of_series(series)
    exact = (1 + 2 * 0.01 * time_of(slow)) / samples
    assert 0.75 < np.mean(result.stderr**2) / exact < 1.1  # without a look at long blocks 0.3


def test_series_whose_neighbours_repel_have_a_smaller_error():
    a, samples = -0.8, 4000
    result = of_series(autoregressive(a, samples, SEEDS))
    assert 0.9 < np.mean(result.stderr**2) / (2 * time_of(a) / samples) < 2  # of independent samples: 9
    assert np.all(result.tau < 0.2)


@pytest.mark.parametrize("samples", [1, 2, 25, 64, 1000, 1023])
def test_a_stream_gives_what_the_array_gives(samples):
    series = 1e3 + autoregressive(0.7, samples, 3)
    streamed = jax.jit(with_level_samples)(no_levels(3), jnp.asarray(series[0]))
    at_once = levels_of(series)
    depth = at_once.total.shape[1]
    for name in ("total", "product", "later", "earlier"):
        own = np.asarray(getattr(streamed, name))
        np.testing.assert_allclose(own[:depth], getattr(at_once, name)[0], rtol=1e-9, atol=1e-8)
    for one, other in zip(estimated_mean(streamed)[:5], of_series(series)[:5], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_the_bits_do_not_depend_on_how_a_series_is_cut():
    series = jnp.asarray(autoregressive(0.9, 301, 2)[0])
    program = jax.jit(with_level_samples)
    whole = program(no_levels(2), series)
    for length in (1, 7, 50):
        state = no_levels(2)
        for start in range(0, len(series), length):
            state = program(state, series[start : start + length])
        for one, other in zip(whole, state, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("replicas", "times"), [(4, 70), (32, 10)])
def test_replicas_give_one_mean_with_the_right_error(replicas, times):
    a, count = 0.9, 300
    samples = int(times * time_of(a))
    series = autoregressive(a, samples, replicas * count)
    series = series[0].T.reshape(replicas, count, samples).swapaxes(1, 2)
    result = of_series(series)
    assert result.samples == replicas * samples
    assert result.reason is None
    assert abs(binomial_z(coverage(result), ONE_SIGMA, count)) < 3.5
    np.testing.assert_allclose(result.value, series.mean((0, 1)), atol=1e-12)


def test_replicas_may_be_states_of_their_own():
    series = autoregressive(0.5, 200, 4)[0]
    states = [with_level_samples(no_levels(1), jnp.asarray(series[:, i : i + 1])) for i in range(4)]
    together = of_series(series.T[:, :, None])
    np.testing.assert_allclose(estimated_mean(states).stderr, together.stderr, rtol=1e-8)
    short = with_level_samples(no_levels(1), jnp.asarray(series[:7, :1]))
    with pytest.raises(ValueError, match="equally many samples, got 7, 200"):
        estimated_mean([*states, short])


def test_replicas_that_differ_have_a_larger_error():
    series = autoregressive(0.5, 4000, 4).transpose(2, 1, 0)
    apart = series + np.array([-1.0, -0.3, 0.3, 1.0])[:, None, None]
    assert not of_series(apart).stderr[0] < 3 * of_series(series).stderr[0]  # or unknown


def test_replicas_that_differ_for_good_are_not_only_told_to_run_longer():
    series = autoregressive(0.5, 4000, MANY).transpose(2, 1, 0) + 10.0 * np.arange(MANY)[:, None, None]
    few = of_series(series[: MANY - 1])
    assert np.isnan(few.stderr[0])
    assert few.reason.endswith(f", or take at least {MANY} replicas")
    assert np.isfinite(of_series(series).stderr[0])
    assert "replicas" not in of_series(autoregressive(0.98, 2000, 1)).reason


@pytest.mark.parametrize("replicas", [4, 8, 20])
def test_separate_replicas_have_an_error_that_covers_the_spread_of_their_means(replicas):
    """With offsets of a tenth of a standard deviation, two to three errors of a replica's own mean."""
    series = _apart(replicas, 0.1)
    result = of_series(series, separate=True)
    assert result.reason is None
    assert abs(binomial_z(coverage(result), ONE_SIGMA, SEEDS)) < 3.5
    assert np.median(result.tau) == pytest.approx(time_of(0.5), rel=0.1)  # about the means of each


def test_two_or_three_separate_replicas_have_the_error_at_their_own_means():
    offsets = np.random.default_rng(5).normal(size=(3, 1, SEEDS))
    series = _apart(3, 0.0) + offsets
    result = of_series(series, separate=True)
    assert result.reason is None
    assert np.mean(result.stderr**2) == pytest.approx(2 * time_of(0.5) / 6000, rel=0.06)
    assert (
        abs(binomial_z(np.mean(np.abs(result.value - offsets.mean(0)[0]) < result.stderr), ONE_SIGMA, SEEDS))
        < 3.5
    )


@pytest.mark.parametrize("replicas", [2, 3])
def test_the_means_of_separate_replicas_each_take_a_degree_of_freedom(replicas):
    """So replicas with the same samples have the variance of one, divided by their number."""
    for seed in (1, 2, 3, 4):
        one = np.random.default_rng(seed).normal(size=(1, 200, 1))
        alone, together = of_series(one), of_series(np.repeat(one, replicas, 0), separate=True)
        assert together.stderr == pytest.approx(alone.stderr / np.sqrt(replicas), rel=1e-12)


def test_the_error_of_separate_replicas_is_no_less_than_that_of_their_fluctuations():
    """Four with the same samples have means that do not spread; where no time is known, the spread is all."""
    one = np.random.default_rng(1).normal(size=(1, 200, 1))
    same = of_series(np.repeat(one, 4, 0), separate=True)
    assert same.stderr == pytest.approx(of_series(one).stderr / 2, rel=1e-12)
    offsets = np.array([0.0, 0.1, 0.2, 0.3])
    alternating = np.tile([-1.0, 1.0], 6)[None, :, None] + offsets[:, None, None]
    short = of_series(alternating, separate=True)
    assert np.isnan(short.tau[0])
    assert short.stderr == pytest.approx(1.1969 * np.std(offsets, ddof=1) / 2, rel=1e-3)


def _apart(replicas, spread):
    series = autoregressive(0.5, 2000, replicas * SEEDS)[0].T.reshape(replicas, SEEDS, 2000).swapaxes(1, 2)
    return series + spread * np.random.default_rng(1).normal(size=(replicas, 1, SEEDS))


def test_a_constant_has_no_error_and_what_is_not_finite_an_unknown_one():
    constant = of_series(np.full((1, 100, 1), 0.1))
    assert constant.stderr[0] == 0
    assert constant.reason is None
    broken = autoregressive(0.5, 400, 1)
    broken[0, 200] = np.nan
    result = of_series(broken)
    assert np.isnan(result.stderr[0])
    assert result.reason == "unknown: not a finite number, or no data"
    assert np.isnan(of_series(np.ones((1, 1, 1))).stderr[0])


def test_block_errors_rise_to_a_plateau():
    a, samples = 0.9, 2**15
    result = block_errors(levels_of(autoregressive(a, samples, 20)))
    np.testing.assert_array_equal(result.length[:4], [1, 2, 4, 8])
    assert np.mean(result.stderr[0]) == pytest.approx(np.sqrt(1 / samples), rel=0.05)
    plateau = np.sqrt(2 * time_of(a) / samples)
    level = int(np.searchsorted(result.length, 256))
    assert np.mean(result.stderr[level]) == pytest.approx(plateau, rel=0.1)
    assert result.stderr_error[level, 0] == pytest.approx(result.stderr[level, 0] / np.sqrt(2 * (128 - 1)))


def test_autocovariances_about_the_mean_of_the_sample_itself_are_corrected():
    r"""By Wolff's equation 49, their sum over a window W by the fraction $(2W + 1)/n$."""
    n, covariance = 400, 0.5 ** np.arange(16.0)
    sums = 1 + 2 * np.cumsum(covariance[1:])
    corrected = sums * (1 + (2 * np.arange(1, 16) + 1) / n)
    total = windowed(covariance[:, None], n).total[0]
    assert np.min(np.abs(corrected - total)) < 1e-12
    assert total > 2.7
