r"""Random variates of other laws than the normal, from the words of the counter-based generator.

`exponential` is a function of one word, in float32 arithmetic like the normals: 31 random bits, the largest
value $32 \log 2 = 22.2$, the resolution near zero $6 \cdot 10^{-8}$. The others take a block of two words as the
key of `jax.random`, whose methods for them are exact: they reject, and so need an unknown number of words.
"""

import jax
import jax.numpy as jnp

from simkit_solvers.generator import Words
from simkit_solvers.normal import log2

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
    """A Poisson variate as int32, in the precision of `mean`, which must be below 2**30.

    Reference: Hörmann (1993), The transformed rejection method for generating Poisson random variables,
    doi:10.1016/0167-6687(93)90997-4.
    """
    return jax.random.poisson(_key(words), mean, dtype=jnp.int32)


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
