"""What has a gradient is one number."""

from collections.abc import Callable

import jax

from simkit.errors import InputError
from simkit.transforms.arguments import name_of


def check_scalar(place: str, function: Callable, args: tuple) -> None:
    """Refuse a function whose value is not one real number."""
    out = jax.eval_shape(function, *args)
    if isinstance(out, jax.ShapeDtypeStruct) and out.shape == ():
        return
    given = jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", out)
    raise InputError(
        f"{place}: {name_of(function)} gives {given}, and a gradient is of one number; take its mean or sum "
        "first, or Jacobian() in place of Grad()"
    )
