r"""Random variates of other laws than the normal, from the words of the counter-based generator.

`exponential` is a function of one word, in float32 arithmetic like the normals: 31 random bits, the largest
value $32 \log 2 = 22.2$, the resolution near zero $6 \cdot 10^{-8}$. The others take a block of two
words as a key, since methods that reject need an unknown number of words: `poisson` of the generator itself,
`binomial` and `gamma`, which are called seldom, of `jax.random`.
"""

import math

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
    dtype = mean.dtype
    first = block(words, jnp.uint32(0), jnp.uint32(0))
    large = mean >= SMALL_MEAN
    below = inverted(~first.a, jnp.where(large, 0.0, mean), LARGEST_INVERTED)
    m = jnp.where(large, mean, SMALL_MEAN)
    b = 0.931 + 2.53 * jnp.sqrt(m)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    inner = 0.9277 - 3.6224 / (b - 2.0)

    def tried(attempt):
        pair = block(words, attempt, jnp.uint32(1))
        u, v = below_one(pair.a, dtype) - 0.5, 1.0 - below_one(pair.b, dtype)
        room = jnp.maximum(0.5 - jnp.abs(u), 1e-9)
        k = jnp.floor((2.0 * a / room + b) * u + m + 0.43)
        density = jnp.log(v * scale / (a / (room * room) + b))
        return k, ((room >= 0.07) & (v <= inner)) | ((k >= 0) & (density <= _log_poisson(k, m)))

    def again(carry):
        attempt, _, _ = carry
        k, fits = tried(attempt)
        return attempt + jnp.uint32(1), k, fits

    # What the inversion found goes through the loop, or the compiler would do it again wherever it is used.
    _, k, _ = jax.lax.while_loop(lambda c: ~c[2], again, (jnp.uint32(0), below, ~large))
    return k.astype(jnp.int32)


def inverted(word, mean, largest: int):
    r"""A Poisson variate in the precision of `mean` from one word, counted up to `largest`; 0 for a NaN.

    N is the number of k with $v < P(N \ge k)$, and falls as the word grows. The smallest probabilities are
    those near v = 0, where a floating-point number is finest, and are added up first: a mean of 1e-9 counts
    in float32 too.
    """
    half = (word >> jnp.uint32(1)).astype(jnp.int32).astype(mean.dtype)
    v = (half + 0.5) * 2.0**-31
    terms = [jnp.exp(-mean) * mean]
    for k in range(2, largest + 1):
        terms.append(terms[-1] * mean * (1 / k))
    tail, found = 0.0, jnp.zeros_like(mean)
    for term in reversed(terms):
        tail = tail + term
        found = found + (v < tail).astype(mean.dtype)
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
    """How many of `n` (int32) succeed with probability `p`, as int32, in the precision of `p`.

    Reference: Hörmann (1993), The generation of binomial random variates, doi:10.1080/00949659308811496.
    """
    count = jax.random.binomial(_key(words), n.astype(p.dtype), p, dtype=p.dtype)
    return jnp.clip(count.astype(jnp.int32), 0, n)


def gamma(words: Words, shape):
    """A gamma variate of scale 1 and the given shape, in its precision.

    Reference: Marsaglia & Tsang (2000), A simple method for generating gamma variables,
    doi:10.1145/358407.358414.
    """
    return jax.random.gamma(_key(words), shape, dtype=shape.dtype)


def _key(words: Words):
    return jax.random.wrap_key_data(jnp.stack([words.a, words.b]), impl="threefry2x32")
