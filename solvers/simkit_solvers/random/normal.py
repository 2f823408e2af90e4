r"""Random words to standard normals, by inversion.

One bit is the sign, the other 31 the two-sided tail probability $v = 2(1 - \Phi(|z|))$, so that $|z|$
reaches 6.33 and every tail is resolved to its end. Then $z = \sqrt2\,\mathrm{erf}^{-1}(u)$ with $u = 1 - v$,
which is $u$ times a smooth function of $\log_2(1 - u^2) = \log_2 v(2 - v)$, here one polynomial of degree 16
over the whole range: two branches with a square root, as usual elsewhere, cost more where both are computed
anyway. The logarithm is a polynomial too: a library's would cost twice as much for the zeros, infinities and
denormals that cannot occur here.

Both polynomials are minimax fits made for this file (Lawson iteration in float64; largest error of the fit
3e-7). In float32 arithmetic |error| < 1.3e-6 everywhere, 2e-7 root mean square.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Float64, UInt32

from simkit_solvers.random.generator import Words

# Powers of t = 1 + log2(v (2 - v)) * 2/31 in [-1, 1], highest first.
_QUANTILE = (
    0.04460282623767853, 0.05380572751164436, -0.14241360127925873, -0.2103034108877182, 0.10229693353176117,
    0.2348703294992447, 0.026996374130249023, -0.028882844373583794, 0.07036304473876953,
    0.06496909260749817, -0.006941853556782007, -0.06647661328315735, -0.13663573563098907,
    -0.2597042918205261, -0.5633910298347473, -2.3306000232696533, 4.400758743286133,
)  # fmt: skip
# log2(1 + x) / x on [sqrt(1/2) - 1, sqrt(2) - 1], highest power first.
_LOG2 = (
    0.17065955698490143, -0.2726888358592987, 0.2972509562969208, -0.3589629828929901, 0.48046618700027466,
    -0.7213758230209351, 1.442699670791626,
)  # fmt: skip
_SQRT_HALF = 0x3F3504F3  # the bits of float32 sqrt(1/2)


def horner(coefficients: Sequence[float], x: Float32[Array, "..."]) -> Float32[Array, "..."]:
    y = jnp.float32(coefficients[0])
    for c in coefficients[1:]:
        y = y * x + jnp.float32(c)
    return y


def log2(x: Float32[Array, "..."]) -> Float32[Array, "..."]:
    """log2 of a positive normal float32, absolute error below 4e-7."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    above = (bits - jnp.uint32(_SQRT_HALF)).astype(jnp.int32)
    exponent = jax.lax.shift_right_arithmetic(above, jnp.int32(23))
    mantissa = jax.lax.bitcast_convert_type(bits - (exponent << 23).astype(jnp.uint32), jnp.float32)
    x = mantissa - jnp.float32(1)
    return exponent.astype(jnp.float32) + x * horner(_LOG2, x)


@jax.jit  # traced once rather than at every call
def standard_normal(word: UInt32[Array, "..."]) -> Float32[Array, "..."]:
    """A standard normal as float32 from one 32-bit word; odd in the lowest bit, monotone in the others.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import block, seed_key, standard_normal
    >>> words = block(seed_key(1), jnp.arange(10000, dtype=jnp.uint32), 0)
    >>> abs(float(jnp.std(standard_normal(words.a))) - 1.0) < 0.05
    True
    """
    half = (word >> jnp.uint32(1)).astype(jnp.int32).astype(jnp.float32)  # signed: unsigned converts slowly
    v = (half + jnp.float32(0.5)) * jnp.float32(2**-31)
    t = log2(v * (jnp.float32(2) - v)) * jnp.float32(2 / 31) + jnp.float32(1)
    z = (jnp.float32(1) - v) * horner(_QUANTILE, t)
    sign = word << jnp.uint32(31)
    return jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(z, jnp.uint32) | sign, jnp.float32)


@jax.jit
def standard_normal_float64(words: Words) -> Float64[Array, "..."]:
    """A standard normal as float64 from two words: one bit of sign, 52 of tail, |z| up to 8.29.

    `ValueError` unless jax is in 64-bit mode.
    """
    v = (_bits52(words) + 0.5) * 2.0**-52
    z = -jax.scipy.special.ndtri(0.5 * v)
    return jnp.where((words.b & jnp.uint32(1)) == 0, z, -z)


def uniform(words: Words) -> Float64[Array, "..."]:
    """A float64 uniform in the open interval (0, 1), with 52 bits.

    `ValueError` unless jax is in 64-bit mode.
    """
    return (_bits52(words) + 0.5) * 2.0**-52


def _bits52(words: Words) -> Float64[Array, "..."]:
    """The leading 52 bits of two words as a float64 integer."""
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise ValueError("float64 draws need 64-bit mode: call jax.config.update('jax_enable_x64', True)")
    high = words.a.astype(jnp.float64) * np.float64(2**20)
    return high + (words.b >> jnp.uint32(12)).astype(jnp.float64)
