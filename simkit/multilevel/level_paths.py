r"""The paths of a level, on two grids with the same Brownian motion, and the moments of their difference.

Level l has $2^l$ steps for each of the simulation's own. What is averaged there is a value at the end on
these steps less that of the same path on half as many, whose increments are sums of two; on level 0, which
is the simulation's own grid, it is the value itself. Means of differences add up to that of the finest
grid:

$$E[P_L] = E[P_0] + \sum_{l=1}^{L} E[P_l - P_{l-1}].$$

Each level has paths of its own. Dates at which observables monitor a path are the same on all grids; an
integral over time sees every step. Reference: Giles (2008), Multilevel Monte Carlo path simulation,
doi:10.1287/opre.1070.0496.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

import jax
import numpy as np
from simkit_solvers.grids.grid import Grid

from simkit.derivatives.moments import Averages, MomentsReduction, average
from simkit.ensemble.chunks import LEAF, Chunks, chunks_of_size, limits_on
from simkit.ensemble.failures import failed_paths, failure_of
from simkit.ensemble.paths import PathProgram, path_program, with_traced_steps
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import LevelPlan, Run, Simulation
from simkit.ensemble.work import devices_of, workers_of
from simkit.errors import NumericalError
from simkit.progress import counted

SEEDS = 2**64
GOLDEN = 0x9E3779B97F4A7C15  # what separates the seeds of levels: 2^64 by the golden ratio
SEVERAL = 64  # leaves, above which chunks are large: few sizes, for few compilations
LARGE = 8  # chunks of so many of the most paths there may be

Progress = Callable[[int], None]


def quantities_of(simulation: Simulation) -> tuple[str, ...]:
    """The quantities that are averaged: state variables, and observables."""
    return *simulation.problem.State._fields, *simulation.observables


def steps_on(simulation: Simulation, level: int) -> int:
    """The steps of a path on the grid of a level."""
    return int(simulation.grid.steps or 0) * 2**level


def cost_of(simulation: Simulation, level: int) -> int:
    """The steps of a path of a level, on both of its grids."""
    return steps_on(simulation, level) + (steps_on(simulation, level - 1) if level else 0)


def level_sizes(simulation: Simulation, plan: LevelPlan) -> dict[str, Any]:
    """The steps and the paths of each level, the path-steps of all and of the pilot: for `--dry-run`."""
    levels = list(enumerate(plan.paths))
    return {
        "steps": None,
        "path_steps": sum(paths * cost_of(simulation, level) for level, paths in levels),
        "pilot_path_steps": plan.pilot_steps,
        "levels": [{"steps": steps_on(simulation, level), "paths": paths} for level, paths in levels],
    }


def on_grids(simulation: Simulation, level: int, paths: int, pilot: bool = False) -> tuple[Simulation, ...]:
    """The simulation on the grid of a level, and of one above 0 on that of the level below by its noise.

    Seeds are those of the level, and of a pilot others.
    """
    seed = (simulation.seed + (2 * level + pilot) * GOLDEN) % SEEDS
    own = dataclasses.replace(simulation, paths=paths, seed=seed, stored_paths=0, target=None, levels=None)
    coarse = [dataclasses.replace(_on_grid(own, level - 1), draws_per_step=2)] if level else []
    return _on_grid(own, level), *coarse


def _on_grid(simulation: Simulation, level: int) -> Simulation:
    grid, factor = cast(Grid, simulation.grid), 2**level
    steps = steps_on(simulation, level)
    return simulation.with_run(
        grid=Grid(grid.t0, grid.dt / factor, steps, steps), observer=simulation.observer.refined(factor)
    )


@dataclasses.dataclass(frozen=True)
class LevelProgram:
    """A function of (inputs of each grid, ids): of each quantity the value at the end, `(1, leaves, lanes)`.

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


@dataclasses.dataclass(frozen=True)
class LevelPaths:
    """The paths of one level, on its grids: the finer one first."""

    grids: tuple[Simulation, ...]

    @staticmethod
    def of(simulation: Simulation, level: int, paths: int, pilot: bool = False) -> "LevelPaths":
        """So many paths of a level of a simulation, or of its pilot."""
        return LevelPaths(on_grids(simulation, level, paths, pilot))

    @property
    def names(self) -> tuple[str, ...]:
        """The quantities, in the order of the moments."""
        return quantities_of(self.grids[0])

    @functools.cached_property
    def plan(self) -> Chunks:
        """The chunks in which they run."""
        fine = self.grids[0]
        large = limits_on(workers_of(fine), fine.memory).paths // LARGE
        return chunks_of_size(fine.paths, fine.chunk or (LEAF if fine.paths <= SEVERAL * LEAF else large))

    @functools.cached_property
    def requests(self) -> tuple[Request, ...]:
        """The program of the paths, and those that average what it gives."""
        fine, ids = self.grids[0], self.plan.ids()
        pairs = [path_program(each, with_traced_steps(each, each.grid)) for each in self.grids]
        programs, inputs = zip(*pairs, strict=True)
        level = LevelProgram(self.names, programs)
        reduction = self._reduction.requests(ids.shape, fine.precision, devices_of(fine))
        return Request(level, (inputs, ids), devices_of(fine)), *reduction

    @property
    def _reduction(self) -> MomentsReduction:
        return MomentsReduction((1,) * len(self.names))

    def averages(self, progress: Progress | None = None) -> Averages:
        """The moments of all paths, by programs that have been compiled before.

        Raises `NumericalError` where a path is not finite and `failures` is `stop`, or where none is finite.
        """
        (simulate, *reduce), _ = compiled(*self.requests)
        fine, inputs = self.grids[0], self.requests[0].arguments[0]
        result = average(
            functools.partial(simulate, inputs),
            self._reduction.compiled(reduce),
            self.plan,
            workers_of(fine),
            None if progress is None else lambda done, _: progress(done),
        )
        if len(result.failed) and fine.failures == "stop":
            raise self._failure(result.failed)
        if len(result.failed) == fine.paths:
            raise NumericalError(
                f"of {counted(fine.paths, 'path')} with {counted(fine.grid.steps or 0, 'step')} none has "
                "finite values: there is nothing to average"
            )
        return result

    def _failure(self, failed: np.ndarray) -> Exception:
        """Why the first of these paths is not finite, on the grid where that is so."""
        first = failed[:1]
        coarse_first = reversed(self.grids)
        grid = next((x for x in coarse_first if failure_of(x, int(first[0])).row is not None), self.grids[0])
        return failed_paths(grid, first)


def compile_levels(levels: Iterable[LevelPaths]) -> float:
    """Compile all programs of some levels at once, and give the seconds that took."""
    requests = {request.key: request for level in levels for request in level.requests}
    return compiled(*requests.values())[1]
