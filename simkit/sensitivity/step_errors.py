"""Step errors of the derivatives of a stochastic run, path by path, and whether their variance settles.

The first paths run again by the same program on steps of another length, and as many more as it takes for
the error to be known as well as the derivative, within a tenth of the work. What follows from the values is
what follows for a mean (`step_error`), whose three lengths of step tell the order, and which part of the bias
the extrapolation leaves out: a derivative's expansion in the step is the derivative of the mean's. A third
length would have every derivative traced once more.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from simkit.bias import BIAS_PATHS, MOST_LOST, PART_OF_WORK, Done, orders, step_errors
from simkit.bias_paths import BiasRun
from simkit.chunks import planned_steps
from simkit.sensitivity.choice import Choice
from simkit.sensitivity.moments import Found
from simkit.sensitivity.part import Part, ids_of_level
from simkit.sensitivity.tails import Tail, Verdict, grows, tail_of
from simkit.simulation import Simulation
from simkit.step_error import StepError, step_error


@dataclasses.dataclass(frozen=True)
class Coupled:
    """The values of an estimator on the first paths: of the run, and on steps `factor` times as long.

    `sample` are those of the run, of more paths than `level`, and `largest` is what part of the variance one
    of all paths makes.
    """

    sample: np.ndarray
    largest: float = 0.0
    level: np.ndarray | None = None
    factor: float = 1.0

    @property
    def pairs(self) -> np.ndarray | None:
        """Columns of the run and of the level, where it has them."""
        return None if self.level is None else np.column_stack([self.sample[: len(self.level)], self.level])

    @property
    def tail(self) -> Tail | None:
        """The tail of the values, and of all paths the largest part of the variance."""
        tail = tail_of(self.sample)
        return None if tail is None else dataclasses.replace(tail, largest=max(tail.largest, self.largest))

    @property
    def verdict(self) -> Verdict:
        """Whether the standard error can be believed."""
        tail, pairs = self.tail, self.pairs
        if tail is None or not tail.is_heavy:
            return "settled"
        if pairs is None:
            return "heavy"
        fine, coarse = pairs.T if self.factor > 1 else pairs.T[::-1]
        return "grows" if grows(fine, coarse) else "heavy"


def coupled_values(
    simulation: Simulation, part: Part, programs: Sequence[Callable], found: Found
) -> dict[Choice, Coupled]:
    """The values of each derivative on the first paths.

    On the level as many as it takes for the mean differences to be known as well as the derivatives.
    """
    places = [i for _, i in part.found]
    level = part.level
    if level is None:
        return {choice: Coupled(found.sample[i], found.largest_part(i)) for choice, i in part.found}
    few = min(len(found.sample[0]), BIAS_PATHS)
    affordable = min(int(PART_OF_WORK * simulation.paths * part.cost / level.cost), len(found.sample[0]))
    most, known = max(few, affordable), np.zeros((len(places), 0))
    for batch in range(-(-most // few)):
        arrays = level.run(programs[len(part.requests) :], ids_of_level(simulation, batch))
        values = [np.asarray(arrays[i][-1]).reshape(-1) for _, i in level.found]
        known = np.concatenate([known, np.stack(values)], 1)[:, :most]
        pairs = zip(places, known, strict=True)
        if all(_is_known(found.sample[i], there, found.stderr[i][-1]) for i, there in pairs):
            break
    each = zip(part.found, known, strict=True)
    return {
        choice: Coupled(found.sample[i], found.largest_part(i), there, level.factor)
        for (choice, i), there in each
    }


def _is_known(sample: np.ndarray, level: np.ndarray, stderr: float) -> bool:
    """Whether the mean of the differences has no larger error than that of the run."""
    with np.errstate(invalid="ignore", over="ignore"):
        differences = sample[: len(level)] - level
    finite = differences[np.isfinite(differences)]
    return not len(finite) or bool(np.std(finite) / len(level) ** 0.5 <= stderr)


def errors_of_means(
    simulation: Simulation,
    bias: BiasRun,
    programs: Sequence[Callable],
    means: Mapping[str, tuple[Found, int]],
) -> dict[str, StepError]:
    """The step errors of means, as those of a run, given where each was averaged."""
    by_name = {name: order for name, order in bias.orders.items() if name in means}
    sampled = min(len(found.sample[place]) for found, place in means.values())
    paths, most = min(bias.paths, sampled), min(bias.most, sampled)
    bias = dataclasses.replace(bias, orders=by_name, paths=paths, most=most)
    run = {name: found.sample[place] for name, (found, place) in means.items()}
    moments = {}
    for name, (found, place) in means.items():
        moments |= found.moments_of(name, place)
    done = Done(simulation, run, moments, planned_steps(simulation.grid))
    return step_errors(done, bias, programs)[0].errors


def error_of_derivative(
    simulation: Simulation, quantity: str, coupled: Coupled, mean: StepError | None
) -> StepError | None:
    """The step error of a derivative, given that of its mean; None where there is no other length of step.

    `at least` where the mean has no more to say, or paths have no value there.
    """
    pairs = coupled.pairs
    if pairs is None:
        return None
    if mean is not None and (mean.claim != "estimate" or not math.isfinite(mean.bias)):
        mean = None
    order = orders(simulation)[quantity] if mean is None else mean.order
    error = step_error(pairs, [coupled.factor], order)
    lost = np.isfinite(pairs[:, 0]) & ~np.isfinite(pairs[:, 1])
    if error is None or np.mean(lost) > MOST_LOST:
        return StepError(math.nan, math.nan, math.nan, "at least", order)
    if mean is None:
        finite = pairs[np.isfinite(pairs).all(1)]
        return dataclasses.replace(error, bias=float(np.mean(finite[:, 1] - finite[:, 0])), claim="at least")
    left_out = math.sqrt(max(mean.stderr**2 - mean.noise**2, 0.0))
    part = min(left_out / abs(mean.bias), 1.0) if mean.bias else 0.0
    return dataclasses.replace(error, stderr=math.hypot(error.noise, part * error.bias))
