"""The pilot of a multilevel run, on other paths, whose results are dropped.

The run's numbers of levels and paths are then fixed before any of its paths run, so that it has no bias but
that of the steps of its finest level. The pilot has paths on four levels, on more levels where the run
would have more, and more paths while variances are not known well, as long as these are a small part of the
run's work.
"""

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import cast

import jax
import numpy as np

from simkit.config.settings import MAX_PATHS, ErrorTarget
from simkit.derivatives.moments import Averages
from simkit.ensemble.chunks import LEAF
from simkit.ensemble.simulation import LevelPlan, Simulation
from simkit.errors import InputError
from simkit.multilevel.allocation import Allocation, allocated, balanced
from simkit.multilevel.level_paths import LevelPaths, compile_levels, levels_on
from simkit.multilevel.level_rates import QuantityLevels
from simkit.multilevel.levels import AbstractLevels
from simkit.progress import counted
from simkit.records.recording import RecordedLoop, unrecorded

PLACE, METHOD = "ensemble.target", "ensemble.method"
FIRST_LEVELS = 4
GROWTH, PART = 4, 0.1  # of the paths of a pilot; of the run's work, that more of them may take
MOST_WORK = 5 * 10**7  # path-steps of a pilot that cannot tell yet
KNOWN = 0.05  # of the variance of a mean, that the pilot may leave unknown
LEAST_BETA = 0.2
TAIL, CLOSE, SURE = 0.1, 0.5, 2.0


def planned(simulation: Simulation, levels: AbstractLevels | None = None) -> Simulation:
    """The simulation with the paths of each level, which a pilot finds, unless it has them.

    `levels` are others than its own, of derivatives. Raises `InputError` where no number of levels reaches
    the target, or the pilot cannot tell how many.
    """
    if simulation.levels is None or simulation.levels.paths:
        return simulation
    size = _PlanRecord()
    loop = RecordedLoop(size, 1)
    if not loop.done:
        with unrecorded(), jax.enable_x64(True):
            size.plan = _LevelPilot(levels or levels_on(simulation)).plan()
        loop.advance(1)
    return dataclasses.replace(simulation, paths=sum(size.plan.paths), levels=size.plan)


class _PlanRecord:
    """What a record keeps of a pilot, so that a run that goes on has as many paths."""

    plan = LevelPlan()

    def state(self) -> tuple:
        return dataclasses.astuple(self.plan)

    def restore(self, state: tuple) -> None:
        self.plan = LevelPlan(*state)


def seen_on(levels: AbstractLevels, averages: list[Averages]) -> dict[str, QuantityLevels]:
    """What the moments of the levels show of each figure."""
    jump = levels.derivatives
    return {
        name: QuantityLevels.of(averages, place, order, jump.get(name, False))
        for place, (name, order) in enumerate(levels.orders.items())
    }


class _LevelPilot:
    """The pilot on some levels, with the moments that it has so far."""

    def __init__(self, levels: AbstractLevels):
        self._simulation, self._start = levels.simulation, time.perf_counter()
        self._levels = levels
        self._averages: list[Averages] = []
        self._work = self._paths = 0

    def plan(self) -> LevelPlan:
        """The paths of each level, once enough is known."""
        paths, levels = LEAF, min(FIRST_LEVELS, self._levels.most)
        while True:
            self._run(paths, levels)
            costs = self._levels.costs(self._averages)
            seen = seen_on(self._levels, self._averages)
            wanted = {name: self._wanted(seen[name]) for name in self._simulation.target_names}
            unknown = [fault for name in wanted if (fault := self._unknown(name, seen[name]))]
            found = None if unknown else allocated(seen, wanted, costs)
            again = GROWTH * paths * sum(costs[:levels])
            allowed = MOST_WORK if found is None else PART * found.work
            further = levels < (len(costs) if found is None else len(found.paths))
            if further and paths * costs[levels] <= allowed and not unknown:
                levels += 1
            elif (found is None or found.doubt > KNOWN) and again <= allowed:
                paths *= GROWTH
            else:
                break
        every = [(name, seen[name], wanted[name]) for name in wanted]
        faults = unknown or [fault for each in every if (fault := self._fault(*each))]
        faults = faults or [fault for name in self._levels.derivatives if (fault := _slow(name, seen[name]))]
        if faults or found is None:
            raise InputError(faults[0] if faults else self._too_slow(seen, wanted))
        return self._planned(found, [seen[name] for name in self._levels.derivatives])

    def _planned(self, found: Allocation, derivatives: Sequence[QuantityLevels]) -> LevelPlan:
        count = len(found.paths)
        costs = self._levels.costs(self._averages)[:count]
        paths = balanced(found.paths, derivatives, costs)
        if max(paths) > MAX_PATHS:
            raise InputError(
                f"{PLACE}: takes about {max(paths):.2g} paths of a level, and {MAX_PATHS:,} are the "
                f"most; ask for {math.sqrt(max(paths) / MAX_PATHS):.2g} times the error or more"
            )
        steps, seconds = self._levels.steps(self._averages)[:count], time.perf_counter() - self._start
        return LevelPlan(paths, (*steps,), (*costs,), self._paths, round(self._work), seconds)

    def _run(self, paths: int, levels: int) -> None:
        """Run so many paths on each level, but for levels that have them."""
        if self._averages and _count(self._averages[0]) < paths:
            self._averages = []
        new = [
            LevelPaths.of(self._levels, level, paths, pilot=True)
            for level in range(len(self._averages), levels)
        ]
        compile_levels(new)
        for each in new:
            self._averages.append(each.averages())
            self._work += paths * self._levels.costs(self._averages)[each.level]
            self._paths += paths

    def _wanted(self, seen: QuantityLevels) -> float:
        """The error that is wanted; of a relative one what the mean is at least."""
        target = cast(ErrorTarget, self._simulation.target)
        wanted = cast(float, target.total_error)
        if not target.relative:
            return wanted
        mean, doubt = abs(seen.total), SURE * seen.stderr
        return wanted * max(mean - doubt, CLOSE * mean)

    def _too_slow(self, seen: Mapping[str, QuantityLevels], wanted: Mapping[str, float]) -> str:
        last = self._levels.most - 1
        biases = {name: math.fsum(map(abs, seen[name].bias(last))) for name in wanted}
        name = max(biases, key=lambda name: biases[name] / wanted[name])
        steps = counted(self._levels.steps(self._averages)[last], self._levels.unit)
        bias = f"{biases[name]:.2g}"
        return (
            f"{PLACE}: the step bias of {name} may still be {bias} with {steps}, of a total error of "
            f"{wanted[name]:.2g}; ask for more, or use shorter {self._levels.unit}s or another solver"
        )

    @property
    def _pilot(self) -> str:
        return f"in a pilot of {counted(_count(self._averages[0]), 'path')}"

    def _unknown(self, name: str, seen: QuantityLevels) -> str:
        """Why nothing is known of the error of a quantity; empty where something is."""
        if not np.all(np.isfinite(seen.variance)):
            return f"{PLACE}: {name} has no finite error {self._pilot}; give paths"
        if not seen.variance[0]:
            same = f"{name} is the same on all paths {self._pilot}"
            return f"{PLACE}: {same}, so its error is unknown; give paths"
        return ""

    def _fault(self, name: str, seen: QuantityLevels, wanted: float) -> str:
        """Why levels cannot have the error that is wanted; empty where they can."""
        share = self._averages[0].largest_part([*self._levels.orders].index(name))
        if share > TAIL:
            return (
                f"{PLACE}: one path of {name} makes {100 * share:.0f} % of the variance {self._pilot}, which "
                "may be infinite; give paths, or observe what has lighter tails"
            )
        mean, stderr, target = abs(seen.total), seen.stderr, cast(ErrorTarget, self._simulation.target)
        if target.relative and SURE * stderr > CLOSE * mean:
            return (
                f"{PLACE}: the mean of {name} is too close to 0 for a relative error: {mean:.2g} ± "
                f"{stderr:.2g} {self._pilot}; leave relative out"
            )
        rounding = float(np.finfo(self._simulation.precision).eps) * mean
        if wanted < rounding:
            return f"{PLACE}: {wanted:.2g} is less than the rounding of {name}, {rounding:.2g}; ask for more"
        return _slow(name, seen)


def _slow(name: str, seen: QuantityLevels) -> str:
    """Why levels do not help with a figure; empty where they do."""
    if not seen.beta.surely_below(LEAST_BETA):
        return ""
    return (
        f"{METHOD}: multilevel cannot work here: the variance of {name} falls from level to level "
        f"with the power {seen.beta.rate:.2g} of the step only; leave method out"
    )


def _count(averages: Averages) -> int:
    return int(averages.statistics["n"]) + len(averages.failed)
