"""Step errors of the derivatives of a stochastic run, path by path, and the tails of their estimators.

The first paths run again by the same program on steps of another length, and as many more as it takes for
the error to be known as well as the derivative, within a tenth of the work. What follows from the values is
what follows for a mean (`step_error`). Three lengths of step it has to be: where the mean has an order, its
derivative may have none. Where longer steps say little, shorter ones are compared. Leaps are compared on
coupled paths of their own (`leaps`).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from simkit.derivatives.chunks import affordable_paths, workers_of_levels
from simkit.derivatives.estimator import Part, Selection
from simkit.derivatives.moments import Averages
from simkit.derivatives.tails import Tail, tail_of
from simkit.ensemble.chunks import Chunk, leaf_by_leaf, planned_steps
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.programs import compiled
from simkit.ensemble.replicates import PLAIN
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.bias_paths import BiasRun, Ends
from simkit.ensemble.step_bias.coupled_steps import (
    BIAS_PATHS,
    FinishedRun,
    changed_paths,
    orders,
    rounding_of_normals,
    step_error_of_paths,
    step_errors,
)
from simkit.ensemble.step_bias.resolution import OF_VALUE
from simkit.ensemble.step_bias.rounding import rounding_of_steps
from simkit.ensemble.step_bias.step_error import StepError


@dataclasses.dataclass(frozen=True)
class LevelValues:
    """The values of an estimator on the first paths: of the run, and on steps `factors` times as long.

    `sample` are those of the run, of more paths than `levels`, `(levels, paths)`, and `largest` is what part
    of the variance one of all paths makes. Paths that are not the run's, of leaps or of exact steps, are
    compared with `own`: their values with the steps or leaps of the run.
    `shorter` are values on shorter steps, where these say little of the step error.
    """

    sample: np.ndarray
    largest: float = 0.0
    levels: np.ndarray | None = None
    factors: tuple[float, ...] = ()
    own: np.ndarray | None = None
    shorter: "LevelValues | None" = None

    @property
    def values(self) -> np.ndarray:
        """The values of the same paths, `(paths, 1 + levels)`."""
        if self.levels is None:
            return np.zeros((0, 1))
        own = self.sample[: self.levels.shape[1]] if self.own is None else self.own
        return np.column_stack([own, *self.levels])

    @property
    def tail(self) -> Tail | None:
        """The tail of the values, which says whether the standard error can be believed."""
        if self.levels is None or self.own is not None:
            return tail_of(self.sample, largest=self.largest)
        return tail_of(self.sample, self.levels[0], self.factors[0], self.largest)

    def is_known(self, stderr: float) -> bool:
        """Whether the mean difference to the nearest level has no larger error than the derivative."""
        with np.errstate(invalid="ignore", over="ignore"):
            differences = self.values[:, 0] - self.values[:, 1]
        finite = differences[np.isfinite(differences)]
        return not len(finite) or bool(np.std(finite) / len(differences) ** 0.5 <= stderr)


@dataclasses.dataclass(frozen=True)
class LastRows:
    """Gives the last rows of the arrays that paths have, and simulates the same paths once."""

    simulate: Callable
    results: dict[int, list[np.ndarray]] = dataclasses.field(default_factory=dict)

    def __call__(self, ids) -> list[np.ndarray]:
        first = int(np.asarray(ids)[0, 0])
        if first not in self.results:
            self.results[first] = [np.asarray(x)[-1:].copy() for x in self.simulate(ids)]
        return self.results[first]


def has_means(part: Part) -> bool:
    """Whether the levels of a part give means too, of which the step bias is then known."""
    return bool(part.values and part.levels)


def bias_of_part(simulation: Simulation, part: Part) -> BiasRun:
    """The step bias of the means of a part, by the programs of its levels."""

    def ends(arrays) -> Ends:
        return {name: np.asarray(arrays[i], np.float64).reshape(1, -1) for name, i in part.values}

    cost = sum(level.cost for level in part.levels) / part.cost
    paths, most = min(simulation.paths, BIAS_PATHS), affordable_paths(simulation.paths, cost)
    requests = tuple(level.requests[0] for level in part.levels)
    factors = tuple(level.factor for level in part.levels if level.factor != 1)
    workers = workers_of_levels(simulation)
    return BiasRun(factors, requests, ends, orders(simulation), paths, most, most, workers)


def values_on_levels(
    simulation: Simulation, part: Part, levels: Sequence[Callable], result: Averages
) -> tuple[dict[Selection, LevelValues], float]:
    """The values of each derivative on the first paths, and the seconds that it took to compile for them.

    `levels` give the arrays of paths on those of the part. Where longer steps or leaps say little, shorter
    ones are simulated too, as for means.
    """
    known = _values_on_levels(simulation, part, levels, result)
    without = [
        choice
        for choice, i in part.derivatives
        if _says_little(error_of_derivative(simulation, choice.quantity, known[choice]), result, i)
    ]
    shorter = _shorter(part) if without else None
    if shorter is None:
        return known, 0.0
    _, seconds = compiled(*shorter.all_requests[len(part.requests) :])
    again = _values_on_levels(simulation, shorter, [level.ready() for level in shorter.levels], result)
    return known | {c: dataclasses.replace(known[c], shorter=again[c]) for c in without}, seconds


def _shorter(part: Part) -> Part | None:
    """The part with shorter steps or leaps to compare with; None where there are none."""
    if part.leaps is not None:
        return dataclasses.replace(part, leaps=part.leaps.shorter)
    levels = part.shorter_levels() if part.levels else ()
    return dataclasses.replace(part, levels=levels) if levels else None


def _says_little(error: StepError | None, result: Averages, place: int) -> bool:
    size, stderr = abs(result.mean[place][-1]), np.nan_to_num(result.stderr[place][-1])
    return error is not None and error.says_little(max(OF_VALUE * size, stderr))


def _values_on_levels(
    simulation: Simulation, part: Part, levels: Sequence[Callable], result: Averages
) -> dict[Selection, LevelValues]:
    """The values on the levels.

    Of as many paths as it takes for the mean differences to be known as well as the derivatives.
    """
    values = {c: LevelValues(result.sample[i], result.largest_part(i)) for c, i in part.derivatives}
    if part.leaps is not None:
        for choice, (own, *others) in zip(values, part.leaps.values(), strict=True):
            values[choice] = dataclasses.replace(
                values[choice], levels=np.stack(others), factors=part.leaps.factors, own=own
            )
    if part.leaps is not None or not part.levels:
        return values
    factors = tuple(level.factor for level in part.levels)
    few, cost = min(len(result.sample[0]), BIAS_PATHS), sum(level.cost for level in part.levels)
    most = min(affordable_paths(simulation.paths, cost / part.cost), len(result.sample[0]))
    known = np.zeros((len(values), len(factors), 0))
    runs = list(zip(part.levels, levels, strict=True))
    leaves, workers = leaf_by_leaf(simulation.paths), workers_of_levels(simulation)

    def work(run: tuple[Part, Callable], chunk: Chunk) -> np.ndarray:
        level, simulate = run
        arrays = simulate(chunk.ids)
        return np.stack([np.asarray(arrays[i][-1]).reshape(-1) for _, i in level.derivatives])

    for batch in range(0, most, few):
        plan = dataclasses.replace(leaves, total=min(few, most - batch), first=batch)
        known = np.concatenate([known, np.stack(concatenated(work, runs, plan, workers), 1)], 2)
        for choice, there in zip(values, known, strict=True):
            own, others = (there[0], there[1:]) if factors[0] == 1 else (None, there)
            values[choice] = dataclasses.replace(
                values[choice], levels=others, factors=factors[-len(others) :], own=own
            )
        if all(values[choice].is_known(result.stderr[i][-1]) for choice, i in part.derivatives):
            break
    return values


def errors_of_means(
    simulation: Simulation,
    bias: BiasRun,
    levels: Sequence[Callable],
    means: Mapping[str, tuple[Averages, int]],
) -> dict[str, StepError]:
    """The step errors of means, as those of a run, given where each was averaged."""
    by_name = {name: order for name, order in bias.orders.items() if name in means}
    sampled = min(len(result.sample[place]) for result, place in means.values())
    paths, most = min(bias.paths, sampled), min(bias.most, sampled)
    bias = dataclasses.replace(bias, orders=by_name, paths=paths, most=most)
    run = {name: result.sample[place] for name, (result, place) in means.items()}
    moments = {}
    for name, (result, place) in means.items():
        moments |= result.moments_of(name, place)
    finished = FinishedRun(simulation, run, moments, planned_steps(simulation.grid))
    return step_errors(finished, bias, levels)[0].errors


def error_of_derivative(simulation: Simulation, quantity: str, derivative: LevelValues) -> StepError | None:
    """The step error of a derivative, as that of a mean; None without one, or another length of step.

    Without an estimate it is unknown where too many paths have no value on another length.
    """
    if derivative.shorter is not None:
        return error_of_derivative(simulation, quantity, derivative.shorter)
    order = None if derivative.levels is None else orders(simulation).get(quantity)
    if order is None:
        return None
    values = derivative.values
    run = values[np.isfinite(values[:, 0]), 0]
    spread = float(run.std()) if len(run) else 0.0
    size = math.hypot(run.mean(), spread) if len(run) else 0.0
    rounding = float(rounding_of_steps(size, simulation, planned_steps(simulation.grid)))
    rounding = max(rounding, rounding_of_normals(simulation) * spread)
    if simulation.stepping.whole and not changed_paths(values, derivative.factors):
        rounding = max(rounding, float(np.abs(derivative.sample).max()) / len(values))
    unsure = simulation.stepping.unsure_order
    reduction = simulation.reduction or PLAIN
    error, _ = step_error_of_paths(values, derivative.factors, order, rounding, 0.0, unsure, reduction)
    return StepError(math.nan, math.nan, math.nan, "at least", order) if error is None else error
