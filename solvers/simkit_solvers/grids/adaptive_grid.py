"""The times of a run with adaptive steps."""

import math

import equinox as eqx

from simkit_solvers.grids.saved_times import AbstractSavedTimes, check_counts, check_positive
from simkit_solvers.numerics.scalar import Scalar

MAX_STEPS = 16**4  # derivatives nest loops of 16 iterations: a power of 16 wastes none


class Tolerances(eqx.Module):
    r"""What the estimated error of a step may be: in the root mean square over the variables, each divided by
    $\mathrm{atol} + \mathrm{rtol}\,|y|$, at most one.

    Both are traced, so changing them needs no recompilation. Reference: Hairer, Nørsett & Wanner (1993),
    Solving Ordinary Differential Equations I, section II.4, doi:10.1007/978-3-540-78862-1.

    >>> from simkit_solvers import Tolerances
    >>> Tolerances(rtol=1e-6, atol=1e-9).rtol
    1e-06
    """

    rtol: Scalar
    atol: Scalar


class AdaptiveGrid(AbstractSavedTimes):
    """Steps as long as the tolerances allow from `t0` to `t1`; `points` equally spaced times are saved.

    Row 0 is `t0`, row r the time `t0 + r (t1 - t0) / points`. All but `points` and `max_steps` is traced.
    `first_step` is chosen from the slope at `t0` unless given; on a stochastic problem it is the longest
    step, and a saved interval unless given. Where an ordinary equation stops at saved times, no step is
    longer than the interval between two stops divided by `parts` (`with_steps`), which shows the error of
    steps that tolerances would let be longer. Raises `ValueError` unless `points`, `max_steps`, `t1 - t0` and
    `first_step` are positive, the latter two where they are no tracers.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import AdaptiveGrid, Tolerances
    >>> AdaptiveGrid(0.0, 2.0, Tolerances(1e-6, 1e-6), points=4).elapsed(jnp.float32).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """

    t0: Scalar
    span: Scalar
    tolerances: Tolerances
    first_step: Scalar | None
    parts: Scalar
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
        check_counts(points=points, max_steps=max_steps)
        check_positive("t1 - t0", t1 - t0)
        check_positive("first_step", first_step)
        # Here, before anything takes the precision of the state: a late start would take the span's digits.
        self.t0, self.span = t0, t1 - t0
        self.tolerances, self.first_step, self.parts = tolerances, first_step, 1.0
        self.points, self.max_steps = points, max_steps

    def over(self, grid: "AdaptiveGrid") -> "AdaptiveGrid":
        """Another grid with the tolerances of this one, and its parts of intervals."""
        return grid.with_steps(self.tolerances, self.parts)

    def with_steps(self, tolerances: Tolerances, parts: Scalar) -> "AdaptiveGrid":
        """The same saved times with other steps."""
        return eqx.tree_at(lambda g: (g.tolerances, g.parts), self, (tolerances, parts))

    @property
    def fewest_steps(self) -> int:
        """The fewest steps of a stochastic path, none longer than `first_step` or beyond a saved time."""
        interval = float(self.span) / self.points
        longest = interval if self.first_step is None else float(self.first_step)
        return self.points * max(math.ceil(interval / longest - 1e-3), 1)
