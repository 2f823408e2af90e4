"""The times of a run whose steps are as long as its tolerances allow."""

import equinox as eqx
import numpy as np
from jax.core import Tracer

from simkit_solvers.problem import Scalar

MAX_STEPS = 16**4  # derivatives nest loops of 16 turns: a power of 16 wastes none


class Tolerances(eqx.Module):
    r"""What the estimated error of a step may be: in the root mean square over the variables, each divided by
    $\mathrm{atol} + \mathrm{rtol}\,|y|$, at most one.

    Both are traced, so changing them compiles nothing. Reference: Hairer, Nørsett & Wanner (1993), Solving
    Ordinary Differential Equations I, section II.4, doi:10.1007/978-3-540-78862-1.
    """

    rtol: Scalar
    atol: Scalar


class AdaptiveGrid(eqx.Module):
    """Steps as long as the tolerances allow from `t0` to `t1`; `points` equally spaced times are saved.

    Row 0 is `t0`, row r the time `t0 + r (t1 - t0) / points`. All but `points` and `max_steps` is traced.
    `first_step` is chosen from the slope at `t0` unless given; on a stochastic problem it is the longest
    step, and a saved interval unless given. Raises `ValueError` unless `points`, `max_steps`, `t1 - t0` and
    `first_step` are positive, the latter two where they are no tracers.
    """

    t0: Scalar
    span: Scalar
    tolerances: Tolerances
    first_step: Scalar | None
    points: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def __init__(
        self,
        t0: Scalar,
        t1: Scalar,
        tolerances: Tolerances,
        first_step: Scalar | None = None,
        points: int = 1,
        max_steps: int = MAX_STEPS,
    ):
        for name, value in (("points", points), ("max_steps", max_steps)):
            if not 0 < value < 2**31:
                raise ValueError(f"{name}: must be from 1 to {2**31 - 1}, got {value}")
        for name, value in (("t1 - t0", t1 - t0), ("first_step", first_step)):
            if value is not None and not isinstance(value, Tracer) and not float(value) > 0:
                raise ValueError(f"{name}: must be positive, got {float(value):g}")
        # Here, before anything takes the precision of the state: a late start would take the span's digits.
        self.t0, self.span = t0, t1 - t0
        self.tolerances, self.first_step, self.points, self.max_steps = (
            tolerances,
            first_step,
            points,
            max_steps,
        )

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
