"""Sums over pairs of times, against sums written down plainly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.time_series import (
    LagTable,
    averages,
    block_sums,
    jackknife,
    no_correlator,
    with_correlator_sample,
)

LAGS = LagTable(levels=3, lags=8, factor=2)


def square(now, then):
    return jnp.sum((now - then) ** 2, keepdims=True)


def program(lags=LAGS, relation=square):
    @jax.jit
    def streamed(state, samples):
        def add(i, state):
            return with_correlator_sample(state, lags, relation, samples[i])

        return jax.lax.fori_loop(0, samples.shape[0], add, state)

    return streamed


def walk(steps: int, seed: int = 0, dimensions: int = 3) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).standard_normal((steps, dimensions)), axis=0)


def test_lags_are_distinct_and_reach_as_far_as_asked():
    np.testing.assert_array_equal(LAGS.distinct, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28])
    for longest in (1, 15, 16, 60, 1000):
        lags = LagTable.up_to(longest)
        assert lags.distinct[-1] >= longest
        assert lags.levels == 1 or LagTable(lags.levels - 1).distinct[-1] < longest
        assert np.all(np.diff(lags.distinct) > 0)


@pytest.mark.parametrize("samples", [1, 9, 100])
def test_each_lag_is_the_mean_over_all_its_pairs_of_times(samples):
    path = walk(samples)
    state = program()(no_correlator(LAGS, square, jnp.zeros(3)), jnp.asarray(path))
    result = averages(LAGS, block_sums(state.sums).everything)[:, 0]
    periods = np.repeat([1, 2, 4], [8, 4, 4])
    for lag, period, value in zip(LAGS.distinct, periods, result, strict=True):
        ends = np.arange(lag, samples, period)  # lag is a multiple of the period
        expected = ((path[ends] - path[ends - lag]) ** 2).sum(1).mean() if len(ends) else np.nan
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_the_bits_do_not_depend_on_how_a_path_is_cut():
    path, add = jnp.asarray(walk(211)), program()
    blank = no_correlator(LAGS, square, jnp.zeros(3))
    whole = add(blank, path)
    for length in (1, 7, 50):
        state = blank
        for start in range(0, len(path), length):
            state = add(state, path[start : start + length])
        for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(state), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_random_walk_goes_as_far_as_it_should_within_its_errors():
    """Its mean-square displacement is 3 t; all lags of 40 walks, with errors that cover it."""
    lags, count = LagTable(2, 8, 4), 40
    add = program(lags)
    z = []
    for seed in range(count):
        state = add(no_correlator(lags, square, jnp.zeros(3)), jnp.asarray(walk(6000, seed)))
        result = jackknife(state.sums, lambda sums, samples: averages(lags, sums)[1:, 0])
        z.append((result.value - 3 * lags.distinct[1:]) / result.stderr)
    z = np.array(z)
    assert np.isfinite(z).mean() > 0.97  # a few of the longest lags have too few independent blocks
    assert np.abs(np.nanmean(z, 0) * np.sqrt(count)).max() < 4.9
    assert np.all((np.nanstd(z, 0) > 0.7) & (np.nanstd(z, 0) < 1.5))
