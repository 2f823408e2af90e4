"""A study: a given number of points, or points until the intervals are narrow enough."""

import dataclasses
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from simkit.errors import InputError
from simkit.studies.designs import Design
from simkit.studies.method import AbstractMethod, DesignRows
from simkit.studies.methods import NEVER_CHANGES
from simkit.studies.values import Values

Evaluate = Callable[[Design, np.ndarray, int], dict[str, Values]]
Stopped = Literal["points", "width", "budget"]
BUDGET = 2**24


@dataclasses.dataclass(frozen=True)
class StudyPlan:
    """How many runs: `points` rows in each of `replicates`, doubled until intervals are below `width`.

    A width is that of the whole interval, of fractions and correlations as it is, of mu_star in units of the
    largest one, of a mean in standard deviations of the output. No more than `budget` runs are made.
    """

    points: int
    replicates: int
    seed: int = 0
    confidence: float = 0.95
    width: float | None = None
    budget: int = BUDGET


class IntervalEstimate(NamedTuple):
    """A measure of one observable: its dimensions, the estimate and half of its interval."""

    dims: tuple[str, ...]
    value: np.ndarray
    half: np.ndarray


@dataclasses.dataclass(frozen=True)
class Study:
    """What came of a study: estimates by observable and name, notes by observable, one for each group.

    `samples` are the values of the first paths of all runs, by observable, where the method keeps them, and
    `waiting` by first time how many paths of all runs had not met the condition before the end.
    """

    estimates: dict[str, dict[str, IntervalEstimate]]
    notes: dict[str, list[str]]
    points: int
    runs: int
    widest: float
    stopped: Stopped
    samples: dict[str, np.ndarray]
    waiting: dict[str, int]


def check_budget(method: AbstractMethod, plan: StudyPlan, paths: int = 1, key: str = "budget") -> None:
    """Raise `InputError` where a study that goes on to a `width` begins with more runs than its budget."""
    members = method.design.members
    first = plan.points * plan.replicates * members * paths
    if plan.width is not None and first > plan.budget:
        each = f"{members} runs" + (f" of {paths} paths" if paths > 1 else "")
        raise InputError(
            f"{key}: must be at least the number of initial runs, {first:,} ({plan.replicates} replicates × "
            f"{plan.points:,} points × {each}), got {plan.budget:,}"
        )


def run_study(method: AbstractMethod, plan: StudyPlan, evaluate: Evaluate, paths: int = 1) -> Study:
    """Run a study. `evaluate` gives the values of a design's rows; `paths` is how many each run has.

    Points are added to the same scramblings, so that no run is made twice.
    """
    inputs: DesignRows | None = None
    values: dict[str, Values] = {}
    points, have = plan.points, 0
    per_point = plan.replicates * method.design.members * paths
    while True:
        more = method.inputs(have, points - have, plan.seed, plan.replicates)
        new = evaluate(method.design, more.base, have)
        values = {name: values[name].and_more(x) if have else x for name, x in new.items()}
        inputs = more if inputs is None else inputs.and_more(more)
        estimates, notes, widest = {}, {}, 0.0
        for name, each in values.items():
            estimates[name], notes[name], own = _estimated(method, plan, each, inputs)
            widest = max(widest, own)
        stopped = _stopped(plan, widest, 2 * points * per_point)
        if stopped is not None:
            samples = {name: x.each for name, x in values.items() if x.each is not None}
            waiting = {name: int(x.waiting.sum()) for name, x in values.items() if x.waiting is not None}
            return Study(estimates, notes, points, points * per_point, widest, stopped, samples, waiting)
        points, have = 2 * points, points


def _stopped(plan: StudyPlan, widest: float, next_runs: int) -> Stopped | None:
    if plan.width is None:
        return "points"
    if widest <= plan.width:
        return "width"
    return "budget" if next_runs > plan.budget else None


def _estimated(
    method: AbstractMethod, plan: StudyPlan, values: Values, inputs: DesignRows
) -> tuple[dict[str, IntervalEstimate], list[str], float]:
    """Estimates, notes and the widest interval among the headline measures."""
    if np.ptp(values.mean) == 0 and (values.noise is None or not np.any(values.noise)):
        return _constant(method, values, inputs)
    measures, notes = method.measured(values, inputs)
    result = {
        name: IntervalEstimate(dims, *measure.interval(plan.confidence))
        for name, (dims, measure) in measures.items()
    }
    numbers = {name: estimate.value for name, estimate in result.items()}
    widths = [2 * np.max(result[name].half) / method.scale(name, numbers) for name in method.headline]
    return result, notes, float(max(widths))


def _constant(
    method: AbstractMethod, values: Values, inputs: DesignRows
) -> tuple[dict[str, IntervalEstimate], list[str], float]:
    """Exact zeros for an observable that is the same in all runs, but for its mean and quantiles."""
    value = float(values.mean.flat[0])
    with np.errstate(all="ignore"):
        measures, _ = method.measured(values, inputs)
    result = {}
    for name, (dims, measure) in measures.items():
        shape = measure.values.shape[1:]
        known = value if name in ("mean", "quantiles") else 0.0
        result[name] = IntervalEstimate(dims, np.full(shape, known), np.zeros(shape))
    return result, [NEVER_CHANGES] * len(method.groups), 0.0
