"""The totals of all chunks of a run; their rows in the accumulators are used again."""

from typing import Any

import jax
import numpy as np
from simkit_solvers.loops.simulate_particles import ParticleRun

from simkit.errors import NumericalError

ROWS = 256  # measurements of a chunk, at most
TOTALS = " totals"  # no name of an observable: it holds a space


class MeasuredRows:
    """The totals so far, of steps after the `first`."""

    def __init__(self, first: int):
        self.first = first
        self.chunks: list[Any] = []

    def collect(self, run: ParticleRun) -> ParticleRun:
        """Keep the rows of a chunk; returns the run with room for those of another.

        Raises `NumericalError` where the potential energy is not finite.
        """
        series = run.accumulator[TOTALS]
        seen = int(series.seen)
        steps, totals = jax.tree.map(lambda a: np.asarray(a)[:seen], (series.step, series.totals))
        for step, energy in zip(steps, totals.potential, strict=True):
            if not np.isfinite(energy):
                raise NumericalError(
                    f"step {int(step) - self.first:,}: the potential energy is {energy:g}; the potential "
                    "must be finite at all distances from that of the nearest particles to the cutoff"
                )
        self.chunks.append((steps, totals))
        empty = series._replace(seen=np.uint32(0))
        return run._replace(accumulator={**run.accumulator, TOTALS: empty})

    @property
    def steps(self) -> np.ndarray:
        return np.concatenate([step for step, _ in self.chunks]).astype(np.int64) - self.first

    @property
    def totals(self) -> Any:
        return jax.tree.map(lambda *a: np.concatenate(a), *(totals for _, totals in self.chunks))
