r"""Levels of ever shorter steps, whose two grids have the same Brownian motion.

Level l has $2^l$ steps for each of the simulation's own. What is averaged there is a value at the end on
these steps less that of the same path on half as many, whose increments are sums of two; on level 0, which
is the simulation's own grid, it is the value itself. Dates at which observables monitor a path are the same
on all grids; an integral over time sees every step. Reference: Giles (2008), Multilevel Monte Carlo path
simulation, doi:10.1287/opre.1070.0496.
"""

import dataclasses
from typing import cast

import jax
import numpy as np
from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.compensated import loses_float32

from simkit.ensemble.failures import failed_paths, failure_of
from simkit.ensemble.paths import PathProgram, path_program, with_traced_steps
from simkit.ensemble.simulation import Run, Simulation
from simkit.multilevel.levels import MOST_LEVELS, AbstractLevels, quantities_of


class StepLevels(AbstractLevels):
    """Levels of a simulation with steps of one length."""

    unit = "step"

    @property
    def most(self):
        return next((level for level in range(MOST_LEVELS) if not self._possible(level)), MOST_LEVELS)

    def _possible(self, level: int) -> bool:
        """Whether a path can have the steps of a level."""
        simulation, steps = self.simulation, self._steps(level)
        return steps < 2**31 and not loses_float32(simulation.solver, simulation.precision, steps)

    def _steps(self, level: int) -> int:
        return int(self.simulation.grid.steps or 0) * 2**level

    def steps(self, seen=()):
        return [self._steps(level) for level in range(self.most)]

    def costs(self, seen=()):
        own = self.steps()
        return [steps + (own[level - 1] if level else 0) for level, steps in enumerate(own)]

    @property
    def precision(self):
        return self.simulation.precision

    def grids(self, own, level):
        coarse = [dataclasses.replace(self._on_grid(own, level - 1), draws_per_step=2)] if level else []
        return self._on_grid(own, level), *coarse

    def _on_grid(self, own: Simulation, level: int) -> Simulation:
        grid, factor = cast(Grid, self.simulation.grid), 2**level
        steps = self._steps(level)
        return own.with_run(
            grid=Grid(grid.t0, grid.dt / factor, steps, steps), observer=own.observer.refined(factor)
        )

    def program(self, grids, level):
        pairs = [path_program(each, with_traced_steps(each, each.grid)) for each in grids]
        programs, inputs = zip(*pairs, strict=True)
        return StepProgram(quantities_of(grids[0]), programs), inputs

    def failure(self, grids, level, path):
        coarse_first = reversed(grids)
        grid = next((x for x in coarse_first if failure_of(x, path).row is not None), grids[0])
        return failed_paths(grid, np.array([path]))


@dataclasses.dataclass(frozen=True)
class StepProgram:
    """A function of (inputs of each grid, ids): of each quantity the value at the end.

    Of two grids it is that of the first less that of the second.
    """

    names: tuple[str, ...]
    grids: tuple[PathProgram, ...]

    def __call__(self, inputs: tuple[Run, ...], ids) -> tuple[jax.Array, ...]:
        fine, *coarse = (program(each, ids) for program, each in zip(self.grids, inputs, strict=True))
        ends = [fine[name][-1:] for name in self.names]
        for other in coarse:
            ends = [end - other[name][-1:] for name, end in zip(self.names, ends, strict=True)]
        return tuple(ends)
