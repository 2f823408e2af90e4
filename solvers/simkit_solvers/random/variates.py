r"""Random variates that are not normal, from the words of the counter-based generator.

`exponential` is a function of one word, in float32 arithmetic like the normals: 31 random bits, the largest
value $32 \log 2 = 22.2$, the resolution near zero $6 \cdot 10^{-8}$. The others take a block of two
words as a key, since methods that reject need an unknown number of words.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Float32, Int32, UInt32

from simkit_solvers.numerics.platforms import over_parts
from simkit_solvers.random.generator import Words, block
from simkit_solvers.random.normal import horner, log2, standard_normal

SMALL_MEAN = 10.0
LANES = 256  # that search for variates together
LARGEST_INVERTED = 36  # of mean 10 it is larger with probability 1e-10
_NONE = -1e30  # of a variate that is yet to be drawn
_LOG_2 = 0.6931471805599453
# (log(1 + x) - x + x^2/2 - x^3/3) / x^4 on [-0.4, 0.4], highest power first.
_LOG_AFTER_CUBE = (
    -0.12007971855433663, 0.1257645955664746, -0.09443282299056292, 0.1066130297298315, -0.12533096232354016,
    0.14306448076303135, -0.16665988693849265, 0.19999745640765018, -0.25000002204768845,
)  # fmt: skip


def exponential(word: UInt32[Array, "..."]) -> Float32[Array, "..."]:
    r"""An exponential variate of mean 1 as float32 from a 32-bit word, $-\log v$ with 31 bits in v > 0.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import block, exponential, seed_key
    >>> words = block(seed_key(1), jnp.arange(10000, dtype=jnp.uint32), 0)
    >>> abs(float(jnp.mean(exponential(words.a))) - 1.0) < 0.05
    True
    """
    half = (word >> jnp.uint32(1)).astype(jnp.int32).astype(jnp.float32)  # signed: unsigned converts slowly
    v = (half + jnp.float32(0.5)) * jnp.float32(2**-31)
    return jnp.maximum(log2(v) * jnp.float32(-_LOG_2), jnp.float32(0))


def below_one(word: UInt32[Array, "..."], dtype: DTypeLike) -> Float[Array, "..."]:
    """A uniform in [0, 1) from a 32-bit word, never 1: 24 bits in float32, 31 in float64."""
    bits = 24 if jnp.dtype(dtype).itemsize == 4 else 31
    return (word >> jnp.uint32(32 - bits)).astype(jnp.int32).astype(dtype) * 2.0**-bits


def poisson(words: Words, mean: Float[Array, "..."]) -> Int32[Array, "..."]:
    r"""A Poisson variate as int32, in the precision of `mean`, which must be below `most_events` of it.

    Below a mean of 10 by inversion of one uniform; above by rejection from a transformed uniform, with
    $\log p_k = k \log(m/k) + (k - m) - \frac12 \log 2\pi k - s(k)$ and Stirling's series s, so that nothing
    is lost where k and m are large. The words are the key of as many blocks as it takes.
    Reference: Hörmann (1993), The transformed rejection method for generating Poisson random variables,
    doi:10.1016/0167-6687(93)90997-4.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import block, poisson, seed_key
    >>> words = block(seed_key(1), jnp.arange(10000, dtype=jnp.uint32), 0)
    >>> abs(float(jnp.mean(poisson(words, jnp.float32(3.0)))) - 3.0) < 0.1
    True
    """
    first = block(words, jnp.uint32(0), jnp.uint32(0))
    large = mean >= SMALL_MEAN
    below = inverted(~first.a, jnp.where(large, 0.0, mean), LARGEST_INVERTED)
    m = jnp.where(large, mean, SMALL_MEAN)
    return _first_fit(_poisson_counts, words, (m,), jnp.where(large, _NONE, below)).astype(jnp.int32)


def _poisson_counts(mean):
    return _counts(_poisson_hat(mean), lambda k: _log_poisson(k, mean))


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
    """The hat of a binomial variate, relative to the largest probability, for p up to 1/2."""
    spread = jnp.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    return _Hat(a, b, n * p + 0.5, (2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b)


def _counts(hat: _Hat, log_density: Callable) -> Callable:
    """Trials of whole numbers, by rejection from a transformed uniform."""
    a, b, centre, scale, inner = hat

    def tried(pair):
        u, v = below_one(pair.a, b.dtype) - 0.5, 1.0 - below_one(pair.b, b.dtype)
        room = jnp.maximum(0.5 - jnp.abs(u), 1e-9)
        k = jnp.floor((2.0 * a / room + b) * u + centre)
        height = jnp.log(v * scale / (a / (room * room) + b))
        return k, ((room >= 0.07) & (v <= inner)) | ((k >= 0) & (height <= log_density(k)))

    return tried


def inverted(word: jax.Array, mean: jax.Array, largest: int) -> jax.Array:
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
    tail, count = 0.0, jnp.zeros_like(terms[0])
    for term in reversed(terms):
        tail = tail + term
        count = count + (v < tail).astype(dtype)
    return count


def _log_poisson(k, mean):
    at_least_one = jnp.maximum(k, 1.0)
    d, inverse = at_least_one - mean, 1.0 / at_least_one
    square = inverse * inverse
    stirling = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260)))
    # log1p of -d/k is log(mean/k); far from the mean, where k is small, both are exact enough.
    log_p = at_least_one * jnp.log1p(-d * inverse) + d - 0.5 * jnp.log(2 * math.pi * at_least_one) - stirling
    return jnp.where(k < 1, -mean, log_p)


def binomial(words: Words, n: Int32[Array, "..."], p: Float[Array, "..."]) -> Int32[Array, "..."]:
    r"""How many of `n` (int32) succeed with probability `p`, as int32, in the precision of `p`.

    The rarer of success and failure is drawn: below a mean of 10 by inversion of one uniform, above by
    rejection from a transformed uniform. Given their sum, two Poisson variates are binomial, which gives
    the density: $p_k = \pi_k(np)\,\pi_{n-k}(n(1-p)) / \pi_n(n)$.
    Reference: Hörmann (1993), The generation of binomial random variates, doi:10.1080/00949659308811496.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import binomial, block, seed_key
    >>> words = block(seed_key(1), jnp.arange(1000, dtype=jnp.uint32), 0)
    >>> abs(float(jnp.mean(binomial(words, jnp.int32(100), jnp.float32(0.3)))) - 30.0) < 1.0
    True
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
    k = _first_fit(_binomial_counts, words, (size, q), jnp.where(large, _NONE, below))
    return jnp.where(p > 0.5, many - k, k).astype(jnp.int32)


def _binomial_counts(n, p):
    highest = _log_binomial(jnp.floor(n * p + p), n, n * p)
    return _counts(_binomial_hat(n, p), lambda k: _log_binomial(k, n, n * p) - highest)


def _log_binomial(k, n, mean):
    """The logarithm of the probability of k of n but for a constant of n."""
    inside = _log_poisson(k, mean) + _log_poisson(n - k, n - mean)
    return jnp.where(k <= n, inside, -jnp.inf)


@jax.custom_jvp
def gamma(words: Words, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""A gamma variate of scale 1 and the given shape > 0, in its precision, from normals in float32.

    For a shape a of 1 and more it is $d (1 + wz)^3$ with $d = a - 1/3$, $w = 1/\sqrt{9d}$ and a normal z, at
    most 5 % of which are rejected; below 1 that of a + 1, times $u^{1/a}$. The derivative is that along the
    shape at a fixed probability. The words are the key of as many blocks as it takes.
    Reference: Marsaglia & Tsang (2000), A simple method for generating gamma variables,
    doi:10.1145/358407.358414.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import block, gamma, seed_key
    >>> words = block(seed_key(1), jnp.arange(10000, dtype=jnp.uint32), 0)
    >>> abs(float(jnp.mean(gamma(words, jnp.float32(3.0)))) - 3.0) < 0.1
    True
    """
    small = shape < 1
    d = jnp.where(small, shape + 1, shape) - 1 / 3
    w = jax.lax.rsqrt(9 * d)
    parameters = d.astype(jnp.float32), w.astype(jnp.float32)
    z = _first_fit(_normals_of_gamma, words, parameters, jnp.float32(_NONE))
    root = jnp.maximum(1 + w * z.astype(shape.dtype), 0)
    e = exponential(block(words, jnp.uint32(0), jnp.uint32(0)).a).astype(shape.dtype)
    return d * root * root * root * jnp.where(small, jnp.exp(-e / jnp.where(small, shape, 1)), 1)


@gamma.defjvp
def _(primals, tangents):
    x = gamma(*primals)
    return x, jax.lax.random_gamma_grad(primals[1], x) * tangents[1]


def _normals_of_gamma(d, w):
    r"""A normal z fits where $\log u < z^2/2 + d - dv + d \log v$ with $v = (1 + wz)^3$.

    So does that of a NaN, which would be tried for ever. The right side is $3d$ times what is left of the
    series of $\log(1 + wz)$ after the cube.
    """

    def tried(pair):
        z = standard_normal(pair.a)
        x = w * z
        return z, ~((x <= -1) | (-exponential(pair.b) >= 3 * d * _log_after_cube(x)))

    return tried


def _log_after_cube(x):
    """log(1 + x) - x + x^2/2 - x^3/3 in float32, without cancellation."""
    square = x * x
    logarithm = log2(jnp.maximum(1 + x, jnp.float32(1e-30))) * jnp.float32(_LOG_2)
    far = logarithm - x + square * (jnp.float32(0.5) - x * jnp.float32(1 / 3))
    return jnp.where(jnp.abs(x) < 0.4, square * square * horner(_LOG_AFTER_CUBE, x), far)


@functools.partial(jax.jit, static_argnums=0)
def _first_fit(trials: Callable, words: Words, parameters, given) -> jax.Array:
    """The first variate of `trials(*parameters)`, a function of two words, that fits; or what is `given`.

    The lanes of a block are one loop with one condition, which carries one number of each. The loop of `vmap`
    would also carry the number of the trial in each lane, and XLA's CPU compiler would draw the trial again
    for it. All lanes in one block would go on until the last fits: of 65536 lanes, with one in twenty
    refused, four or five times as often as most need, where 256 take two or three.
    """

    @jax.custom_batching.custom_vmap
    def search(words, parameters, given):
        shape = jnp.broadcast_shapes(*(x.shape for x in jax.tree.leaves((words, parameters, given))))
        if math.prod(shape) % LANES or math.prod(shape) == LANES:
            return in_block((words, parameters, given))
        blocks = jax.tree.map(
            lambda x: jnp.broadcast_to(x, shape).reshape(-1, LANES), (words, parameters, given)
        )
        return over_parts(in_block, blocks).reshape(shape)

    def in_block(block_of):
        words, parameters, given = block_of
        tried = trials(*parameters)

        def again(carry):
            attempt, variate = carry
            new, fits = tried(block(words, attempt, jnp.uint32(1)))
            return attempt + jnp.uint32(1), jnp.where((variate == _NONE) & fits, new, variate)

        shape = jnp.broadcast_shapes(*(x.shape for x in jax.tree.leaves((words, parameters, given))))
        start = jnp.uint32(0), jnp.broadcast_to(given, shape)
        return jax.lax.while_loop(lambda c: (c[1] == _NONE).any(), again, start)[1]

    @search.def_vmap
    def _(size, batched, *arguments):
        return search(*jax.tree.map(lambda x, own: x if own else x[None], arguments, tuple(batched))), True

    return search(*jax.lax.stop_gradient((words, parameters, given)))
