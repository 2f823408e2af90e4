"""Step errors of the derivatives of a stochastic run, and of the means beside them, path by path.

The first paths run again by the same program on steps of another length (`step_levels`), and as many more as
it takes for the error to be known as well as the derivative, within a tenth of the work. What follows from
the values is what it is for means (`step_error`). A derivative is compared at two lengths of step, which has
it traced once more; the mean at three. The order is that of the mean, and so is what the extrapolation leaves out, as
a fraction of the error: a derivative's expansion in the step is the derivative of the mean's.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from simkit.bias import BIAS_PATHS
from simkit.sensitivity.choice import Choice
from simkit.sensitivity.moments import Found
from simkit.sensitivity.part import Part, ids_of_level
from simkit.simulation import Simulation
from simkit.step_error import StepError, step_error

PART_OF_WORK = 0.1
MOST_LOST = 0.01  # of the paths without a finite value on other steps


def values_on_levels(
    simulation: Simulation, part: Part, programs: Sequence[Callable], found: Found
) -> dict[int, np.ndarray]:
    """The values of the first paths of the run and on its levels, `(paths, 1 + levels)`, by position.

    As many as it takes for the mean differences to be known as well as the means.
    """
    if not part.levels:
        return {}
    cost = sum(1 / level.factor for level in part.levels)
    few = min(simulation.paths, BIAS_PATHS)
    most = max(few, min(int(PART_OF_WORK * simulation.paths / cost), len(found.sample[0])))
    places = sorted({i for _, i in (*part.found, *part.values)})
    known: list[list[np.ndarray]] = []
    columns: dict[int, np.ndarray] = {}
    for batch in range(-(-most // few)):
        ids = ids_of_level(simulation, batch)
        known.append([])
        for level, own in part.programs_of_levels(programs):
            arrays = level.run(own, ids)
            known[-1].append(np.stack([np.asarray(arrays[i][-1]).reshape(-1) for i in places]))
        levels = np.concatenate([np.stack(each, 2) for each in known], 1)[:, :most]
        paths = levels.shape[1]
        columns = {
            i: np.column_stack([found.sample[i][:paths], levels[n]]) for n, i in enumerate(places)
        }
        if all(_is_known(columns[i], found.stderr[i][-1]) for i in places):
            break
    return columns


def _is_known(columns: np.ndarray, stderr: float) -> bool:
    """Whether the differences between the run and its levels have no larger error than the run."""
    with np.errstate(invalid="ignore", over="ignore"):
        differences = columns[:, 1:] - columns[:, :1]
        errors = np.nanstd(differences, axis=0) / len(columns) ** 0.5
    return bool(np.all(errors <= stderr))




def derivative_error(
    columns: np.ndarray, factors: Sequence[float], order: float, of_mean: StepError | None
) -> StepError | None:
    """The step error of a derivative, given that of its mean; None where too many paths have no value."""
    if np.mean(np.isfinite(columns).all(1)) < 1 - MOST_LOST:
        return None
    if of_mean is None:
        return step_error(columns, factors, order)
    error = step_error(columns, factors, of_mean.order)
    if error is None:
        return None
    left_out = np.sqrt(max(of_mean.stderr**2 - of_mean.noise**2, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction = np.nan_to_num(np.minimum(left_out / abs(of_mean.bias), 1.0))
    stderr = float(np.hypot(error.noise, fraction * error.bias))
    return dataclasses.replace(error, stderr=stderr, claim=of_mean.claim)
