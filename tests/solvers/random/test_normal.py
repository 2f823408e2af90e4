"""Words become standard normals to float32 round-off, with every tail to its end."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri
from simkit_solvers import Stream, Words, block, seed_key, standard_normal, stream_key
from simkit_solvers.random.normal import standard_normal_float64, uniform
from user_code import user_jit

ERROR = 1.3e-6
HALVES = 2**31  # patterns of one sign; half i has two-sided tail probability (i + 1/2) / 2**31
PER_OCTAVE = 2**16

as_normals = user_jit(standard_normal)
as_wide_normals = user_jit(standard_normal_float64)
as_uniforms = user_jit(uniform)


def normals(half, negative=0):
    """The float32 normals of the given halves, as float64."""
    word = np.asarray(half).astype(np.uint32) << np.uint32(1) | np.uint32(negative)
    return np.asarray(as_normals(jnp.asarray(word))).astype(np.float64)


def exact(half):
    return -ndtri((np.asarray(half, np.float64) + 0.5) / (2 * HALVES))


def octaves():
    """Halves with weights: all of the first octaves, and of each later one 2**16, one from every stratum."""
    rng = np.random.default_rng(0)
    halves, weights = [np.arange(PER_OCTAVE)], [np.ones(PER_OCTAVE)]
    for start in 2 ** np.arange(16, 31):
        stride = int(start) // PER_OCTAVE
        halves.append(start + stride * np.arange(PER_OCTAVE) + rng.integers(0, stride, PER_OCTAVE))
        weights.append(np.full(PER_OCTAVE, stride))
    return np.concatenate(halves), np.concatenate(weights) / HALVES


def even_grid():
    """A million halves, evenly spaced, the last included."""
    return np.arange(2**11 - 1, HALVES, 2**11)


@pytest.fixture(scope="module")
def sample():
    halves, weights = octaves()
    return halves, weights, normals(halves), exact(halves)


def test_the_sample_of_patterns_stands_for_all_of_them(sample):
    halves, weights, _, _ = sample
    assert len(np.unique(halves)) == len(halves)
    assert weights.sum() == 1


def test_every_pattern_is_the_quantile_it_stands_for(sample):
    _, weights, z, q = sample
    error = z - q
    assert np.abs(error).max() < ERROR
    assert math.sqrt(np.sum(weights * error**2)) < 2e-7
    grid = even_grid()
    assert np.abs(normals(grid) - exact(grid)).max() < ERROR


def test_the_lowest_bit_is_the_sign_and_nothing_else(sample):
    halves, _, z, _ = sample
    assert (z[np.argsort(halves)][:-64] > 0).all()  # the last 64 halves are zero in float32
    np.testing.assert_array_equal(normals(halves, negative=1), -z)
    assert np.signbit(normals([HALVES - 1], negative=1)).all()


def test_moments_over_all_patterns(sample):
    _, weights, z, _ = sample
    for order, moment, tolerance in ((2, 1, 1e-6), (4, 3, 4e-6), (6, 15, 3e-5)):
        assert abs(np.sum(weights * z**order) - moment) < tolerance
    assert abs(np.sum(weights * z) - math.sqrt(2 / math.pi)) < 2e-7


def test_31_bits_miss_next_to_nothing_of_the_moments():
    # Odd moments are zero, because patterns come in pairs ±z. Taking z**order at midpoints of v instead of
    # its integral misses log(2)/2 * d(z**order)/d(log v) at the last half, times the spacing.
    strata = [(0, 1), *((2**j, 2**j // PER_OCTAVE) for j in range(16, 31))]
    for order, moment in ((2, 1), (4, 3), (6, 15)):
        total = 0.0
        for start, stride in strata:
            middle = start + stride * (np.arange(PER_OCTAVE) + 0.5)
            total += stride * np.sum(ndtri(middle / (2 * HALVES)) ** order)
        largest = exact(0)
        slope = order * largest ** (order - 1) * 0.5 / HALVES / (2 * stats.norm.pdf(largest))
        assert moment - total / HALVES == pytest.approx(math.log(2) / 2 / HALVES * slope, rel=0.2)
        assert moment - total / HALVES < 2e-6


def test_tails_hold_as_many_patterns_as_they_should(sample):
    tail = np.arange(2**18)
    z, q = normals(tail), exact(tail)
    for k, count in ((4, 136_027), (5, 1231), (6, 4)):
        assert abs(count - 2 * HALVES * stats.norm.sf(k)) < 0.5
        assert np.sum(q > k) == count
        assert abs(np.sum(z > k) - count) <= 2 * HALVES * stats.norm.pdf(k) * ERROR + 0.5
    for k in (1, 2, 3):
        threshold = 2 * HALVES * stats.norm.sf(k)
        slack = int(2 * HALVES * stats.norm.pdf(k) * ERROR) + 1
        near = int(threshold) + np.arange(-4 * slack, 4 * slack)
        above = normals(near) > k
        assert above[: 3 * slack].all()
        assert not above[5 * slack :].any()
    assert z[0] == np.float32(6.3379579)


def test_monotone_in_the_bits_above_the_lowest(sample):
    halves, _, z, _ = sample
    assert np.diff(z[np.argsort(halves)]).max() <= 5e-7
    for start in (0, 2**20, 2**24 - 2**16, 2**30, HALVES - 2**17):
        assert np.diff(normals(start + np.arange(2**17))).max() <= 5e-7


@pytest.mark.slow
def test_all_patterns_one_by_one():
    chunk, sums, worst, last = 2**22, np.zeros(3), 0.0, np.inf
    counts = np.zeros(7, np.int64)
    for start in range(0, HALVES, chunk):
        halves = start + np.arange(chunk)
        z = normals(halves)
        np.testing.assert_array_equal(normals(halves, negative=1), -z)
        worst = max(worst, np.abs(z - exact(halves)).max())
        sums += [np.sum(z**2), np.sum(z**4), np.sum(z**6)]
        counts += [np.sum(z > k) for k in range(7)]
        assert np.diff(z, prepend=last).max() <= 5e-7
        last = z[-1]
    assert worst < ERROR
    assert (np.abs(sums / HALVES - [1, 3, 15]) < [1e-6, 4e-6, 3e-5]).all()
    expected = 2 * HALVES * stats.norm.sf(np.arange(7))
    slack = 2 * HALVES * stats.norm.pdf(np.arange(7)) * ERROR + 1
    assert (np.abs(counts - expected) <= slack).all()


def as_words(bits, low=0):
    """Words whose leading 52 bits are the given integers and whose last 12 are `low`."""
    bits = np.asarray(bits, np.uint64)
    high, rest = bits >> np.uint64(20), bits & np.uint64(2**20 - 1)
    return Words(
        jnp.asarray(high.astype(np.uint32)),
        jnp.asarray(rest.astype(np.uint32) << np.uint32(12) | np.uint32(low)),
    )


def wide_bits():
    """52-bit integers: the first and last of them, and a thousand from every octave."""
    rng = np.random.default_rng(1)
    middle = [rng.integers(2**j, 2 ** (j + 1), 1000) for j in range(10, 52)]
    return np.concatenate([np.arange(1024), *middle, 2**52 - 1 - np.arange(1024)])


def test_wide_normals_are_quantiles_to_float64_round_off():
    bits = wide_bits()
    q = -ndtri((bits + 0.5) * 2.0**-53)
    z = np.asarray(as_wide_normals(as_words(bits)))
    assert z.dtype == np.float64
    assert (np.abs(z - q) <= 1e-14 * np.maximum(1, np.abs(q))).all()
    assert z[0] == z.max() == pytest.approx(8.2923611, abs=1e-7)
    np.testing.assert_array_equal(as_wide_normals(as_words(bits, low=1)), -z)
    np.testing.assert_array_equal(as_wide_normals(as_words(bits, low=0xFFE)), z)


def test_uniforms_are_midpoints_in_the_open_interval():
    bits = wide_bits()
    u = np.asarray(as_uniforms(as_words(bits, low=0xFFF)))
    np.testing.assert_array_equal(u, (bits + 0.5) * 2.0**-52)
    assert 0 < u.min() < u.max() < 1


def test_float64_draws_are_refused_without_64_bit_mode():
    with jax.enable_x64(False):
        words = Words(jnp.uint32(1), jnp.uint32(2))
        for draw in (standard_normal_float64, uniform):
            with pytest.raises(
                ValueError, match=r"need 64-bit mode: call jax.config.update\('jax_enable_x64', True\)"
            ):
                draw(words)
        assert standard_normal(words.a).dtype == jnp.float32


@pytest.fixture(scope="module")
def drawn():
    """The words of a thousand paths and a thousand steps."""

    def path(i):
        key = stream_key(seed_key(11), i, Stream.INCREMENTS)
        return jax.vmap(lambda k: block(key, k, 0))(jnp.arange(1000, dtype=jnp.uint32))

    return user_jit(jax.vmap(path))(jnp.arange(1000, dtype=jnp.uint32))


def anderson_darling(z):
    """The statistic of a sample against N(0, 1); exceeds a large x with probability sqrt(3/pi x) exp(-x)."""
    z = np.sort(z)
    rank = 2 * np.arange(1, z.size + 1) - 1
    return -z.size - np.mean(rank * (stats.norm.logcdf(z) + stats.norm.logsf(z[::-1])))


@pytest.mark.parametrize("which", ["first word", "second word", "both words in float64"])
def test_draws_are_standard_normal(drawn, which):
    z = {
        "first word": lambda: as_normals(drawn.a),
        "second word": lambda: as_normals(drawn.b),
        "both words in float64": lambda: as_wide_normals(drawn),
    }[which]()
    z = np.asarray(z, np.float64).ravel()
    assert stats.kstest(z, "norm").pvalue > 1e-6
    assert anderson_darling(z) < 12.6  # alpha 1e-6
    assert abs(np.mean(z**2) - 1) * math.sqrt(z.size / 2) < 5
    assert abs(np.mean(z**3)) * math.sqrt(z.size / 15) < 5
    assert abs(np.mean(z**4) - 3) * math.sqrt(z.size / 96) < 5


def test_drawn_uniforms_are_uniform(drawn):
    assert stats.kstest(np.asarray(as_uniforms(drawn)).ravel(), "uniform").pvalue > 1e-6
