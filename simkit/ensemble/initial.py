"""Initial values that differ from path to path: drawn from the path's own stream, or given for each."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from simkit_solvers.random.generator import Stream, Words, block, stream_key

from simkit.distributions.distribution import AbstractDrawn


@dataclasses.dataclass(frozen=True, eq=False)
class PathValues:
    """Initial values given for the paths: an array `(rows,)`, of which path i has row i modulo rows."""

    numbers: np.ndarray


InitialValue = float | AbstractDrawn | PathValues


def fixed_value(value: InitialValue) -> float:
    """A representative number, where only the kind of the initial value matters."""
    if isinstance(value, PathValues):
        return float(value.numbers[0])
    return value.median if isinstance(value, AbstractDrawn) else value


def numbers_of(initial: Mapping[str, Any]) -> dict[str, Any]:
    """The initial values as trees of numbers: one, those of a distribution, or one for each path."""
    return {name: x.numbers if isinstance(x, PathValues) else x for name, x in initial.items()}


def differs_between_paths(initial: Iterable[InitialValue]) -> bool:
    """Whether paths have different initial values."""
    return any(isinstance(given, AbstractDrawn | PathValues) for given in initial)


def draw_initial(
    initial: dict[str, Any], key: Words, path: jax.Array, dtype: DTypeLike, float64_normals: bool
) -> dict[str, jax.Array]:
    """The initial value of each variable of one path, by name; component k of the stream is variable k.

    A number is that of all paths, and an array `(rows,)` has one for each.
    """
    stream = stream_key(key, path, Stream.INITIAL)
    values = {}
    for component, (name, given) in enumerate(initial.items()):
        if isinstance(given, AbstractDrawn):
            words = block(stream, jnp.uint32(0), component)
            values[name] = given.draw(words, dtype, float64_normals)
        else:
            values[name] = given_value(jnp.asarray(given, dtype), path)
    return values


def given_value(numbers: Float[Array, "..."], path: jax.Array) -> jax.Array:
    """The number itself, or that of the path's row."""
    return numbers if numbers.ndim == 0 else numbers[path % jnp.uint32(numbers.shape[0])]
