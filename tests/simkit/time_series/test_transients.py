"""Transients: found where a series begins away from its mean, and nowhere else."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.signal import lfilter

from simkit.time_series import begins_away, transient_of

SERIES = 300


def correlated(replicas: int, samples: int, tau: float, seed: int) -> np.ndarray:
    """A stationary autoregression of variance 1 and mean 0; correlations decay by e in `tau` samples."""
    generator, decay = np.random.default_rng(seed), np.exp(-1 / tau)
    noise = generator.normal(size=(replicas, samples)) * np.sqrt(1 - decay**2)
    noise[:, 0] /= np.sqrt(1 - decay**2)
    return lfilter([1.0], [1.0, -decay], noise, axis=1)


@pytest.mark.parametrize(("replicas", "samples", "tau"), [(1, 400, 0.3), (1, 2000, 4.0), (4, 1500, 8.0)])
def test_a_stationary_series_has_none(replicas, samples, tau):
    """At most 1 in 100, of 300 series."""
    found = [transient_of(correlated(replicas, samples, tau, seed)) for seed in range(SERIES)]
    assert sum(each is not None for each in found) <= SERIES // 100


@pytest.mark.parametrize(("replicas", "samples", "tau"), [(1, 2000, 0.3), (4, 2000, 3.0)])
def test_a_start_away_from_the_mean_is_found_and_left_out(replicas, samples, tau):
    """An exponential approach from 5 standard deviations: most of the 25 standard errors of bias go.

    Of the bias at most half a standard error remains, and around that the means scatter as their errors say.
    """
    approach = 5 * np.exp(-np.arange(samples) / 40)
    found = [transient_of(correlated(replicas, samples, tau, seed) + approach) for seed in range(SERIES)]
    there = [each for each in found if each is not None]
    assert len(there) >= 0.98 * SERIES
    z = np.asarray([each.mean / each.stderr for each in there])
    assert abs(z.mean()) < 0.6
    assert 0.8 < z.std() < 1.2
    assert np.median([each.samples for each in there]) < samples / 5


@pytest.mark.parametrize(("replicas", "samples"), [(64, 200), (16, 400)])
def test_many_replicas_show_an_approach_that_one_hides(replicas, samples):
    """It begins half a standard deviation off, 4 to 8 errors of a sample's mean, and decays in 20 samples.

    The means without it scatter about the true one as their errors say; with it they are two errors off.
    """
    approach = 8 / replicas**0.5 * 0.5 * np.exp(-np.arange(samples) / 20)
    all_series = [correlated(replicas, samples, 3.0, seed) + approach for seed in range(SERIES)]
    found = [transient_of(series) for series in all_series]
    there = [each for each in found if each is not None]
    assert len(there) > 0.8 * SERIES
    z = np.asarray([each.mean / each.stderr for each in there])
    assert np.sqrt(np.nanmean(z**2)) < 1.2
    assert np.isnan(z).sum() < 0.1 * SERIES  # a decay that may be slower
    assert np.median([each.samples for each in there]) < samples / 3


@pytest.mark.parametrize(("height", "time", "found_of"), [(1.0, 100, 0.95), (0.5, 300, 0.75)])
def test_a_slow_approach_is_left_out_without_narrowing_the_error(height, time, found_of):
    """To a twentieth and a seventh of the run: the mean is off by two errors, and the rest by half of one."""
    approach = height * np.exp(-np.arange(2000) / time)
    found = [transient_of(correlated(1, 2000, 0.3, seed) + approach) for seed in range(SERIES)]
    z = np.asarray([each.mean / each.stderr for each in found if each is not None])
    assert len(z) > found_of * SERIES
    assert np.sqrt(np.nanmean(z**2)) < 1.25


def test_the_cut_leaves_a_fifth_of_the_error_of_the_samples_after_it():
    r"""In white noise the mean of $3 e^{-t/\theta}$ over the n - c samples kept is $0.2/\sqrt{n - c}$.

    That error is larger than the one of all n samples, by which the cut would come a fifth of the decay
    later.
    """
    samples, time = 20_000, 1280.0

    def too_much(cut: float) -> float:
        return 3 * time * np.exp(-cut / time) / (samples - cut) - 0.2 / np.sqrt(samples - cut)

    approach = 3 * np.exp(-np.arange(samples) / time)
    noise = (np.random.default_rng(seed).normal(size=(1, samples)) for seed in range(20))
    found = [transient_of(each + approach) for each in noise]
    cut = np.median([each.samples for each in found if each is not None])
    assert cut == pytest.approx(brentq(too_much, 0, samples / 2), abs=0.05 * time)


def test_what_approaches_for_half_of_the_run_and_longer_has_no_settled_error():
    """Of a decay in three tenths of the run, from 2 standard deviations off, the rest has seven errors."""
    for seed in range(30):
        found = transient_of(correlated(1, 2000, 0.3, seed) + 2 * np.exp(-np.arange(2000) / 600))
        assert found is not None
        assert np.isnan(found.stderr)


def test_a_series_too_short_for_an_error_may_be_seen_to_begin_away():
    """Of 15 correlation times, 11 standard deviations off or more; none of noise, however slow."""
    for seed in range(30):
        series = correlated(1, 300, 20.0, seed)
        series[:, 0] += 20 if series[0, 0] > 0 else -20
        assert begins_away(series) > 8
    for samples, tau in ((20, 3.0), (400, 30.0), (400, 4000.0)):
        away = [begins_away(correlated(1, samples, tau, seed)) for seed in range(SERIES)]
        assert sum(each is not None for each in away) <= 3
    assert begins_away(np.arange(19.0)[None] == 0) is None


def test_the_rest_of_a_series_begins_after_a_quarter():
    """A beginning that is off for a quarter widens no spread, and a second sample is no beginning."""
    off = np.random.default_rng(3).normal(size=(1, 400))
    rest = off[:, 100:]
    off[:, :100] += 30
    assert begins_away(off) == pytest.approx((off[0, 0] - rest.mean()) / rest.std(), rel=1e-12)
    late = np.random.default_rng(4).normal(size=(1, 400))
    late[:, 1:100] += 30
    assert begins_away(late) is None


def test_short_and_constant_series_have_none():
    for series in (np.zeros((1, 3)), np.ones((2, 100)), np.full((1, 500), 5.1), np.arange(3.0)[None]):
        assert transient_of(series) is None


def test_a_constant_that_begins_elsewhere_is_known_exactly_afterwards():
    """As of a quantity that is conserved once a thermostat has set it."""
    series = np.ones((1, 100))
    series[0, :3] = 7.0
    found = transient_of(series)
    assert found is not None
    assert 3 <= found.samples < 10
    assert (found.mean, found.stderr) == (1.0, 0.0)


@pytest.mark.parametrize("replicas", [1, 2])
def test_rare_events_that_all_come_early_are_no_transient(replicas):
    """As in 1 of 100 series of events: the second half has none, and its mean is not known to be 0 ± 0."""
    for seed in range(SERIES):
        events = np.random.default_rng(seed).random((replicas, 500)) < 0.005
        events[:, 0] = events[:, 250:] = False
        assert transient_of(5.0 + events) is None


@pytest.mark.parametrize(("height", "matters"), [(30.0, False), (100.0, True)])
def test_a_clear_start_matters_only_if_it_changes_the_mean_by_more_than_its_error(height, matters):
    """One sample of 2000, 30 standard deviations off, moves the mean by 0.015, and its error is 0.022."""
    for seed in range(30):
        series = correlated(1, 2000, 0.1, seed)
        series[:, 0] += height
        assert (transient_of(series) is not None) == matters


def test_nothing_is_said_where_the_rest_has_no_standard_error():
    """Of 15 correlation times, however far off the series begins."""
    for seed in range(30):
        series = correlated(1, 300, 20.0, seed)
        series[:, :20] += 50
        assert transient_of(series) is None


@pytest.mark.parametrize(("samples", "period"), [(60, 8.2), (200, 27.0)])
def test_oscillations_with_a_phase_for_each_replica_are_no_approach(samples, period):
    """Their means over whole periods are alike, so that the spread of means says nothing of the noise."""
    draw, times, found = np.random.default_rng(5), np.arange(samples), 0
    for _ in range(100):
        phases = draw.uniform(0, 2 * np.pi, (16, 1))
        series = np.cos(2 * np.pi * times / period + phases) + 0.3 * draw.normal(size=(16, samples))
        found += transient_of(series) is not None
    assert found <= 2


def test_an_approach_is_seen_beside_means_that_replicas_keep():
    """What differs between replicas for good is no noise of an approach."""
    draw, found = np.random.default_rng(6), 0
    for _ in range(40):
        own = draw.normal(size=(4, 1))
        approach = 10 * np.exp(-np.arange(1000) / 100)
        found += transient_of(own + approach + 0.3 * draw.normal(size=(4, 1000)), separate=True) is not None
    assert found >= 30


@pytest.mark.parametrize("wave", [lambda t: 1 + np.cos(t / 5), lambda t: np.cos(t / 5)])
def test_an_approach_in_whole_numbers_may_overshoot_its_end(wave):
    """The value of the end occurs on the way, but not at the start."""
    times = np.arange(400)
    series = np.tile(np.round(100 * np.exp(-times / 25) * wave(times)), (8, 1))
    found = transient_of(series)
    assert found is not None
    assert 100 < found.samples < 200
    assert found.mean == 0
