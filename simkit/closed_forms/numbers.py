"""Functions of plain numbers and of arrays alike, so that one closed form serves both.

Plain numbers are computed in float64 by Python's `math`, whatever jax is set to; of anything else they are
jax's, with derivatives.
"""

import math
from typing import Any

Number = Any  # a float, or an array whose closed form may be traced


def is_plain(*values: Number) -> bool:
    """Whether all are plain numbers."""
    return all(isinstance(value, int | float) for value in values)


def exp(x: Number) -> Number:
    """The exponential."""
    return math.exp(x) if is_plain(x) else _jnp().exp(x)


def expm1(x: Number) -> Number:
    """exp(x) - 1, accurate near 0."""
    return math.expm1(x) if is_plain(x) else _jnp().expm1(x)


def log(x: Number) -> Number:
    """The natural logarithm."""
    return math.log(x) if is_plain(x) else _jnp().log(x)


def log1p(x: Number) -> Number:
    """log(1 + x), accurate near 0."""
    return math.log1p(x) if is_plain(x) else _jnp().log1p(x)


def sqrt(x: Number) -> Number:
    """The square root, whose slope at 0 is defined as 0."""
    if is_plain(x):
        return math.sqrt(x)
    # In sqrt(maximum(x, 0)) an infinite slope times the zero from below would make NaN of gradients on paths
    # whose values are finite.
    zero = x == 0
    jnp = _jnp()
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, x)))


def positive_part(x: Number) -> Number:
    """The larger of x and 0."""
    return max(x, 0.0) if is_plain(x) else _jnp().maximum(x, 0.0)


def normal_cdf(x: Number) -> Number:
    """The standard normal distribution function, accurate in the far lower tail too."""
    if is_plain(x):
        return math.erfc(-x / math.sqrt(2)) / 2
    import jax

    return jax.scipy.special.ndtr(x)


def normal_pdf(x: Number) -> Number:
    """The standard normal density."""
    return exp(-x * x / 2) / math.sqrt(2 * math.pi)


def log_normal_cdf(x: Number) -> Number:
    """The logarithm of the standard normal distribution function."""
    if is_plain(x):
        from scipy.special import log_ndtr

        return float(log_ndtr(x))
    import jax

    return jax.scipy.special.log_ndtr(x)


def ratio(a: Number, b: Number, otherwise: Number) -> Number:
    """a/b where b is above 0, and otherwise something else."""
    if is_plain(a, b, otherwise):
        return a / b if b > 0 else otherwise
    jnp = _jnp()
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), otherwise)


def where(condition: Any, a: Number, b: Number) -> Number:
    """a where the condition holds, b elsewhere."""
    if hasattr(condition, "aval"):  # as arrays of jax have, traced or not
        return _jnp().where(condition, a, b)
    return a if condition else b


def _jnp() -> Any:
    import jax.numpy as jnp

    return jnp
