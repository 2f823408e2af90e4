"""Initial values that differ from path to path: drawn from the path's own stream, or given for each."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Array, Float
from simkit_solvers.random.generator import Stream, Words, block, stream_key
from simkit_solvers.random.normal import standard_normal, standard_normal_float64, uniform

Kind = Literal["normal", "lognormal", "uniform"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Distribution(eqx.Module):
    """The distribution of one initial value.

    `normal`: mean, standard deviation; `lognormal`: mean and standard deviation of the logarithm;
    `uniform`: lower and upper end. Raises `ValueError` for invalid parameters; traced ones
    were checked when they were numbers.
    """

    kind: Kind = eqx.field(static=True)
    a: Any
    b: Any

    def __check_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind}: unknown distribution; choose one of {', '.join(KINDS)}")
        if isinstance(self.a, Tracer) or isinstance(self.b, Tracer):
            return
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            raise ValueError(f"{self.kind}: both parameters must be finite, got [{self.a:g}, {self.b:g}]")
        if self.kind == "uniform" and not self.a < self.b:
            raise ValueError(f"uniform: the lower end must be below the upper, got [{self.a:g}, {self.b:g}]")
        if self.kind != "uniform" and not self.b >= 0:
            raise ValueError(f"{self.kind}: the standard deviation must be >= 0, got {self.b:g}")


@dataclasses.dataclass(frozen=True, eq=False)
class PathValues:
    """Initial values given for the paths: an array `(rows,)`, of which path i has row i modulo rows."""

    numbers: np.ndarray


InitialValue = float | Distribution | PathValues


def fixed_value(value: InitialValue) -> float:
    """A representative number, where only the kind of the initial value matters."""
    if isinstance(value, PathValues):
        return float(value.numbers[0])
    return value.a if isinstance(value, Distribution) else value


def numbers_of(initial: Mapping[str, Any]) -> dict[str, Any]:
    """The initial values as trees of numbers: one, those of a distribution, or one for each path."""
    return {name: x.numbers if isinstance(x, PathValues) else x for name, x in initial.items()}


def differs_between_paths(initial: Iterable[InitialValue]) -> bool:
    """Whether paths have different initial values."""
    return any(isinstance(given, Distribution | PathValues) for given in initial)


def draw_initial(
    initial: dict[str, Any], key: Words, path: jax.Array, dtype: DTypeLike, float64_normals: bool
) -> dict[str, jax.Array]:
    """The initial value of each variable of one path, by name; component k of the stream is variable k.

    A number is that of all paths, and an array `(rows,)` has one for each.
    """
    stream = stream_key(key, path, Stream.INITIAL)
    values = {}
    for component, (name, given) in enumerate(initial.items()):
        if not isinstance(given, Distribution):
            values[name] = given_value(jnp.asarray(given, dtype), path)
            continue
        words = block(stream, jnp.uint32(0), component)
        if given.kind == "uniform":
            u = uniform(words)
            lower, upper = jnp.asarray(given.a, u.dtype), jnp.asarray(given.b, u.dtype)
            values[name] = (lower + (upper - lower) * u).astype(dtype)
        else:
            z = standard_normal_float64(words) if float64_normals else standard_normal(words.a)
            value = jnp.asarray(given.a, dtype) + jnp.asarray(given.b, dtype) * z.astype(dtype)
            values[name] = jnp.exp(value) if given.kind == "lognormal" else value
    return values


def given_value(numbers: Float[Array, "..."], path: jax.Array) -> jax.Array:
    """The number itself, or that of the path's row."""
    return numbers if numbers.ndim == 0 else numbers[path % jnp.uint32(numbers.shape[0])]
