"""The errors of derivatives other than standard errors, in a dataset: those of steps and of heavy tails."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from simkit.derivatives.estimates import EstimatedDerivative, EstimatedSensitivities
from simkit.derivatives.tails import FLAGS
from simkit.ensemble.chunks import planned_steps
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.resolution import Resolution
from simkit.ensemble.step_bias.rounding import rounding_error
from simkit.results.dataset_errors import resolution_of
from simkit.results.variables import Variables, variable

ERRORS = {  # at the end, by the suffix of a variable
    "bias": "step bias of the {what} at the end",
    "bias_stderr": "standard error of {prefix}_bias",
    "bias_bound": "least size of the step bias of the {what} at the end, which has no estimate",
    "tail_index": "tail index of the estimator of the {what}; below 2 its variance is infinite",
    "largest_part": "largest fraction of the variance of the {what} due to one path",
}


def error_variables(
    name: str, kind: str, dims: tuple[str, ...], derivatives: Sequence[EstimatedDerivative]
) -> Variables:
    """The step errors of the derivatives of a quantity, and what their tails say of the standard errors.

    `dims` are their dimensions. Step errors that are known only at the end are NaN before it.
    """
    prefix, what = f"{name}_{kind}", f"{kind} of the mean of {name}"
    variables: Variables = {}
    sizes = [_step_error(each) for each in derivatives]
    if any(size is not None for size in sizes):
        known = [
            np.full_like(d.mean, np.nan) if x is None else x for d, x in zip(derivatives, sizes, strict=True)
        ]
        end = ", known at the end alone" if any(each.steps is not None for each in derivatives) else ""
        values = np.stack(known) if len(dims) > 1 else np.stack(known)[:, 0]
        long_name = f"error that steps leave in the {what}{end}"
        variables[f"{prefix}_step_error"] = variable(dims, values, None, long_name)
    errors = [_errors(each) for each in derivatives]
    for suffix, text in ERRORS.items():
        values = np.array([each.get(suffix, np.nan) for each in errors])
        if not np.all(np.isnan(values)):
            long_name = text.format(what=what, prefix=prefix)
            variables[f"{prefix}_{suffix}"] = variable(dims[:1], values, None, long_name)
    variables[f"{prefix}_flag"] = (dims[:1], [FLAGS[each.verdict] for each in derivatives])
    return variables


def resolutions(
    simulation: Simulation, study: EstimatedSensitivities, label: Callable[[EstimatedDerivative], str]
) -> dict[str, Resolution]:
    """Whether steps are short enough, of means by name and of derivatives as in `call by sigma`.

    A derivative has no size but its own, and rounding of the mean is a floor of its error. One that a few
    paths make is no result in any case, and one whose step error no other run shows is unresolved.
    """
    result, steps = {}, planned_steps(simulation.grid)
    for name, (means, stderrs) in study.values.items():
        size, stderr = abs(float(means[-1])), float(np.nan_to_num(stderrs[-1]))
        spread = stderr * study.paths**0.5
        result[name] = resolution_of(study.bias.get(name), simulation, size, spread, stderr, False)
    for each in study.derivatives:
        if each.verdict == "grows":
            continue
        size, stderr = abs(float(each.mean[-1])), float(np.nan_to_num(each.stderr[-1]))
        rounding = float(rounding_error(study.values[each.choice.quantity][0][-1], simulation, steps))
        floor = rounding / math.prod(study.targets[i].scale for i in each.choice.targets)
        judged = resolution_of(each.steps, simulation, size, 0.0, max(stderr, floor), True)
        if each.is_uncompared and judged.kind == "resolved":
            judged = Resolution("unresolved")
        result[f"{each.choice.quantity} by {label(each)}"] = judged
    return result


def _step_error(derivative: EstimatedDerivative) -> np.ndarray | None:
    """The size of the step error at each row: the method's, and at the end that of the time steps too."""
    own, steps = derivative.step_error, derivative.steps
    if steps is None:
        return own
    size = np.full_like(derivative.mean, np.nan)
    method = 0.0 if own is None else own[-1]
    size[-1] = abs(steps.bias) + method if steps.claim == "estimate" else np.nan
    return size


def _errors(derivative: EstimatedDerivative) -> dict[str, float]:
    """The errors at the end that are known, by suffix."""
    errors, steps, tail = {}, derivative.steps, derivative.tail
    if steps is not None and steps.claim == "estimate":
        errors |= {"bias": steps.bias, "bias_stderr": steps.stderr}
    elif steps is not None:
        errors |= {"bias_bound": abs(steps.bias)}
    if tail is not None:
        index = {"tail_index": tail.index} if np.isfinite(tail.index) else {}
        errors |= {"largest_part": tail.largest, **index}
    return errors
