"""The times of a run at random events."""

import equinox as eqx

from simkit_solvers.grids.saved_times import AbstractSavedTimes, check_counts, check_positive
from simkit_solvers.numerics.scalar import Scalar

MAX_STEPS = 10**8  # a path in minutes; one that explodes would take for ever


class JumpGrid(AbstractSavedTimes):
    """From `t0` to `t1`, of which `points` equally spaced times are saved.

    Row 0 is `t0`, row r the time `t0 + r (t1 - t0) / points`. A path that takes more than `max_steps` events,
    or leaps, has failed. Raises `ValueError` unless `points`, `max_steps` and `t1 - t0` are positive, the
    last where it is no tracer.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import JumpGrid
    >>> JumpGrid(0.0, 2.0, points=4).elapsed(jnp.float32).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """

    t0: Scalar
    span: Scalar
    points: int = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)

    def __init__(self, t0: Scalar, t1: Scalar, points: int = 1, max_steps: int = MAX_STEPS):
        check_counts(points=points, max_steps=max_steps)
        check_positive("t1 - t0", t1 - t0)
        self.t0, self.span, self.points, self.max_steps = t0, t1 - t0, points, max_steps
