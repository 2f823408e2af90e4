"""Random initial values, drawn from the path's own stream."""

import dataclasses
import math
from typing import Literal, get_args

import jax.numpy as jnp
from simkit_solvers.generator import Stream, Words, block, stream_key
from simkit_solvers.normal import standard_normal, standard_normal_float64, uniform

Kind = Literal["normal", "lognormal", "uniform"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclasses.dataclass(frozen=True)
class Distribution:
    """The law of one initial value.

    `normal`: mean, standard deviation; `lognormal`: mean and standard deviation of the logarithm;
    `uniform`: lower and upper end. Raises `ValueError` where the parameters admit no such law.
    """

    kind: Kind
    a: float
    b: float

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind}: unknown distribution; choose one of {', '.join(KINDS)}")
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            raise ValueError(f"{self.kind}: both parameters must be finite, got [{self.a:g}, {self.b:g}]")
        if self.kind == "uniform" and not self.a < self.b:
            raise ValueError(f"uniform: the lower end must be below the upper, got [{self.a:g}, {self.b:g}]")
        if self.kind != "uniform" and not self.b >= 0:
            raise ValueError(f"{self.kind}: the standard deviation must be >= 0, got {self.b:g}")


def draw_initial(initial: dict[str, float | Distribution], key: Words, path, dtype, float64_normals: bool):
    """The initial value of each variable of one path, by name; component k of the stream is variable k."""
    stream = stream_key(key, path, Stream.INITIAL)
    values = {}
    for component, (name, law) in enumerate(initial.items()):
        if not isinstance(law, Distribution):
            values[name] = jnp.asarray(law, dtype)
            continue
        words = block(stream, jnp.uint32(0), component)
        if law.kind == "uniform":
            values[name] = (law.a + (law.b - law.a) * uniform(words)).astype(dtype)
        else:
            z = standard_normal_float64(words) if float64_normals else standard_normal(words.a)
            value = law.a + law.b * z.astype(dtype)
            values[name] = jnp.exp(value) if law.kind == "lognormal" else value
    return values
