"""The result of a multilevel run as a labelled `xarray.Dataset`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.rounding import rounding_of_steps
from simkit.ensemble.step_bias.step_error import StepError
from simkit.multilevel.allocation import plain_work
from simkit.multilevel.level_rates import QuantityLevels
from simkit.multilevel.run import MultilevelResult
from simkit.results.dataset import exact_moments, run_attributes
from simkit.results.dataset_errors import bias_variables, z_of
from simkit.results.quantity import described
from simkit.results.variables import Variables, power_of, variable, with_stderr

KIND = "multilevel"


def to_dataset(simulation: Simulation, result: MultilevelResult, provenance: Mapping[str, Any]) -> xr.Dataset:
    """Means at the end by flat names such as `call_mean`, and along `level` what they are made of."""
    known = described(simulation)
    exact = _exact_means(simulation)
    variables: Variables = {}
    for name, (unit, description) in known.items():
        variables |= _figures(name, unit, description, simulation, result, exact.get(name))
        variables |= _along_levels(name, unit, description, result.levels[name])
    plan, unit = result.plan, result.ladder.unit
    count = len(plan.paths)
    costs = [round(n * cost) for n, cost in zip(plan.paths, plan.costs, strict=True)]
    of_levels = {
        "steps": (np.array(plan.steps), f"{unit}s of the finer path"),
        "paths": (np.array(plan.paths), "paths"),
        "cost": (np.array(costs), f"path-{unit}s of all paths of a level"),
    }
    variables |= {key: variable(("level",), x, "1", what) for key, (x, what) in of_levels.items()}
    coordinates = {
        "time": variable(("time",), simulation.grid.times[-1:], simulation.time_unit, "time"),
        "level": variable(("level",), np.arange(count), "1", "level"),
    }
    return xr.Dataset(variables, coordinates, _attributes(simulation, result, provenance))


def _exact_means(simulation: Simulation) -> dict[str, float]:
    """The exact means at the end that are known."""
    times = simulation.grid.times
    moments = exact_moments(simulation, times)
    of_states = {name: each["mean"] for name, each in moments.items() if "mean" in each}
    given = {name: info.exact for name, info in simulation.observables.items() if info.exact is not None}
    return {name: float(each[-1]) for name, each in of_states.items()} | given


def stderr_of(name: str, simulation: Simulation, result: MultilevelResult) -> tuple[float, float]:
    """The standard error of a mean, at least its rounding, and that rounding."""
    levels = result.levels[name]
    spread, steps = math.sqrt(levels.variance[0]), result.plan.steps[-1]
    rounding = float(rounding_of_steps(math.hypot(levels.total, spread), simulation, steps, spread))
    return max(levels.stderr, rounding), rounding


def _figures(
    name: str,
    unit: str,
    description: str,
    simulation: Simulation,
    result: MultilevelResult,
    exact: float | None,
) -> Variables:
    """The mean and its errors, the exact one if it is known, and the rates."""
    levels, paths = result.levels[name], sum(result.plan.paths)
    stderr, rounding = stderr_of(name, simulation, result)
    bias, doubt = levels.bias(len(result.averages) - 1)
    error = StepError(bias, doubt, doubt, "estimate", levels.order_used)
    variables = with_stderr(f"{name}_mean", (), levels.total, stderr, unit, f"mean of {description}", n=paths)
    variables[f"{name}_stderr"] = variables.pop(f"{name}_mean_stderr")
    variables[f"{name}_mean"][2]["description"] = description
    variables |= bias_variables(f"{name}_bias", unit, f"mean of {description}", error)
    what = f"order of the steps by which {name}_bias is extrapolated"
    variables[f"{name}_bias_order"] = variable((), levels.order_used, "1", what)
    for key, rate, what in (("alpha", levels.alpha, "means"), ("beta", levels.beta, "variances")):
        long_name = f"power of the step with which {what} of levels fall: {description}"
        variables |= with_stderr(f"{name}_{key}", (), rate.rate, rate.stderr, "1", long_name)
    if exact is not None:
        variables[f"{name}_exact"] = variable((), exact, unit, f"exact mean of {description}")
        z = z_of(levels.total - exact, stderr, error, rounding)
        what = f"(mean - bias - exact) / standard error of {name} at the end"
        variables[f"{name}_z"] = variable((), z, "1", what)
    return variables


def _along_levels(name: str, unit: str, description: str, levels: QuantityLevels) -> Variables:
    figures = {
        "mean": (levels.mean, 1, "mean of the difference from the level below"),
        "stderr": (np.sqrt(levels.variance / levels.count), 1, "standard error of the mean on a level"),
        "variance": (levels.variance, 2, "variance of the difference from the level below"),
        "kurtosis": (levels.kurtosis, 0, "kurtosis of the difference from the level below"),
    }
    return {
        f"{name}_level_{key}": variable(("level",), values, power_of(unit, power), f"{what}: {description}")
        for key, (values, power, what) in figures.items()
    }


def _plain_cost(simulation: Simulation, result: MultilevelResult) -> float:
    """The path-steps of paths on one grid with the errors that the run has reached."""
    steps = result.ladder.steps(result.averages)[: len(result.averages) + 8]
    costs = []
    for name in simulation.target_names:
        levels = result.levels[name]
        stderr, _ = stderr_of(name, simulation, result)
        error = math.hypot(stderr, math.fsum(map(abs, levels.bias(len(result.averages) - 1))))
        costs.append(plain_work(levels, float(levels.variance[0]), error, steps))
    return max(costs)


def _attributes(
    simulation: Simulation, result: MultilevelResult, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    target, plan = simulation.target, result.plan
    plain, cost, gamma = _plain_cost(simulation, result), plan.work + plan.pilot_steps, result.gamma
    return {
        **run_attributes(simulation, result),
        "simkit_kind": KIND,
        "method": KIND,
        "paths": sum(plan.paths),
        "target": target.total_error if target else math.nan,
        "target_kind": "total_error",
        "target_relative": int(target.relative if target else False),
        "target_of": " ".join(simulation.target_names),
        "target_paths": sum(plan.paths),
        "pilot_paths": plan.pilot_paths,
        "pilot_cost": plan.pilot_steps,
        "pilot_s": float(plan.pilot_s),
        "cost": plan.work,
        "plain_cost": plain,
        "saving": plain / cost,
        "level_unit": result.ladder.unit,
        "many_ends": " ".join(result.ladder.many_ends),
        "gamma": gamma.rate,
        "gamma_stderr": gamma.stderr,
        "failed_paths": sum(len(each.failed) for each in result.averages),
        "path_steps_per_s": plan.work / result.elapsed_s,
        **provenance,
    }
