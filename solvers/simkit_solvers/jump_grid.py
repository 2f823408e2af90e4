"""The times of a run whose events come when they come."""

import equinox as eqx
import numpy as np

from simkit_solvers.problem import Scalar

MAX_STEPS = 10**8  # a path in minutes; one that explodes would take for ever


class JumpGrid(eqx.Module):
    """From `t0` to `t1`, of which `points` equally spaced times are saved.

    Row 0 is `t0`, row r the time `t0 + r (t1 - t0) / points`. A path that takes more than `max_steps` events,
    or leaps, has failed. Raises `ValueError` unless `points` and `max_steps` are positive.
    """

    t0: Scalar
    span: Scalar
    points: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def __init__(self, t0: Scalar, t1: Scalar, points: int = 1, max_steps: int = MAX_STEPS):
        for name, value in (("points", points), ("max_steps", max_steps)):
            if not 0 < value < 2**31:
                raise ValueError(f"{name}: must be from 1 to {2**31 - 1}, got {value}")
        self.t0, self.span, self.points, self.max_steps = t0, t1 - t0, points, max_steps

    @property
    def t1(self) -> Scalar:
        """Where time ends."""
        return self.t0 + self.span

    @property
    def rows(self) -> int:
        """How many rows are saved, the one at `t0` included."""
        return self.points + 1

    @property
    def times(self):
        """The times of the saved rows as a float64 NumPy array."""
        t0, span = float(self.t0), float(self.span)
        return t0 + np.arange(self.rows) / self.points * span
