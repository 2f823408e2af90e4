"""Bins made of a number's leading bits: sign, exponent and nine bits of mantissa.

A bin is at most 2^-9 of its value wide, wherever that lies, so nothing about the sample has to be known
beforehand. Bin 0 holds zero and everything smaller than the least normal float32; bins are numbered upwards
on the positive side and mirrored on the negative one.
"""

import jax
import jax.numpy as jnp
import numpy as np

MANTISSA_BITS = 9
SHIFT = 23 - MANTISSA_BITS
BELOW_NORMAL = (1 << MANTISSA_BITS) - 1
LARGEST = np.finfo(np.float32).max.view(np.int32).item()
LAST_BIN = (LARGEST >> SHIFT) - BELOW_NORMAL
NO_BIN = -LAST_BIN - 1
ALL_BINS = LAST_BIN - NO_BIN + 1

# A float64 value is rounded to float32 before it is binned, which may carry it across an edge by this much.
ROUNDING = 2.0**-24


def bin_of(x: jax.Array, valid: jax.Array) -> jax.Array:
    """The int32 number of each value's bin, the outermost beyond float32's range; `NO_BIN` if not valid."""
    bits = jax.lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32)
    magnitude = jnp.minimum(bits & 0x7FFFFFFF, LARGEST) >> SHIFT
    number = jnp.maximum(magnitude - BELOW_NORMAL, 0)
    return jnp.where(valid, jnp.where(bits < 0, -number, number), NO_BIN)


def lower_edges(number: np.ndarray) -> np.ndarray:
    """The float64 lower edge of each bin, -inf for the first; the upper edge is the next bin's lower one."""
    number = np.asarray(number, np.int64)
    inner = np.where(number > 0, number, 1 - number) + BELOW_NORMAL
    edge = (inner << SHIFT).astype(np.int32).view(np.float32).astype(np.float64)
    return np.where(number > 0, edge, -edge)
