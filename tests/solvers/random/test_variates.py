"""Variates have their distributions, to the last bits where that can be seen."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import chi_square
from scipy import stats
from simkit_solvers import Words, binomial, block, exponential, gamma, poisson
from simkit_solvers.random.variates import (
    LARGEST_INVERTED,
    _binomial_hat,
    _log_after_cube,
    _log_binomial,
    _log_poisson,
    _poisson_hat,
    below_one,
    inverted,
)
from user_code import user_jit

KEYS = 100_000


@functools.cache
def sampler(distribution, dtype):
    return user_jit(jax.vmap(lambda i, *p: distribution(Words(i, jnp.uint32(3)), *p), (0, None, None)))


def sample(distribution, *parameters, dtype):
    padded = [*parameters, *[None] * (2 - len(parameters))]
    return np.asarray(sampler(distribution, dtype)(jnp.arange(KEYS, dtype=jnp.uint32), *padded), np.float64)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("mean", [0.2, 3.0, 9.99, 10.0, 40.0, 1e4, 3e6])
def test_poisson_variates(mean, dtype):
    mean = float(dtype(mean))
    x = sample(poisson_of, dtype(mean), dtype=dtype)
    assert chi_square(x, stats.poisson(mean)) > 1e-6
    assert abs(x.mean() - mean) < 5 * math.sqrt(mean / KEYS)
    spread = math.sqrt((2 + 1 / mean) / KEYS)
    assert abs(np.mean((x - mean) ** 2) / mean - 1) < 5 * spread


@pytest.mark.parametrize("mean", [10.0, 40.0, 1e4, 3e6])
def test_the_density_of_large_poisson_variates(mean):
    """Up to six deviations away; a sample shows no error of less than a percent."""
    k = np.unique(np.round(np.clip(mean + math.sqrt(mean) * np.linspace(-6, 6, 200), 4, None)))
    result = np.asarray(_log_poisson(jnp.asarray(k), jnp.asarray(mean)))
    np.testing.assert_allclose(result, stats.poisson(mean).logpmf(k), rtol=0, atol=1e-7)
    few = np.arange(4.0)  # Stirling's series is short there, where a mean of 10 and more seldom is
    result = np.asarray(_log_poisson(jnp.asarray(few), jnp.asarray(mean)))
    np.testing.assert_allclose(result, stats.poisson(mean).logpmf(few), rtol=0, atol=1e-3)
    assert result[0] == -mean


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("mean", [1e-8, 4e-8, 0.3, 9.99])
def test_rare_poisson_variates(mean, dtype):
    """Word by word against scipy, the smallest and largest among them: as rare as one in 2^32."""
    words = np.unique(np.r_[2 ** np.arange(32), 3 * 2 ** np.arange(30), 2**32 - 2 ** np.arange(1, 32)])
    v = (words // 2 + 0.5) / 2**31
    result = user_jit(lambda word: inverted(word, dtype(mean), 36))(jnp.asarray(words, jnp.uint32))
    np.testing.assert_array_equal(result, stats.poisson(float(dtype(mean))).isf(v))


def poisson_of(words, mean, _):
    return poisson(words, mean)


def gamma_of(words, shape, _):
    return gamma(words, shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_poisson_variates_are_exact_to_the_last_bits(dtype):
    """N is k + 1 or more for the words below P(N > k), also where that is so small that 1 - P is 1."""
    means, k = np.array([1e-8, 1e-4, 0.2, 3.0, 9.99], dtype), np.arange(32)[:, None]
    places = stats.poisson.sf(k, means.astype(np.float64)) * 2.0**31
    inside, outside = np.floor(places * (1 - 4e-6) - 1.5), np.ceil(places * (1 + 4e-6) + 0.5)
    count = jax.jit(jax.vmap(lambda w, m: inverted(w, m, LARGEST_INVERTED), (0, None)))
    for edge, holds in ((inside, lambda n: n > k), (outside, lambda n: n <= k)):
        some = (edge >= 0) & (edge < 2**31)
        words = jnp.asarray(2 * np.where(some, edge, 0).astype(np.uint64), jnp.uint32)
        assert (holds(np.asarray(count(words, jnp.asarray(means)))) | ~some).all()
        assert some.sum(0)[0] >= 1
        assert some.sum(0)[-1] > 28


def test_a_rare_poisson_event_happens_in_float32():
    """The block of this word ends 34 below the largest: one event from a mean of 7.7e-9 on, none below."""
    word, zero = jnp.uint32(137934143), jnp.uint32(0)
    assert 2**32 - int(block(Words(word, jnp.uint32(3)), zero, zero).a) == 34
    run, many = sampler(poisson_of, jnp.float32), jnp.full(KEYS, word)
    assert [int(run(many, jnp.float32(mean), None)[0]) for mean in (7e-9, 8e-9, 1e-7)] == [0, 1, 1]


def test_no_poisson_variate_of_mean_zero():
    assert not sample(poisson_of, jnp.float64(0), dtype=jnp.float64).any()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(
    ("n", "p"),
    [(1, 0.5), (7, 0.1), (19, 0.5), (20, 0.5), (21, 0.51), (30, 0.9), (1000, 0.3), (2_000_000, 0.02)],
)
def test_binomial_variates(n, p, dtype):
    x = sample(binomial, jnp.int32(n), dtype(p), dtype=dtype)
    p = float(dtype(p))
    assert x.min() >= 0
    assert x.max() <= n
    assert chi_square(x, stats.binom(n, p)) > 1e-6
    distribution = stats.binom(n, p)
    assert abs(x.mean() - n * p) < 5 * distribution.std() / math.sqrt(KEYS)
    spread = math.sqrt((distribution.stats("k") + 2) / KEYS)
    assert abs(np.mean((x - n * p) ** 2) / distribution.var() - 1) <= 5 * spread


@pytest.mark.parametrize(("n", "p"), [(20, 0.5), (1000, 0.01), (1000, 0.3), (1_000_000, 0.4)])
def test_the_density_of_many_binomial_variates(n, p):
    """Up to six deviations away, relative to that of the mean; nothing is above n."""
    distribution = stats.binom(n, p)
    k = np.unique(
        np.round(np.clip(distribution.mean() + distribution.std() * np.linspace(-6, 6, 200), 4, n - 4))
    )
    result = np.asarray(_log_binomial(jnp.asarray(k), jnp.float64(n), jnp.float64(n * p)))
    at = len(k) // 2
    expected = distribution.logpmf(k) - distribution.logpmf(k[at])
    np.testing.assert_allclose(result - result[at], expected, rtol=0, atol=2e-7)
    assert _log_binomial(jnp.float64(n + 1), jnp.float64(n), jnp.float64(n * p)) == -np.inf


@pytest.mark.parametrize(
    ("distribution", "hat"),
    [(stats.poisson(m), (_poisson_hat, m)) for m in (10.0, 13.3, 100.0, 3e6)]
    + [(stats.binom(n, p), (_binomial_hat, n, p)) for n, p in ((20, 0.5), (1000, 0.011), (100_000, 0.4))],
)
def test_what_variates_are_rejected_from_lies_above_their_distribution(distribution, hat):
    """Else they had another distribution; what is taken without a second look lies below.

    Hörmann's constants for Poisson variates leave out up to six parts in a thousand at the edge of a few
    cells, 2e-6 of the distribution in all.
    """
    build, *numbers = hat
    a, b, centre, scale, inner = (np.asarray(x) for x in build(*map(jnp.float64, numbers)))
    u = np.linspace(-0.499, 0.499, 200_001)
    room = 0.5 - np.abs(u)
    k = np.floor((2 * a / room + b) * u + centre)
    density = distribution.logpmf(k)
    if build is _binomial_hat:
        density = density - distribution.logpmf(math.floor((numbers[0] + 1) * numbers[1]))
    height = np.log(scale / (a / room**2 + b))
    assert (height >= density - 6e-3).all()
    quick = room >= 0.07
    assert (height[quick] + np.log(inner) <= density[quick] + 6e-3).all()


@pytest.mark.parametrize(("n", "p"), [(0, 0.5), (9, 0.0), (9, 1.0)])
def test_binomial_variates_without_a_choice(n, p):
    assert set(sample(binomial, jnp.int32(n), jnp.float64(p), dtype=jnp.float64)) == {n * p}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0, 4.0, 300.0, 1e8])
def test_gamma_variates(shape, dtype):
    """Of a large shape, where float32 has few values, what is left is the number of deviations."""
    shape = float(dtype(shape))
    distribution = stats.gamma(shape)
    x = sample(gamma_of, dtype(shape), dtype=dtype)
    if shape < 1e8 or dtype is jnp.float64:
        assert stats.kstest(x, distribution.cdf).pvalue > 1e-6
        assert chi_square_between(x, distribution, [1e-4, 1e-3, 0.01, 0.1, 0.9, 0.99, 0.999, 1 - 1e-4]) > 1e-6
    assert abs(x.mean() - shape) < 5 * math.sqrt(shape / KEYS)
    assert abs(np.mean((x - shape) ** 2) / shape - 1) < 5 * math.sqrt((2 + 6 / shape) / KEYS)


def test_a_million_gamma_variates_have_the_first_three_moments():
    """To half a percent, where constants of the method that are a little off still pass the tests above."""
    keys = jnp.arange(2**20, dtype=jnp.uint32)
    x = np.asarray(sampler(gamma_of, jnp.float32)(keys, jnp.float32(1), None), np.float64)
    moments = [1, 2, 6, 24, 120, 720]  # n! of an exponential distribution
    for k in (1, 2, 3):
        error = math.sqrt((moments[2 * k - 1] - moments[k - 1] ** 2) / len(x))
        assert abs(np.mean(x**k) - moments[k - 1]) < 5 * error


def chi_square_between(x, distribution, levels):
    """The p-value of counts between quantiles of a continuous distribution, tails included."""
    levels = np.array([0.0, *levels, 1.0])
    observed = np.histogram(x, [-1.0, *distribution.ppf(levels[1:-1]), np.inf])[0]
    expected = np.diff(levels) * x.size
    return float(stats.chi2.sf((((observed - expected) ** 2) / expected).sum(), len(levels) - 2))


@pytest.mark.parametrize("d", [0.7, 1.5, 5.0, 40.0])
def test_what_gamma_variates_are_rejected_by(d):
    """The logarithm of the ratio of densities, near zero, where its terms cancel, and far from it."""
    w, z = 1 / math.sqrt(9 * d), np.linspace(-6, 6, 4001, dtype=np.float32)
    x = np.float32(w) * z
    x = x[x > -0.999].astype(np.float64)
    exact = 3 * d * (np.log1p(x) - x + x**2 / 2 - x**3 / 3)
    result = 3 * d * np.asarray(_log_after_cube(jnp.asarray(x, jnp.float32)), np.float64)
    np.testing.assert_allclose(result, exact, rtol=2e-6, atol=2e-5)


def test_the_slope_of_gamma_variates_is_that_at_a_fixed_probability():
    shape, ids = jnp.float64(0.8), jnp.arange(50, dtype=jnp.uint32)

    def draw(i):
        return jax.jvp(lambda a: gamma(Words(i, jnp.uint32(3)), a), (shape,), (jnp.ones_like(shape),))

    x, slope = map(np.asarray, user_jit(jax.vmap(draw))(ids))
    h = 1e-5
    wanted = -(stats.gamma.cdf(x, 0.8 + h) - stats.gamma.cdf(x, 0.8 - h)) / (2 * h) / stats.gamma.pdf(x, 0.8)
    np.testing.assert_allclose(slope, wanted, rtol=1e-5)


def test_variates_of_a_nan_end():
    assert np.isnan(sample(gamma_of, jnp.float64(jnp.nan), dtype=jnp.float64)).all()
    assert not sample(poisson_of, jnp.float64(jnp.nan), dtype=jnp.float64).any()


def test_exponential_variates_over_all_words():
    """Every 997th word: the mean is 1, no wait is negative, none infinite; words at the ends too."""
    words = jnp.concatenate([jnp.arange(498, 2**32, 997, dtype=jnp.uint32), jnp.uint32([0, 1, 2**32 - 1])])
    x = np.asarray(user_jit(exponential)(words), np.float64)
    assert x.min() >= 0
    assert 22 < x.max() < 23
    assert x[:-3].mean() == pytest.approx(1, abs=3e-6)
    assert np.mean(x[:-3] ** 2) == pytest.approx(2, abs=2e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_uniforms_are_below_one_and_so_is_their_product(dtype):
    u = below_one(jnp.uint32([0, 2**31, 2**32 - 1]), dtype)
    assert u.dtype == dtype
    assert u[0] == 0
    assert u[1] == 0.5
    totals = jnp.asarray(np.random.default_rng(0).uniform(0.5, 4.0, 10_000), dtype)
    assert bool(jnp.all(u[2] * totals < totals))


def test_words_of_a_block_make_different_variates():
    pair = block(Words(jnp.uint32(1), jnp.uint32(2)), jnp.uint32(3), jnp.uint32(4))
    assert float(exponential(pair.a)) != float(exponential(pair.b))
