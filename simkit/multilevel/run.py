"""A multilevel run: all levels one after the other, by a number of paths that is fixed before."""

import dataclasses
import math
import time
from collections.abc import Callable

import jax
import numpy as np

from simkit.derivatives.moments import Averages
from simkit.ensemble.simulation import LevelPlan, Simulation
from simkit.ensemble.step_bias.rounding import rounding_of_steps
from simkit.ensemble.work import devices_of
from simkit.multilevel.level_paths import LevelPaths, compile_levels, levels_on
from simkit.multilevel.level_rates import QuantityLevels, Rate, rate_of
from simkit.multilevel.levels import AbstractLevels
from simkit.multilevel.pilot import planned, seen_on

Progress = Callable[[int, int], None]  # of the paths done, and all of them


@dataclasses.dataclass(frozen=True)
class MultilevelResult:
    """The moments of all levels, what they show of each figure, and how long they took.

    `plan` has the steps and the costs that the run itself has measured. `ladder` are the levels.
    """

    ladder: AbstractLevels
    plan: LevelPlan
    averages: list[Averages]
    levels: dict[str, QuantityLevels]
    elapsed_s: float
    compile_s: float
    devices: int

    def stderr_of(self, name: str) -> tuple[float, float]:
        """The standard error of a figure, at least its rounding, and that rounding."""
        levels, simulation = self.levels[name], self.ladder.simulation
        spread, steps = math.sqrt(levels.variance[0]), self.plan.steps[-1]
        rounding = float(rounding_of_steps(math.hypot(levels.total, spread), simulation, steps, spread))
        return max(levels.stderr, rounding), rounding

    @property
    def gamma(self) -> Rate:
        """The power of 1 / step with which the cost of a path rises from level to level."""
        errors = [each.stderr[-1][-1] if self.ladder.measured else 0.0 for each in self.averages]
        falling = rate_of(np.array(self.plan.costs[1:]), np.array(errors[1:]))
        return Rate(-falling.rate, falling.stderr if self.ladder.measured else 0.0)


def run_levels(
    simulation: Simulation, progress: Progress | None = None, others: AbstractLevels | None = None
) -> MultilevelResult:
    """Run all levels, `others` than the simulation's own or these, after a pilot where there has been none.

    Raises what that raises, and `NumericalError` where a path is not finite.
    """
    ladder = others or levels_on(simulation)
    simulation = planned(simulation, ladder)
    plan = simulation.levels or LevelPlan()
    with jax.enable_x64(True):
        levels = [LevelPaths.of(ladder, level, paths) for level, paths in enumerate(plan.paths)]
        compile_s, start = compile_levels(levels), time.perf_counter()
        averages, done = [], 0.0
        for each, paths, cost in zip(levels, plan.paths, plan.costs, strict=True):

            def progressed(paths: int, before: float = done, cost: float = cost) -> None:
                if progress is not None:
                    part = (before + paths * cost) / plan.work
                    progress(round(simulation.paths * part), simulation.paths)

            averages.append(each.averages(progressed))
            done += paths * cost
        elapsed_s = time.perf_counter() - start
    count = len(averages)
    steps, costs = ladder.steps(averages)[:count], ladder.costs(averages)[:count]
    return MultilevelResult(
        ladder,
        dataclasses.replace(plan, steps=(*steps,), costs=(*costs,)),
        averages,
        seen_on(ladder, averages),
        elapsed_s,
        compile_s,
        len(devices_of(simulation)),
    )
