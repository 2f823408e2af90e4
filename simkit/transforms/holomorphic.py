"""Complex derivatives."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from simkit.errors import InputError
from simkit.transforms.arguments import check_positions

TOLERANCE = 100  # roundings, of the larger of the two derivatives that must agree


def holomorphic(function: Callable, wrt: int = 0) -> Callable:
    r"""$f'(z)$ of an analytic function from complex arrays to complex arrays of the same shape, elementwise.

    The derivative along 1, and along i divided by i: an analytic function has one derivative, that is,
    the Cauchy–Riemann equations hold. Raises `InputError` where the argument is real, the value has another
    shape, or the two differ, as for `conj`, `abs` and `real` (inside `jit`, an error when the program runs).
    Reference: Ahlfors (1979), Complex Analysis, chapter 2.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import holomorphic
    >>> holomorphic(lambda z: z**2)(jnp.array([1.0 + 1.0j])).tolist()
    [(2+2j)]
    """
    check_positions("holomorphic: wrt", wrt, function)

    def slope(*args):
        z = jnp.asarray(args[wrt])
        if not jnp.issubdtype(z.dtype, jnp.complexfloating):
            raise InputError(
                f"holomorphic: argument {wrt} is {z.dtype}, not complex; give complex numbers, or use "
                "derivative()"
            )

        def along(direction):
            def moved(z):
                return jnp.asarray(function(*args[:wrt], z, *args[wrt + 1 :]), z.dtype)

            return jax.jvp(moved, (z,), (jnp.full_like(z, direction),))

        (value, one), (_, i) = along(1.0), along(1.0j)
        if value.shape != z.shape:
            raise InputError(
                f"holomorphic: from shape {list(z.shape)} the function goes to {list(value.shape)}; it must "
                "keep the shape"
            )
        eps = float(jnp.finfo(z.dtype).eps)
        wrong = jnp.any(jnp.abs(i - 1.0j * one) > TOLERANCE * eps * jnp.maximum(jnp.abs(i), jnp.abs(one)))
        message = (
            "holomorphic: the derivatives along 1 and along i differ, so the function is not analytic here; "
            "write it without conj, abs, real and imag"
        )
        if isinstance(wrong, Tracer):
            return eqx.error_if(one, wrong, message)
        if wrong:
            raise InputError(message)
        return one

    return slope
