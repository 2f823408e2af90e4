"""The result of a multilevel run as a labelled `xarray.Dataset`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from simkit.ensemble.simulation import Simulation
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
        variables |= {
            f"{name}_level_{key}": variable(("level",), x, power_of(unit, power), f"{what}: {description}")
            for key, (x, power, what) in along_levels(result.levels[name]).items()
        }
    time = variable(("time",), simulation.grid.times[-1:], simulation.time_unit, "time")
    attributes = {
        **run_attributes(simulation, result),
        "simkit_kind": KIND,
        **level_attributes(result, simulation.target_names),
        "failed_paths": sum(len(each.failed) for each in result.averages),
        "path_steps_per_s": result.plan.work / result.elapsed_s,
        **provenance,
    }
    return xr.Dataset(variables | of_levels(result), {"time": time}, attributes)


def of_levels(result: MultilevelResult) -> Variables:
    """The levels, and along them their steps, paths and costs."""
    plan, unit = result.plan, result.ladder.unit
    costs = [round(n * cost) for n, cost in zip(plan.paths, plan.costs, strict=True)]
    figures = {
        "level": (np.arange(len(plan.paths)), "level"),
        "steps": (np.array(plan.steps), f"{unit}s of the finer path"),
        "paths": (np.array(plan.paths), "paths"),
        "cost": (np.array(costs), f"path-{unit}s of all paths of a level"),
    }
    return {key: variable(("level",), x, "1", what) for key, (x, what) in figures.items()}


def _exact_means(simulation: Simulation) -> dict[str, float]:
    """The exact means at the end that are known."""
    times = simulation.grid.times
    moments = exact_moments(simulation, times)
    of_states = {name: each["mean"] for name, each in moments.items() if "mean" in each}
    given = {name: info.exact for name, info in simulation.observables.items() if info.exact is not None}
    return {name: float(each[-1]) for name, each in of_states.items()} | given


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
    stderr, rounding = result.stderr_of(name)
    error = levels.step_error
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


def along_levels(levels: QuantityLevels) -> dict[str, tuple[np.ndarray, int, str]]:
    """Figures by level, the power of the unit that each has, and what it is."""
    return {
        "mean": (levels.mean, 1, "mean of the difference from the level below"),
        "stderr": (np.sqrt(levels.variance / levels.count), 1, "standard error of the mean on a level"),
        "variance": (levels.variance, 2, "variance of the difference from the level below"),
        "kurtosis": (levels.kurtosis, 0, "kurtosis of the difference from the level below"),
    }


def _plain_cost(result: MultilevelResult, names: Iterable[str]) -> float:
    """The path-steps of paths on one grid with the errors that the run has reached in these figures."""
    steps = result.ladder.steps(result.averages)[: len(result.averages) + 8]
    costs = []
    for name in names:
        levels = result.levels[name]
        stderr, _ = result.stderr_of(name)
        error = math.hypot(stderr, math.fsum(map(abs, levels.bias(len(result.averages) - 1))))
        costs.append(plain_work(levels, float(levels.variance[0]), error, steps))
    return max(costs)


def level_attributes(result: MultilevelResult, names: Iterable[str]) -> dict[str, Any]:
    """What a dataset of levels says of its target and its costs, which are compared for these figures."""
    simulation, plan = result.ladder.simulation, result.plan
    plain, cost, gamma = _plain_cost(result, names), plan.work + plan.pilot_steps, result.gamma
    target = simulation.target
    return {
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
    }
