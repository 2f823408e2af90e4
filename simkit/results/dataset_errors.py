"""The errors of means in a dataset: step bias, exact values and z, limits of rare events."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from simkit.ensemble.could_differ import is_random, range_of
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.resolution import Resolution, resolution
from simkit.ensemble.step_bias.rounding import rounding_error
from simkit.ensemble.step_bias.step_error import StepError
from simkit.ensemble.step_bias.step_levels import SHORTER
from simkit.results.number_text import AT_ANY_TIME, AT_STEPS, RULE_OF_THREE
from simkit.results.quantity import RunQuantity
from simkit.results.variables import Variables, power_of, variable, with_stderr

# So many roundings from an exact value, a mean without any other error is wrong, not unlucky.
WITHOUT_SPREAD = 5.0


def step_bias(quantity: RunQuantity) -> Variables:
    """The step bias of mean and variance with its error, or where there is no estimate the bound seen."""
    name, error = quantity.name, quantity.bias
    variables = bias_variables(f"{name}_bias", quantity.unit, f"mean of {quantity.description}", error)
    if error is not None:
        order = error.order if error.claim == "estimate" else np.nan
        what = f"order of the steps by which {name}_bias is extrapolated"
        variables[f"{name}_bias_order"] = variable((), order, "1", what)
    variance, moment = quantity.result.variance_bias.get(name), f"variance of {quantity.description}"
    return variables | bias_variables(f"{name}_variance_bias", power_of(quantity.unit, 2), moment, variance)


def bias_variables(key: str, unit: str, moment: str, error: StepError | None) -> Variables:
    """A step error of a moment, with its error, or the bound seen."""
    if error is None:
        return {}
    what = f"step bias of the {moment} at the end"
    if error.claim == "estimate":
        return with_stderr(key, (), error.bias, error.stderr, unit, what)
    bound = variable((), abs(error.bias), unit, f"least size of the {what}, which has no estimate")
    return with_stderr(key, (), np.nan, np.nan, unit, what) | {f"{key}_bound": bound}


def against_exact(quantity: RunQuantity, exact: Mapping[str, Mapping[str, np.ndarray]]) -> Variables:
    """The exact value, and the distance between estimate and exact value in standard errors.

    There is none where the step bias has no estimate, nor where rounding is the only error and cannot
    account for the distance: the mean is simply wrong.
    """
    name, unit, info = quantity.name, quantity.unit, quantity.observable
    moments, dims = exact.get(name, {}), quantity.dims
    variables: Variables = {}
    if "variance" in moments and not quantity.weighted:
        what = f"exact variance of {quantity.description}"
        variables[f"{name}_exact_variance"] = variable(dims, moments["variance"], power_of(unit, 2), what)
    value = moments.get("mean")
    if info is not None:
        value, dims = (None if info.exact is None else np.float64(info.exact)), ()
    if value is None:
        return variables
    variables[f"{name}_exact"] = variable(dims, value, unit, f"exact mean of {quantity.description}")
    z, what = (
        _z(quantity, float(np.atleast_1d(value)[-1])),
        f"(mean - bias - exact) / standard error of {name}",
    )
    variables[f"{name}_z"] = variable((), z, "1", f"{what} at the end")
    return variables


def _z(quantity: RunQuantity, exact: float) -> float:
    if quantity.one_value is not None:
        return np.nan  # paths that would differ have not been seen, and the standard error is unknown
    mean, spread = quantity.at_end("mean"), np.sqrt(np.nan_to_num(quantity.statistic("variance")[-1]))
    size = max(abs(exact), abs(mean))
    steps = quantity.result.mean_steps / min(SHORTER)  # of the finest grid by which a bias is found
    rounding = float(rounding_error(size, quantity.simulation, steps, spread))
    return z_of(mean - exact, quantity.stderr[-1], quantity.bias, rounding)


def z_of(difference: float, error: float, bias: StepError | None, rounding: float) -> float:
    """A difference less the step bias in standard errors; NaN where these errors cannot account for it."""
    if bias is not None and bias.claim == "at least":
        return np.nan
    if bias is not None:
        difference, error = difference - bias.bias, np.hypot(error, bias.stderr)
    only_rounding = error <= 2 * rounding
    if not np.isfinite(error) or error == 0 or (only_rounding and abs(difference) > WITHOUT_SPREAD * error):
        return np.nan
    return float(difference / error)


def limits(quantity: RunQuantity) -> Variables:
    """Limits of a mean, of 95 % confidence, where all paths have one value though they could have others.

    By the rule of three at most 3/n of all paths have another value. How far that moves the mean follows from
    the range of the expression; without a bound there is no limit (NaN).
    """
    value = quantity.one_value
    if value is None:
        return {}
    fraction = min(RULE_OF_THREE / quantity.independent, 1.0)
    variables: Variables = {}
    for key, end in zip(("lower", "upper"), range_of(quantity.name, quantity.simulation), strict=True):
        limit = value + fraction * (end - value) if end != value else value
        what = f"{key} limit of the mean of {quantity.description}, of 95 % confidence"
        known = limit if np.isfinite(limit) else np.nan
        variables[f"{quantity.name}_{key}"] = variable((), known, quantity.unit, what)
    return variables


def censored(quantity: RunQuantity) -> Variables:
    """The fraction of the paths that did not meet a first time's condition before the run ended."""
    waiting = quantity.result.waiting.get(quantity.name, 0)
    reduction = quantity.simulation.reduction
    paired = 1.0 if reduction is None else reduction.inflation
    return censored_of(quantity.name, quantity.simulation, waiting, quantity.n, paired)


def censored_of(name: str, simulation: Simulation, waiting: int, n: int, inflation: float = 1.0) -> Variables:
    """The fraction of `n` paths that still wait at the end, if any; pairs have an `inflation` of errors."""
    if not waiting:
        return {}
    fraction, error = waiting / n, 0.0
    if is_random(simulation):
        count = n / inflation**2
        error = max(math.sqrt(fraction * (1 - fraction) / count), 1 / count)
    what = "fraction of the paths that had not met the condition before the end"
    (unmet, at_steps), *_ = (
        (o.first_time.functional.unmet, o.has_first_times_of_steps)
        for o in simulation.observed
        if o.name == name and o.first_time
    )
    between = at_steps and simulation.stepping.kind != "ode" and simulation.grid.steps
    about = {"counts_as": unmet, "seen": AT_STEPS if between else AT_ANY_TIME}
    return with_stderr(f"{name}_censored", (), fraction, error, "1", what, n=n, **about)


def resolution_of_mean(quantity: RunQuantity) -> Resolution:
    """Whether steps are short enough for the mean at the end to be a result.

    A curve of a run without spread that happens to be small at the end is marked there as any row is, but it
    is a result if its step bias is small compared with what it was on the way.
    """
    means = np.abs(quantity.statistic("mean"))
    spread, stderr = (
        float(np.nan_to_num(x))
        for x in (np.sqrt(quantity.statistic("variance")[-1]), quantity.statistic("stderr")[-1])
    )
    lost = quantity.name in quantity.result.bias_left_out

    def judged(size: float) -> Resolution:
        return resolution_of(quantity.bias, quantity.simulation, size, spread, stderr, lost)

    at_end = judged(float(means[-1]))
    if at_end.kind == "unresolved" and not spread and judged(float(means.max())).kind != "unresolved":
        return dataclasses.replace(at_end, kind="noticeable")
    return at_end


def resolution_of(
    error: StepError | None, simulation: Simulation, size: float, spread: float, stderr: float, lost: bool
) -> Resolution:
    """Judge a figure of a simulation; `lost` says that paths have no value on other steps only."""
    steps = simulation.grid.steps
    if error is not None and np.isnan(error.bias) and not (lost and steps):
        return Resolution("resolved")  # no sign of steps that are too long: others fail for other reasons
    judged = resolution(error, size, spread, stderr, steps or 1)
    return dataclasses.replace(judged, steps=math.ceil(judged.steps ** (1 / simulation.stepping.power)))
