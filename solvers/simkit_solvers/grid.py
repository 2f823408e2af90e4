"""The fixed time grid."""

import equinox as eqx
import numpy as np

from simkit_solvers.problem import Scalar


class Grid(eqx.Module):
    """Steps of equal length `dt` from `t0`, of which every `every`-th is saved.

    `t0` and `dt` are traced, so changing them compiles nothing; `steps` and `every` are static. Row 0 is
    `t0`, row r is step `r * every`. Raises `ValueError` unless `steps` is a positive multiple of `every`.
    """

    t0: Scalar
    dt: Scalar
    steps: int = eqx.field(static=True)
    every: int = eqx.field(static=True)

    def __check_init__(self):
        if not 0 < self.steps < 2**31:
            raise ValueError(f"steps: must be from 1 to {2**31 - 1}, got {self.steps}")
        if self.every < 1 or self.steps % self.every:
            raise ValueError(f"every: {self.every} does not divide the {self.steps} steps; choose a divisor")

    @property
    def rows(self) -> int:
        """How many rows are saved, the one at `t0` included."""
        return self.steps // self.every + 1

    @property
    def times(self):
        """The times of the saved rows as a float64 NumPy array."""
        return float(self.t0) + np.arange(self.rows) * (self.every * float(self.dt))
