"""The parts of a study run one after the other, and the derivatives and means that they have given so far."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from simkit.derivatives.chunks import affordable_paths, chunks_of
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimates import EstimatedDerivative
from simkit.derivatives.estimator import Errors, Part, Selection
from simkit.derivatives.estimators import DIFFERENCES
from simkit.derivatives.moments import Averages, MomentsReduction, average, by_path, pooled
from simkit.derivatives.parts import parts_of, requests_of
from simkit.derivatives.step_errors import (
    LastRows,
    LevelValues,
    bias_of_part,
    errors_of_means,
    has_means,
    values_on_levels,
)
from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.failures import failed_paths
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.programs import compiled
from simkit.ensemble.replicates import PLAIN
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.bias_paths import BiasRun
from simkit.ensemble.step_bias.step_error import StepError
from simkit.ensemble.work import workers_of
from simkit.errors import NumericalError
from simkit.progress import counted

Progress = Callable[[int, int], None]

BOTH = 2.0  # the work of a path as it was, and once more with other steps


@dataclasses.dataclass
class Collected:
    """Derivatives and means from the `parts` of a study, which may add others as they run.

    `others` are the run with policies of their own. With `reselect`, a derivative whose
    weight is not finite is estimated by differences instead: `replaced` says which. `biases` are the step
    biases of means, and `unbiased` the means that have none yet.
    """

    differentiated: DifferentiatedRun
    others: list[DifferentiatedRun]
    parts: list[Part]
    reselect: bool
    progress: Progress | None
    biases: dict[str, StepError]
    derivatives: dict[Selection, EstimatedDerivative] = dataclasses.field(default_factory=dict)
    means: dict[str, tuple[Averages, int]] = dataclasses.field(default_factory=dict)
    unbiased: dict[str, tuple[Averages, int]] = dataclasses.field(default_factory=dict)
    level_values: dict[Selection, LevelValues] = dataclasses.field(default_factory=dict)
    replaced: dict[Selection, Selection] = dataclasses.field(default_factory=dict)
    failed: set[int] = dataclasses.field(default_factory=set)
    compile_s: float = 0.0

    def run(self, bias: BiasRun | None) -> None:
        """Run all parts, and the step bias of means that none of them gives."""
        done, work, waiting = 0.0, sum(part.cost for part in self.parts), list(self.parts)
        while waiting:
            part = waiting.pop(0)
            weight = part.cost / work
            paths = self.differentiated.simulation.paths
            more = self._run(part, _portion(self.progress, paths, done, weight))
            done, work, waiting = done + weight, work + sum(each.cost for each in more), waiting + more
        if bias is not None and self.unbiased:
            simulation, levels = self.differentiated.simulation, bias.ready()
            self.biases |= errors_of_means(simulation, bias, levels, self.unbiased)

    def _run(self, part: Part, progress: Callable[[int], None] | None) -> list[Part]:
        """Run a part, and return those that it adds."""
        simulation = self.differentiated.simulation
        part_result = _run(simulation, part, progress)
        result, errors = part_result.averages, part_result.errors
        self.compile_s += part_result.compile_s
        if len(result.failed) and self.reselect and _is_weighted(part):
            why, _ = _why_no_weight(simulation)
            again = {c: Selection(c.quantity, c.targets, DIFFERENCES, why) for c, _ in part.derivatives}
            self.replaced |= again
            names = [name for name, _ in part.values]
            return parts_of(self.differentiated, list(again.values()), names, self.others)
        if len(result.failed) and simulation.failures == "stop":
            raise _failure(simulation, part, result)
        if len(result.failed) == simulation.paths:
            raise NumericalError(
                f"of {counted(simulation.paths, 'path')} none has finite values and derivatives: there is "
                "nothing to average; `failures: stop` says why"
            )
        self.failed |= {int(x) for x in result.failed}
        self.level_values |= part_result.level_values
        new = {name: (result, place) for name, place in part.values if name not in self.means}
        self.means |= new
        if new and has_means(part):
            bias = bias_of_part(simulation, part)
            self.biases |= errors_of_means(simulation, bias, part_result.levels, new)
        else:
            self.unbiased |= new
        for choice, place in part.derivatives:
            figures = result.mean[place], result.stderr[place], result.sd[place]
            self.derivatives[choice] = EstimatedDerivative(choice, *figures, errors.get(choice))
        shorter = part.again(result, errors)
        return [] if shorter is None else [shorter]


class PartResult(NamedTuple):
    """What a part of a study gives, and what simulates paths on its `levels`."""

    averages: Averages
    errors: Errors
    level_values: dict[Selection, LevelValues]
    levels: Sequence[Callable]
    compile_s: float


def _run(simulation: Simulation, part: Part, progress: Callable[[int], None] | None) -> PartResult:
    """Compile the programs of a part, and run it over all paths."""
    plan = chunks_of(simulation)
    programs, seconds = compiled(*requests_of(simulation, part))
    scramblings = (simulation.reduction or PLAIN).scramblings
    reduction = MomentsReduction(part.counts, scramblings).compiled(programs[len(part.all_requests) :])
    result = _averages(simulation, part, reduction, progress)
    errors = part.step_errors(result, functools.partial(_of_first_paths, simulation, plan))
    levels = [LastRows(level.ready()) for level in part.levels]
    pairs, more = values_on_levels(simulation, part, levels, result)
    return PartResult(result, errors, pairs, levels, seconds + more)


def _of_first_paths(
    simulation: Simulation, plan: Chunks, run: Callable[[np.ndarray], Sequence]
) -> list[np.ndarray]:
    """The arrays `(rows, paths)` of the first paths, as many for any chunks, as a part of the work allows."""
    few = dataclasses.replace(plan, total=affordable_paths(simulation.paths, BOTH))

    def work(run: Callable, chunk: Chunk) -> list[np.ndarray]:
        return by_path(run(chunk.ids))

    return concatenated(work, [run], few, workers_of(simulation))[0]


def _averages(
    simulation: Simulation,
    part: Part,
    reduction: MomentsReduction,
    progress: Callable[[int], None] | None,
) -> Averages:
    """The averages of all paths, in equal portions where each has a policy of its own."""
    plan, workers, paths = chunks_of(simulation), workers_of(simulation), simulation.paths
    policies = (part, *part.replicates)
    ends = [paths * i // len(policies) for i in range(len(policies) + 1)]
    counts = np.diff(ends).tolist()
    result = []
    for policy, first, count in zip(policies, ends[:-1], counts, strict=True):

        def progressed(done, _, first=first):
            if progress is not None:
                progress(first + done)

        portion = dataclasses.replace(plan, first=first, total=count)
        result.append(average(policy.ready(), reduction, portion, workers, progressed))
    return pooled(result, counts) if part.replicates else result[0]


def _is_weighted(part: Part) -> bool:
    """Whether it weighs values with a derivative of a density, which is infinite where there is no noise."""
    return any(choice.estimator.weighted for choice, _ in part.derivatives)


def _portion(
    progress: Progress | None, paths: int, done: float, weight: float
) -> Callable[[int], None] | None:
    if progress is None:
        return None
    return lambda count: progress(min(paths, round(paths * (done + weight * count / paths))), paths)


def _why_no_weight(simulation: Simulation) -> tuple[str, str]:
    """Why a weight is not finite on some paths: as the reason for another estimator, and as an error."""
    if simulation.stepping.whole:
        return (
            "some paths are impossible at other values, so there is no score",
            "there is no score: a rate of zero changes, or an event does, and the path is "
            "impossible at other values. Set sensitivity.method: finite_differences",
        )
    return (
        "the noise vanishes on some paths, where the weight is infinite",
        "the weight is not finite: the noise vanishes where the path is observed, and "
        "there is no density to differentiate. Set sensitivity.method: finite_differences, or "
        "`ensemble: {failures: exclude}`",
    )


def _failure(simulation: Simulation, part: Part, result: Averages) -> Exception:
    """Why a path has no derivative: its values are not finite, or its derivative is not."""
    paths = ", ".join(str(x) for x in result.failed[:3])
    if _is_weighted(part):
        return NumericalError(f"path {paths}: {_why_no_weight(simulation)[1]}")
    error = failed_paths(simulation, result.failed)
    if "not finite" in str(error).split(".")[0]:
        return NumericalError(
            f"path {paths}: the values are finite and a derivative is not. Set sensitivity.method: "
            "finite_differences, or `ensemble: {failures: exclude}`"
        )
    return error
