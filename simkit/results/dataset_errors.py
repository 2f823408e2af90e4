"""What a dataset says of the errors of means: step bias, exact values and z, limits of rare things."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from simkit_solvers.problems.problem import AbstractSDE

from simkit.ensemble.could_differ import could_differ, is_random, range_of
from simkit.ensemble.simulation import EnsembleResult, Simulation, StepCounts
from simkit.ensemble.step_bias.resolution import Resolution, resolution
from simkit.ensemble.step_bias.rounding import rounding_error
from simkit.ensemble.step_bias.step_error import StepError
from simkit.ensemble.step_bias.step_levels import STOCHASTIC_POWER

RULE_OF_THREE = 3.0  # of n paths none: fewer than 3/n of all, with 95 % confidence
WITHOUT_SPREAD = (
    5.0  # roundings: so far from an exact value a mean without any other error is off, not unlucky
)

Variables = dict[str, tuple]


def labels(units: str, long_name: str) -> dict[str, str]:
    """What a variable says of itself."""
    return {"units": units, "long_name": long_name}


def squared(unit: str) -> str:
    """The unit of a variance."""
    return f"({unit})^2" if unit else ""


def standard_errors(name: str, simulation: Simulation, result: EnsembleResult) -> np.ndarray:
    """The standard error of the mean at each row, no less than its rounding. Counts of events have none."""
    moments = result.statistics["moments"]
    errors = moments[f"{name}_stderr"]
    if simulation.grid.has_events:
        return errors
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(np.nan_to_num(moments[f"{name}_variance"]))
        size = np.hypot(moments[f"{name}_mean"], spread)
        rows = len(result.times)
        parts = np.linspace(0.0, 1.0, rows)[-len(errors) :] if rows > 1 else np.ones(1)
        return np.maximum(errors, rounding_error(size, simulation, steps_of(result) * parts, spread))


def step_bias(
    name: str, unit: str, description: str, simulation: Simulation, result: EnsembleResult
) -> Variables:
    """The step bias of mean and variance with its error, or where there is no estimate the bound seen."""
    found = bias_variables(f"{name}_bias", unit, f"mean of {description}", result.bias.get(name))
    if found:
        found[f"{name}_bias_order"] = _order(name, result.bias[name])
    variance = result.variance_bias.get(name)
    moment = f"variance of {description}"
    return found | bias_variables(f"{name}_variance_bias", squared(unit), moment, variance)


def bias_variables(key: str, unit: str, moment: str, error: StepError | None) -> Variables:
    """A step error of a moment, with its error, or the bound seen."""
    if error is None:
        return {}
    what, estimated = f"step bias of the {moment} at the end", error.claim == "estimate"
    found: Variables = {
        key: ((), error.bias if estimated else np.nan, labels(unit, what)),
        f"{key}_stderr": (
            (),
            error.stderr if estimated else np.nan,
            labels(unit, f"standard error of {key}"),
        ),
    }
    if not estimated:
        least = labels(unit, f"least size of the {what}, which has no estimate")
        found[f"{key}_bound"] = ((), abs(error.bias), least)
    return found


def _order(name: str, error: StepError) -> tuple:
    what = f"order of the steps by which {name}_bias is extrapolated"
    return (), error.order if error.claim == "estimate" else np.nan, labels("1", what)


def against_exact(
    name: str,
    unit: str,
    description: str,
    at: tuple,
    simulation: Simulation,
    result: EnsembleResult,
    exact: Mapping[str, Mapping[str, np.ndarray]],
) -> Variables:
    """The exact value, and the distance between estimate and exact value in standard errors.

    There is none where the step bias has no estimate, nor where rounding is the only error and cannot
    account for it: the mean is simply off.
    """
    found: Variables = {}
    if name in exact:
        known = exact[name]
        if "variance" in known:
            what = labels(squared(unit), f"exact variance of {description}")
            found[f"{name}_exact_variance"] = (at, known["variance"], what)
        value = known.get("mean")
    else:
        info = simulation.observables.get(name)
        value, at = (None if info is None or info.exact is None else np.float64(info.exact)), ()
    if value is None:
        return found
    found[f"{name}_exact"] = (at, value, labels(unit, f"exact mean of {description}"))
    z = _z(name, float(np.atleast_1d(value)[-1]), simulation, result)
    what = f"(mean - bias - exact) / standard error of {name} at the end"
    found[f"{name}_z"] = ((), z, labels("1", what))
    return found


def _z(name: str, exact: float, simulation: Simulation, result: EnsembleResult) -> float:
    if _one_value(name, simulation, result) is not None:
        return np.nan  # paths that would differ have not been seen, and the standard error is unknown
    moments = result.statistics["moments"]
    off, error = moments[f"{name}_mean"][-1] - exact, standard_errors(name, simulation, result)[-1]
    size = max(abs(exact), abs(moments[f"{name}_mean"][-1]))
    spread = np.sqrt(np.nan_to_num(moments[f"{name}_variance"][-1]))
    rounding = float(rounding_error(size, simulation, steps_of(result), spread))
    return z_of(off, error, result.bias.get(name), rounding)


def z_of(off: float, error: float, bias: StepError | None, rounding: float) -> float:
    """How many standard errors a figure is off, less its step bias; NaN where these errors cannot say."""
    if bias is not None and bias.claim == "at least":
        return np.nan
    if bias is not None:
        off, error = off - bias.bias, np.hypot(error, bias.stderr)
    if np.isnan(error) or error == 0 or (error <= 2 * rounding and abs(off) > WITHOUT_SPREAD * error):
        return np.nan
    return float(off / error)


def limits(
    name: str, unit: str, description: str, simulation: Simulation, result: EnsembleResult
) -> Variables:
    """Limits of a mean, of 95 % confidence, where all paths have one value though they could have others.

    By the rule of three no more than 3/n of all paths have another. How far that moves the mean follows from
    what the expression can be; where that is not bounded there is no limit (NaN).
    """
    value = _one_value(name, simulation, result)
    if value is None:
        return {}
    low, high = range_of(name, simulation)
    part = min(RULE_OF_THREE / int(result.statistics["moments"]["n"]), 1.0)
    found: Variables = {}
    for key, end in (("lower", low), ("upper", high)):
        limit = value + part * (end - value) if end != value else value
        what = labels(unit, f"{key} limit of the mean of {description}, of 95 % confidence")
        found[f"{name}_{key}"] = ((), limit if np.isfinite(limit) else np.nan, what)
    return found


def censored(name: str, simulation: Simulation, result: EnsembleResult) -> Variables:
    """Of a hitting time, which part of the paths was still waiting when the run ended."""
    waiting, n = result.waiting.get(name, 0), int(result.statistics["moments"]["n"])
    if not waiting:
        return {}
    part = waiting / n
    error = max(math.sqrt(part * (1 - part) / n), 1 / n) if is_random(simulation) else 0.0
    about = labels("1", "part of the paths that had not met the condition before the end") | {"n": n}
    return {
        f"{name}_censored": ((), part, about),
        f"{name}_censored_stderr": ((), error, labels("1", f"standard error of {name}_censored")),
    }


def _one_value(name: str, simulation: Simulation, result: EnsembleResult) -> float | None:
    """The value that all paths have of an observable that could differ between them."""
    moments = result.statistics["moments"]
    low, high = (float(moments[f"{name}_{key}"][-1]) for key in ("min", "max"))
    return low if int(moments["n"]) > 1 and low == high and could_differ(name, low, simulation) else None


def resolutions(simulation: Simulation, result: EnsembleResult) -> dict[str, Resolution]:
    """Of each quantity at the end, whether steps are short enough for its mean to be a result."""
    return {name: _resolution(name, error, simulation, result) for name, error in result.bias.items()}


def _resolution(name: str, error: StepError, simulation: Simulation, result: EnsembleResult) -> Resolution:
    moments = result.statistics["moments"]
    means = np.abs(moments[f"{name}_mean"])
    spread, stderr = (
        float(np.nan_to_num(x))
        for x in (np.sqrt(moments[f"{name}_variance"][-1]), moments[f"{name}_stderr"][-1])
    )
    # A curve that happens to be near zero at the end is as large as it was on the way.
    size = float(means[-1] if spread else means.max())
    return resolution_of(error, simulation, size, spread, stderr, name in result.bias_left_out)


def resolution_of(
    error: StepError | None, simulation: Simulation, size: float, spread: float, stderr: float, lost: bool
) -> Resolution:
    """Judge a figure of a simulation; `lost` says that paths have no value on other steps alone."""
    if error is not None and np.isnan(error.bias) and not (lost and simulation.grid.steps is not None):
        return Resolution("resolved")  # no sign of steps that are too long: others fail for other reasons
    if simulation.grid.steps is not None:
        return resolution(error, size, spread, stderr, simulation.grid.steps)
    judged = resolution(error, size, spread, stderr, 1)
    power = 1 / STOCHASTIC_POWER if isinstance(simulation.problem, AbstractSDE) else 1.0
    return dataclasses.replace(judged, steps=math.ceil(judged.steps**power))


def steps_of(result: EnsembleResult) -> float:
    """How many steps a path took, on average."""
    return result.steps.mean if isinstance(result.steps, StepCounts) else result.steps
