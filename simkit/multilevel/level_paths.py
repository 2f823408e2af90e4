r"""The paths of a level, and the moments of their differences from the level below.

Means of differences add up to that of the finest level:

$$E[P_L] = E[P_0] + \sum_{l=1}^{L} E[P_l - P_{l-1}].$$

Each level has paths of its own. Reference: Giles (2008), Multilevel Monte Carlo path simulation,
doi:10.1287/opre.1070.0496.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

from simkit_solvers.methods.registry import info_of

from simkit.derivatives.moments import Averages, MomentsReduction, average
from simkit.ensemble.chunks import LEAF, Chunks, chunks_of_size, limits_on
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.simulation import SEEDS, LevelPlan, Simulation
from simkit.ensemble.work import devices_of, workers_of
from simkit.errors import NumericalError
from simkit.multilevel.leap_levels import LeapLevels
from simkit.multilevel.levels import AbstractLevels
from simkit.multilevel.step_levels import StepLevels
from simkit.progress import counted

GOLDEN = 0x9E3779B97F4A7C15  # what separates the seeds of levels: 2^64 by the golden ratio
SEVERAL = 64  # leaves, above which chunks are large: few sizes, for few compilations
LARGE = 8  # chunks of so many of the most paths there may be

Progress = Callable[[int], None]


def levels_on(simulation: Simulation) -> AbstractLevels:
    """The levels of a simulation."""
    return (LeapLevels if info_of(simulation.solver).leaps else StepLevels)(simulation)


def level_sizes(simulation: Simulation, plan: LevelPlan) -> dict[str, Any]:
    """The steps and the paths of each level, the path-steps of all and of the pilot: for `--dry-run`."""
    return {
        "steps": None,
        "path_steps": plan.work,
        "pilot_path_steps": plan.pilot_steps,
        "unit": levels_on(simulation).unit,
        "many_ends": levels_on(simulation).many_ends,
        "levels": [{"steps": s, "paths": n} for s, n in zip(plan.steps, plan.paths, strict=True)],
    }


@dataclasses.dataclass(frozen=True)
class LevelPaths:
    """The paths of one level, on its grids: the finer one first."""

    levels: AbstractLevels
    level: int
    grids: tuple[Simulation, ...]

    @staticmethod
    def of(levels: AbstractLevels, level: int, paths: int, pilot: bool = False) -> "LevelPaths":
        """So many paths of a level of a simulation, or of its pilot.

        Seeds are those of the level, and of a pilot others.
        """
        simulation = levels.simulation
        seed = (simulation.seed + (2 * level + pilot) * GOLDEN) % SEEDS
        own = dataclasses.replace(
            simulation, paths=paths, seed=seed, stored_paths=0, target=None, levels=None
        )
        return LevelPaths(levels, level, levels.grids(own, level))

    @functools.cached_property
    def plan(self) -> Chunks:
        """The chunks in which they run."""
        fine = self.grids[0]
        large = limits_on(workers_of(fine), fine.memory).paths // LARGE
        return chunks_of_size(fine.paths, fine.chunk or (LEAF if fine.paths <= SEVERAL * LEAF else large))

    @functools.cached_property
    def requests(self) -> tuple[Request, ...]:
        """The program of the paths, and those that average what it gives."""
        devices, ids = devices_of(self.grids[0]), self.plan.ids()
        program, inputs = self.levels.program(self.grids, self.level)
        reduction = self._reduction.requests(ids.shape, self.levels.precision, devices)
        return Request(program, (inputs, ids), devices), *reduction

    @property
    def _reduction(self) -> MomentsReduction:
        return MomentsReduction((1,) * (len(self.levels.orders) + self.levels.measured))

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
            raise self.levels.failure(self.grids, self.level, int(result.failed[0]))
        if len(result.failed) == fine.paths:
            raise NumericalError(
                f"of {counted(fine.paths, 'path')} of level {self.level} none has finite values: there is "
                "nothing to average"
            )
        return result


def compile_levels(levels: Iterable[LevelPaths]) -> float:
    """Compile all programs of some levels at once, and give the seconds that took."""
    requests = {request.key: request for level in levels for request in level.requests}
    return compiled(*requests.values())[1]
