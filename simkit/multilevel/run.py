"""A multilevel run: all levels one after the other, by a number of paths that is fixed before."""

import dataclasses
import time
from collections.abc import Callable

import jax

from simkit.derivatives.moments import Averages
from simkit.ensemble.simulation import LevelPlan, Simulation
from simkit.ensemble.work import devices_of
from simkit.multilevel.level_paths import LevelPaths, compile_levels, cost_of
from simkit.multilevel.level_rates import QuantityLevels
from simkit.multilevel.pilot import levels_of, planned

Progress = Callable[[int, int], None]  # of the paths done, and all of them


@dataclasses.dataclass(frozen=True)
class MultilevelResult:
    """The moments of all levels, what they show of each quantity, and how long they took.

    `costs` are the steps of a path of each level, on both grids.
    """

    plan: LevelPlan
    averages: list[Averages]
    levels: dict[str, QuantityLevels]
    costs: list[int]
    elapsed_s: float
    compile_s: float
    devices: int

    @property
    def work(self) -> int:
        """The path-steps of the run, without those of the pilot."""
        return sum(paths * cost for paths, cost in zip(self.plan.paths, self.costs, strict=True))


def run_levels(simulation: Simulation, progress: Progress | None = None) -> MultilevelResult:
    """Run all levels, after a pilot where there has been none.

    Raises what that raises, and `NumericalError` where a path is not finite.
    """
    simulation = planned(simulation)
    plan = simulation.levels or LevelPlan()
    with jax.enable_x64(True):
        levels = [LevelPaths.of(simulation, level, paths) for level, paths in enumerate(plan.paths)]
        costs = [cost_of(simulation, level) for level in range(len(levels))]
        work = sum(paths * cost for paths, cost in zip(plan.paths, costs, strict=True))
        compile_s, start = compile_levels(levels), time.perf_counter()
        averages, done = [], 0
        for each, cost in zip(levels, costs, strict=True):

            def progressed(paths: int, before: int = done, cost: int = cost) -> None:
                if progress is not None:
                    part = (before + paths * cost) / work
                    progress(round(simulation.paths * part), simulation.paths)

            averages.append(each.averages(progressed))
            done += each.grids[0].paths * cost
        elapsed_s = time.perf_counter() - start
        return MultilevelResult(
            plan,
            averages,
            levels_of(simulation, averages),
            costs,
            elapsed_s,
            compile_s,
            len(devices_of(simulation)),
        )
