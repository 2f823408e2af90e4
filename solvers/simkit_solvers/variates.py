r"""Random variates of other laws than the normal, from the words of the counter-based generator.

`exponential` is a function of one word, in float32 arithmetic like the normals: 31 random bits, the largest
value $32 \log 2 = 22.2$, the resolution near zero $6 \cdot 10^{-8}$. The others take a block of two
words as a key, since methods that reject need an unknown number of words: `poisson` and `binomial` of the
generator itself, `gamma`, which is called seldom, of `jax.random`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from simkit_solvers.generator import Words, block
from simkit_solvers.normal import log2

SMALL_MEAN = 10.0
LARGEST_INVERTED = 36  # of mean 10 it is larger with probability 1e-10
_LOG_2 = 0.6931471805599453


def exponential(word):
    r"""An exponential variate of mean 1 as float32 from a 32-bit word, $-\log v$ with 31 bits in v > 0."""
    half = (word >> jnp.uint32(1)).astype(jnp.int32).astype(jnp.float32)  # signed: unsigned converts slowly
    v = (half + jnp.float32(0.5)) * jnp.float32(2**-31)
    return jnp.maximum(log2(v) * jnp.float32(-_LOG_2), jnp.float32(0))


def below_one(word, dtype):
    """A uniform in [0, 1) from a 32-bit word, never 1: 24 bits in float32, 31 in float64."""
    bits = 24 if jnp.dtype(dtype).itemsize == 4 else 31
    return (word >> jnp.uint32(32 - bits)).astype(jnp.int32).astype(dtype) * 2.0**-bits


def poisson(words: Words, mean):
    r"""A Poisson variate as int32, in the precision of `mean`, which must be below `most_events` of it.

    Below a mean of 10 by inversion of one uniform; above by rejection from a transformed uniform, with
    $\log p_k = k \log(m/k) + (k - m) - \frac12 \log 2\pi k - s(k)$ and Stirling's series s, so that nothing
    is lost where k and m are large. The words are the key of as many blocks as it takes.
    Reference: Hörmann (1993), The transformed rejection method for generating Poisson random variables,
    doi:10.1016/0167-6687(93)90997-4.
    """
    first = block(words, jnp.uint32(0), jnp.uint32(0))
    large = mean >= SMALL_MEAN
    below = inverted(~first.a, jnp.where(large, 0.0, mean), LARGEST_INVERTED)
    m = jnp.where(large, mean, SMALL_MEAN)
    return _rejected(words, _poisson_hat(m), lambda k: _log_poisson(k, m), below, ~large).astype(jnp.int32)


class _Hat(NamedTuple):
    """A uniform u in (-1/2, 1/2) becomes $k = \\lfloor (2a/(1/2 - |u|) + b) u + c \\rfloor$.

    With `scale` what is drawn lies above the density; the second uniform needs none where it is at most
    `inner` and u is not near an end.
    """

    a: jax.Array
    b: jax.Array
    centre: jax.Array
    scale: jax.Array
    inner: jax.Array


def _poisson_hat(mean) -> _Hat:
    b = 0.931 + 2.53 * jnp.sqrt(mean)
    a = -0.059 + 0.02483 * b
    return _Hat(a, b, mean + 0.43, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0))


def _binomial_hat(n, p) -> _Hat:
    """That of the ratio to the largest probability, for p up to 1/2."""
    spread = jnp.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    return _Hat(a, b, n * p + 0.5, (2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b)


def _rejected(words: Words, hat: _Hat, log_density: Callable, given, done) -> jax.Array:
    """A variate of a law on whole numbers by rejection from a transformed uniform; `given` where `done`."""
    a, b, centre, scale, inner = hat

    def tried(attempt):
        pair = block(words, attempt, jnp.uint32(1))
        u, v = below_one(pair.a, b.dtype) - 0.5, 1.0 - below_one(pair.b, b.dtype)
        room = jnp.maximum(0.5 - jnp.abs(u), 1e-9)
        k = jnp.floor((2.0 * a / room + b) * u + centre)
        height = jnp.log(v * scale / (a / (room * room) + b))
        return k, ((room >= 0.07) & (v <= inner)) | ((k >= 0) & (height <= log_density(k)))

    def again(carry):
        attempt, _, _ = carry
        k, fits = tried(attempt)
        return attempt + jnp.uint32(1), k, fits

    # What is given goes through the loop, or the compiler would do it again wherever it is used.
    _, k, _ = jax.lax.while_loop(lambda c: ~c[2], again, (jnp.uint32(0), given, done))
    return k


def inverted(word, mean, largest: int):
    r"""A Poisson variate in the precision of `mean` from one word, counted up to `largest`; 0 for a NaN.

    N is the number of k with $v < P(N \ge k)$, and falls as the word grows. The smallest probabilities are
    those near v = 0, where a floating-point number is finest, and are added up first: a mean of 1e-9 counts
    in float32 too.
    """
    terms = [jnp.exp(-mean) * mean]
    for k in range(2, largest + 1):
        terms.append(terms[-1] * mean * (1 / k))
    return _counted(word, terms)


def _counted(word, terms: list) -> jax.Array:
    """The number of k with $v < P(N \\ge k)$, with `terms` the probabilities of 1, 2, ..."""
    dtype = terms[0].dtype
    half = (word >> jnp.uint32(1)).astype(jnp.int32).astype(dtype)
    v = (half + 0.5) * 2.0**-31
    tail, found = 0.0, jnp.zeros_like(terms[0])
    for term in reversed(terms):
        tail = tail + term
        found = found + (v < tail).astype(dtype)
    return found


def _log_poisson(k, mean):
    at_least_one = jnp.maximum(k, 1.0)
    d, inverse = at_least_one - mean, 1.0 / at_least_one
    square = inverse * inverse
    stirling = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260)))
    # log1p of -d/k is log(mean/k); far from the mean, where k is small, both are exact enough.
    found = at_least_one * jnp.log1p(-d * inverse) + d - 0.5 * jnp.log(2 * math.pi * at_least_one) - stirling
    return jnp.where(k < 1, -mean, found)


def binomial(words: Words, n, p):
    r"""How many of `n` (int32) succeed with probability `p`, as int32, in the precision of `p`.

    The rarer of success and failure is drawn: below a mean of 10 by inversion of one uniform, above by
    rejection from a transformed uniform. Given their sum, two Poisson variates are binomial, which gives
    the density: $p_k = \pi_k(np)\,\pi_{n-k}(n(1-p)) / \pi_n(n)$.
    Reference: Hörmann (1993), The generation of binomial random variates, doi:10.1080/00949659308811496.
    """
    first = block(words, jnp.uint32(0), jnp.uint32(0))
    many, rare = n.astype(p.dtype), jnp.minimum(p, 1.0 - p)
    large = many * rare >= SMALL_MEAN
    few, odds = jnp.where(large, 0.0, many), rare / (1.0 - rare)
    terms = [jnp.exp(few * jnp.log1p(-rare)) * few * odds]
    for k in range(2, LARGEST_INVERTED + 1):
        terms.append(terms[-1] * jnp.maximum(few - (k - 1), 0.0) * odds * (1 / k))
    below = _counted(~first.a, terms)

    size, q = jnp.where(large, many, 2 * SMALL_MEAN), jnp.where(large, rare, 0.5)
    highest = _log_binomial(jnp.floor(size * q + q), size, size * q)

    def log_ratio(k):
        return _log_binomial(k, size, size * q) - highest

    k = _rejected(words, _binomial_hat(size, q), log_ratio, below, ~large)
    return jnp.where(p > 0.5, many - k, k).astype(jnp.int32)


def _log_binomial(k, n, mean):
    """The logarithm of the probability of k of n but for a constant of n."""
    inside = _log_poisson(k, mean) + _log_poisson(n - k, n - mean)
    return jnp.where(k <= n, inside, -jnp.inf)


def gamma(words: Words, shape):
    """A gamma variate of scale 1 and the given shape, in its precision.

    Reference: Marsaglia & Tsang (2000), A simple method for generating gamma variables,
    doi:10.1145/358407.358414.
    """
    return jax.random.gamma(_key(words), shape, dtype=shape.dtype)


def _key(words: Words):
    return jax.random.wrap_key_data(jnp.stack([words.a, words.b]), impl="threefry2x32")
