"""The type of one number of one path, which `vmap` turns into a vector over paths, and tuples of these by
name.
"""

import functools
from typing import NamedTuple

import jax

Scalar = float | jax.Array


@functools.lru_cache(maxsize=256)
def scalars(name: str, fields: tuple[str, ...]) -> type[tuple]:
    """A `NamedTuple` class of such numbers; the same one for the same fields."""
    return NamedTuple(name, [(field, Scalar) for field in fields])  # pyright: ignore[reportArgumentType]
