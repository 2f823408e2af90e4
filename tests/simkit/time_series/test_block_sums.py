"""Sums over blocks, errors of functions of averages, and slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from correlated_series import ONE_SIGMA, autoregressive, binomial_z, coverage, time_of

from simkit.time_series import (
    block_sums,
    blocks_of,
    in_one_block,
    jackknife,
    no_blocks,
    of_blocks,
    slope,
    with_block_sample,
)

SEEDS = 300


@jax.jit
def streamed(blocks, samples):
    def add(i, blocks):
        return with_block_sample(blocks, jax.tree.map(lambda a: a[i], samples))

    return jax.lax.fori_loop(0, jax.tree.leaves(samples)[0].shape[0], add, blocks)


@pytest.mark.parametrize("samples", [1, 5, 127, 128, 129, 1000, 4096])
def test_blocks_hold_every_sample_once(samples):
    numbers = jnp.arange(samples, dtype=jnp.int64)
    blocks = streamed(no_blocks(numbers[0]), numbers)
    sums = block_sums(blocks)
    assert sums.samples == samples
    assert sums.everything == samples * (samples - 1) // 2
    assert sums.complete.shape[1] == samples // sums.length
    if samples >= 128:
        assert 64 <= sums.blocks <= 128
    whole = np.arange(samples)[: sums.blocks * sums.length].reshape(sums.blocks, sums.length)
    np.testing.assert_array_equal(sums.complete[0], whole.sum(1))


def test_the_bits_do_not_depend_on_how_a_series_is_cut():
    series = jnp.asarray(np.random.default_rng(0).standard_normal((401, 3)))
    whole = streamed(no_blocks(series[0]), series)
    for length in (1, 7, 50):
        blocks = no_blocks(series[0])
        for start in range(0, len(series), length):
            blocks = streamed(blocks, series[start : start + length])
        np.testing.assert_array_equal(blocks.sums, whole.sums)


def sums_of(series: np.ndarray):
    """Those of replicas `(replicas, samples, ...)`, streamed."""
    states = [streamed(no_blocks(jnp.zeros(series.shape[2:])), jnp.asarray(each)) for each in series]
    return block_sums(states)


def test_the_jackknife_covers_a_variance_and_takes_its_bias_away():
    a, samples, count = 0.8, 6000, 300
    x = autoregressive(a, samples, count)
    sums = sums_of(np.stack([x, x**2], axis=-1))

    def variance(sums, samples):
        mean = sums / samples
        return mean[:, 1] - mean[:, 0] ** 2

    result = jackknife(sums, variance)
    # The distribution of a variance is skew: its coverage is a little short of the nominal one.
    assert -4 < binomial_z(coverage(result, 1.0), ONE_SIGMA, count) < 3.5
    plain = variance(sums.everything, sums.samples)
    bias, error = 2 * time_of(a) / samples, np.std(plain) / np.sqrt(count)
    assert abs(np.mean(result.value) - 1) < 4 * error
    assert np.mean(result.value - plain) == pytest.approx(bias, rel=0.15)


def test_of_an_average_the_jackknife_is_the_mean_over_blocks():
    series = autoregressive(0.6, 1100, 5)
    sums = sums_of(series)
    one = jackknife(sums, lambda total, samples: total / samples)
    other = of_blocks(sums.everything / sums.samples, sums.complete / sums.length, sums.length, sums.samples)
    for a, b in zip(one[:5], other[:5], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(one.value, series[0].mean(0), atol=1e-12)


def test_errors_of_blocks_are_unknown_below_fifty_autocorrelation_times():
    a = 0.98
    sums = sums_of(autoregressive(a, int(20 * time_of(a)), 100))
    result = jackknife(sums, lambda total, samples: total / samples)
    assert np.mean(np.isnan(result.stderr)) > 0.9
    assert "unknown" in result.reason


@pytest.mark.parametrize(("replicas", "offsets"), [(4, 0.3), (20, 0.3), (20, 0.0)])
def test_functions_of_replicas_that_differ_for_good_have_the_error_of_their_spread(replicas, offsets):
    """The mean square of series about 1 with offsets of their own; of 20 replicas without a word."""
    count, samples = 60, 200
    noise = autoregressive(0.5, samples, replicas * count)[0].T.reshape(replicas, count, samples)
    levels = 1 + offsets * np.random.default_rng(2).normal(size=(replicas, count, 1))
    states = [streamed(no_blocks(jnp.zeros(count)), jnp.asarray(own.T**2)) for own in levels + noise]
    if replicas < 16:
        states = in_one_block(states)
    result = jackknife(block_sums(states), lambda sums, n: sums / n)
    assert result.reason is None
    assert abs(binomial_z(coverage(result, 2 + offsets**2), ONE_SIGMA, count)) < 3.5
    np.testing.assert_allclose(result.value, ((levels + noise) ** 2).mean((0, 2)), rtol=1e-9)


def test_a_function_without_data_is_unknown():
    sums = sums_of(np.zeros((1, 200, 1)))
    with np.errstate(invalid="ignore"):
        result = jackknife(sums, lambda total, samples: total / total)
    assert result.reason == "unknown: not a finite number, or no data"


@pytest.mark.parametrize("replicas", [1, 4])
def test_slopes_cover_the_true_drift(replicas):
    a, samples, drift, interval = 0.9, 6000, 0.02, 0.1
    noise = autoregressive(a, samples, SEEDS * replicas)[0].T.reshape(replicas, SEEDS, samples)
    time = interval * np.arange(samples)
    offsets = np.arange(replicas)[:, None, None]  # replicas may have different levels
    sums = sums_of((noise + drift * time + 10 * offsets).swapaxes(1, 2))
    result = slope(sums, interval)
    assert result.reason is None
    assert abs(binomial_z(coverage(result, drift), ONE_SIGMA, SEEDS)) < 3.5
    exact = np.sqrt(2 * time_of(a) / samples / replicas * 12) / (samples * interval)
    assert np.sqrt(np.mean(result.stderr**2)) == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize(("replicas", "samples"), [(64, 3), (32, 4), (64, 8)])
def test_the_error_of_a_slope_counts_what_was_fitted(replicas, samples):
    """The levels of short replicas take much of the residuals with them."""
    noise = np.random.default_rng(0).standard_normal((replicas, samples, 2000))
    times = np.arange(samples) - (samples - 1) / 2
    result = slope(blocks_of(noise))
    assert result.reason is None
    assert np.mean(result.stderr**2) == pytest.approx(1 / (replicas * np.sum(times**2)), rel=0.04)


@pytest.mark.parametrize("samples", [1, 128, 129, 1000])
def test_blocks_of_an_array_are_those_of_a_stream(samples):
    series = np.random.default_rng(0).integers(0, 100, (2, samples, 3)).astype(float)
    streams, array = sums_of(series), blocks_of(series)
    assert (streams.length, streams.samples) == (array.length, array.samples)
    np.testing.assert_array_equal(streams.complete, array.complete)
    np.testing.assert_array_equal(streams.everything, array.everything)


def test_a_variance_has_no_error_while_the_mean_has_none():
    """Of series of 35 autocorrelation times: their squares seem to have 50 in half of them, and few do."""
    tau, seeds = 20.0, 100
    series = autoregressive((2 * tau - 1) / (2 * tau + 1), int(35 * tau), seeds)

    def variance(sums, n):
        return sums[1] / n - (sums[0] / n) ** 2

    def mean(sums, n):
        return sums[0] / n

    alone = known = 0
    for x in np.moveaxis(series, -1, 0):
        sums = blocks_of(np.stack([x, x * x], axis=-1))
        of_mean, by_itself = jackknife(sums, mean), jackknife(sums, variance)
        estimate = jackknife(sums, variance, about=mean)
        alone += np.isfinite(by_itself.stderr)
        known += np.isfinite(estimate.stderr)
        assert np.isfinite(estimate.stderr) == (np.isfinite(of_mean.stderr) and np.isfinite(by_itself.stderr))
        if np.isfinite(by_itself.stderr) and np.isnan(estimate.stderr):
            assert estimate.reason == of_mean.reason
    assert known < 0.15 * seeds < alone
