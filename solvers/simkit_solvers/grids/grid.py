"""The fixed time grid."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from simkit_solvers.numerics.scalar import Scalar

NO_STEP = 2**32 - 1  # steps are counted from 0 and never reach this
PERIOD = 8  # what the length of every block divides (`blocks.method_of`)
# From here on rounding in float32 takes more from a stochastic equation than its steps are off.
LONG = 10_000


class Grid(eqx.Module):
    """Steps of equal length `dt` from `t0`, of which every `every`-th is saved.

    `t0` and `dt` are traced, so changing them needs no recompilation; `steps` and `every` are static. Row 0
    is `t0`, row r is step `r * every`. Raises `ValueError` unless `steps` is a positive multiple of `every`.

    >>> from simkit_solvers import Grid
    >>> Grid(t0=0.0, dt=0.01, steps=100, every=10).rows
    11
    """

    known: ClassVar[bool] = True  # the number of steps, before the program runs
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
    def times(self) -> Float[np.ndarray, " rows"]:
        """The times of the saved rows as a float64 NumPy array."""
        return float(self.t0) + np.arange(self.rows) * (self.every * float(self.dt))

    @property
    def span(self) -> Scalar:
        """The time from the first row to the last."""
        return self.dt * self.steps

    def over(self, grid: "Grid") -> "Grid":
        """These steps over the time of another grid."""
        return Grid(grid.t0, grid.dt * (grid.steps / self.steps), self.steps, self.every)

    def thinned(self, rows: int) -> "Grid":
        """These steps, of which about `rows`, equally spaced, are saved."""
        every = next(n for n in range(max(1, self.steps // rows), self.steps + 1) if self.steps % n == 0)
        return Grid(self.t0, self.dt, self.steps, every)

    def traced(self) -> "Grid | TracedGrid":
        """The grid with traced numbers of steps, or as it is where rows lie too close."""
        if self.every < 2 * PERIOD:
            return self
        every: Any = np.uint32(self.every)
        return TracedGrid(self.t0, self.dt, every, self.rows, self.every % PERIOD, self.long)

    def without_last(self, steps: int) -> "Grid":
        """All but the last steps of a grid of two rows."""
        return Grid(self.t0, self.dt, self.steps - steps, self.steps - steps)

    def blocks(self, size: int) -> int:
        """Blocks of `size` steps from row to row."""
        # At least two: the compiler inlines a loop of one and mixes it with the code around it.
        return max(2, -(-self.every // size))

    @property
    def long(self) -> bool:
        """Whether there are more than `LONG` steps."""
        return self.steps > LONG

    @property
    def phase(self) -> int:
        """`every`, or what is the same for where rows fall in blocks."""
        return self.every


class TracedGrid(eqx.Module):
    """A `Grid` whose numbers of steps are traced too, so that changing them needs no recompilation.

    What the code depends on stays static: how many rows are saved, where they fall in blocks, which is the
    `phase`, `every` modulo `PERIOD`, and whether it is `long`. Two blocks or more lie between rows. A loop
    over it is not differentiable in reverse mode, which needs a known number of steps.

    >>> from simkit_solvers import Grid, TracedGrid
    >>> isinstance(Grid(t0=0.0, dt=0.01, steps=1000, every=500).traced(), TracedGrid)
    True
    """

    known: ClassVar[bool] = False
    t0: Scalar
    dt: Scalar
    every: Scalar  # uint32
    rows: int = eqx.field(static=True)
    phase: int = eqx.field(static=True)
    long: bool = eqx.field(static=True)

    def without_last(self, steps: int) -> "TracedGrid":
        """All but the last steps of a grid of two rows."""
        phase = (self.phase - steps) % PERIOD
        return TracedGrid(self.t0, self.dt, self.every - jnp.uint32(steps), self.rows, phase, self.long)

    def blocks(self, size: int) -> Scalar:
        """Blocks of `size` steps from row to row."""
        return (self.every + jnp.uint32(size - 1)) // jnp.uint32(size)

    @property
    def steps(self) -> Scalar:
        """The number of steps, `uint32` as `every`."""
        return np.uint32(self.rows - 1) * self.every
