"""The span and the saved times of a run without common steps."""

from typing import ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from simkit_solvers.numerics.scalar import Scalar


class AbstractSavedTimes(eqx.Module):
    """From `t0` over `span`, of which `points` equally spaced times are saved.

    Row 0 is `t0`, row r the time `t0 + r span / points`.
    """

    steps: ClassVar[None] = None  # the same for all paths
    known: ClassVar[bool] = False
    t0: eqx.AbstractVar[Scalar]
    span: eqx.AbstractVar[Scalar]
    points: eqx.AbstractVar[int]

    def thinned(self, rows: int) -> Self:
        """The grid itself: what it saves costs nothing in addition to its steps."""
        return self

    def traced(self) -> Self:
        """The grid itself: it has no number of steps."""
        return self

    @property
    def t1(self) -> Scalar:
        """Where time ends."""
        return self.t0 + self.span

    @property
    def rows(self) -> int:
        """How many rows are saved, the one at `t0` included."""
        return self.points + 1

    def elapsed(self, dtype: DTypeLike) -> Float[Array, " rows"]:
        """The times of the saved rows since `t0`; the last is the whole span exactly."""
        # Divided on the host: XLA multiplies by 1/points, and 49 * (1/49) is less than 1.
        fractions = np.arange(self.rows) / self.points
        return jnp.asarray(fractions, dtype) * jnp.asarray(self.span, dtype)

    @property
    def times(self) -> Float[np.ndarray, " rows"]:
        """The times of the saved rows as a float64 array."""
        t0, span = float(self.t0), float(self.span)
        return t0 + np.arange(self.rows) / self.points * span


def check_counts(**counts: int) -> None:
    """Raise `ValueError` for a count that is not positive, or more than an `int32` holds."""
    for name, value in counts.items():
        if not 0 < value < 2**31:
            raise ValueError(f"{name}: must be from 1 to {2**31 - 1}, got {value}")


def check_positive(name: str, value: Scalar | None) -> None:
    """Raise `ValueError` for a number that is known and not positive."""
    if value is not None and not isinstance(value, Tracer) and not float(value) > 0:
        raise ValueError(f"{name}: must be positive, got {float(value):g}")
