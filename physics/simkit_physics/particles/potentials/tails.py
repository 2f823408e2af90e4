r"""Integrals of what lies beyond a cutoff: $J = \int_{r_c}^\infty u(r)\,r^2\,dr$."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

STEP = 1 / 16  # of the trapezoidal rule: the error is that of rounding


def exponential_tail(rate: Any, cutoff: Any) -> Any:
    r"""$e^{kc} \int_c^\infty e^{-kr}\,r^2\,dr$ with the rate k and the cutoff c."""
    return (cutoff * cutoff + 2 * (cutoff + 1 / rate) / rate) / rate


def check_exponents(name: str, exponent: Any) -> None:
    """Raise `ValueError` where $r^{-n}$ falls too slowly for an integral over all space."""
    if not isinstance(exponent, Tracer) and np.any(np.asarray(exponent) <= 3):
        raise ValueError(
            f"{name}: has a tail correction only for exponents above 3, got {exponent}; leave it out"
        )


def numerical_tail(name: str, energy: Callable[[Any], Any], cutoff: Any) -> Any:
    r"""The integral for any `energy(r2)`, by the exp-sinh rule, $r = c\,(1 + e^{\pi/2 \sinh t})$.

    Raises `ValueError` where it does not converge; under a transformation of jax it is then NaN.
    Reference: Takahasi & Mori (1974), Double exponential formulas for numerical integration,
    doi:10.2977/prims/1195192451.
    """
    cutoff = jnp.asarray(cutoff)
    largest = 4.0 if cutoff.dtype.itemsize == 8 else 2.75  # powers of the last distance are numbers
    t = np.arange(-4.5, largest + STEP / 2, STEP)
    beyond = np.exp(np.pi / 2 * np.sinh(t))
    weight = STEP * beyond * np.pi / 2 * np.cosh(t)
    shape = (len(t),) + (1,) * cutoff.ndim
    x, w = (jnp.asarray(each.reshape(shape), cutoff.dtype) for each in (1 + beyond, weight))
    r = cutoff * x
    terms = cutoff * w * r * r * energy(r * r)
    total = jnp.sum(terms, axis=0)
    coarse = 2 * jnp.sum(terms[::2], axis=0)
    scale = jnp.sum(jnp.abs(terms), axis=0)
    tolerance = 1e-6 if cutoff.dtype.itemsize == 8 else 1e-3
    converged = (jnp.abs(total - coarse) <= tolerance * scale) & (jnp.abs(terms[-1]) <= tolerance * scale)
    if not isinstance(converged, Tracer) and not np.all(np.asarray(converged)):
        raise ValueError(
            f"{name}: has no tail correction, since its integral from {cutoff} on does not converge"
        )
    return jnp.where(converged, total, jnp.nan)
