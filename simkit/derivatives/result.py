"""The sensitivities of an experiment as a labelled `xarray.Dataset`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from simkit_solvers.problems.schedule import model_of

from simkit.derivatives.error_variables import error_variables, resolutions
from simkit.derivatives.estimates import EstimatedDerivative, EstimatedSensitivities
from simkit.ensemble.simulation import Simulation
from simkit.results.dataset import FORMAT, reduction_attributes
from simkit.results.dataset_errors import bias_variables, censored_of
from simkit.results.number_text import rounding_in
from simkit.results.quantity import described
from simkit.results.variables import Variables, variable

KIND = "sensitivity"
ORDERS = {"derivative": "parameter", "second": "pair"}  # by the order of a derivative its dimension
FIGURES = {
    "": "derivative of the mean of {}",
    "_stderr": "standard error of the derivative of the mean of {}",
    "_sd": "standard deviation over paths of the estimator of the derivative of {}",
}
CHECKS = {
    "_check": "finite differences of the mean of {}",
    "_check_stderr": "standard error of the finite differences of the mean of {}",
    "_z": "derivative of the mean of {} less finite differences, in standard errors of both",
}
ROUNDED = 1e3  # one over the step of differences: what rounding of a mean becomes in them


def to_dataset(
    simulation: Simulation, study: EstimatedSensitivities, provenance: Mapping[str, Any]
) -> xr.Dataset:
    """The derivatives by flat names such as `call_derivative`, with units and provenance.

    `docs/reference/results.md` lists all variables and attributes. What is recorded at each saved time has a
    dimension `time` too. A check by finite differences has the same steps, whose error is no part of
    `call_derivative_z`.
    """
    variables: Variables = {}
    for name, (mean, stderr) in study.values.items():
        unit, description = described(simulation)[name]
        dims, rows = (("time",), slice(None)) if len(mean) > 1 else ((), 0)
        what = f"mean of {description}"
        variables[f"{name}_mean"] = variable(dims, mean[rows], unit, what)
        variables[f"{name}_mean_stderr"] = variable(dims, stderr[rows], unit, f"standard error of the {what}")
        variables |= bias_variables(f"{name}_bias", unit, what, study.bias.get(name))
        if name in study.waiting:
            variables |= censored_of(name, simulation, *study.waiting[name])
        own = [d for d in study.derivatives if d.choice.quantity == name]
        for order, (kind, dimension) in enumerate(ORDERS.items(), 1):
            derivatives = [d for d in own if len(d.choice.targets) == order]
            if derivatives:
                variables |= _derivatives(simulation, study, name, kind, (dimension, *dims), derivatives)
    labels = [target.label for target in study.targets]
    coordinates: dict[str, Any] = {
        "parameter": labels,
        "parameter_value": ("parameter", [target.value for target in study.targets]),
        "parameter_unit": ("parameter", [target.unit for target in study.targets]),
    }
    pairs = list(dict.fromkeys(_pair(d, labels) for d in study.derivatives if len(d.choice.targets) == 2))
    if pairs:
        coordinates["pair"] = pairs
    if any("time" in dims for dims, *_ in variables.values()):
        coordinates["time"] = variable(
            ("time",), np.asarray(simulation.grid.times), simulation.time_unit, "time"
        )
    return xr.Dataset(variables, coordinates, _attributes(simulation, study, labels) | dict(provenance))


def _derivatives(
    simulation: Simulation,
    study: EstimatedSensitivities,
    name: str,
    kind: str,
    dims: tuple[str, ...],
    derivatives: list[EstimatedDerivative],
) -> Variables:
    """The variables of the first or the second derivatives of a quantity."""
    key = f"{name}_{kind}"

    def stacked(rows: Sequence[np.ndarray], what: str) -> tuple:
        values = np.stack(rows)
        return variable(dims, values if len(dims) > 1 else values[:, 0], None, what)

    variables: Variables = {}
    which = "second " if kind == "second" else ""
    figures = zip(*((d.mean, d.stderr, d.sd) for d in derivatives), strict=True)
    for (suffix, text), rows in zip(FIGURES.items(), figures, strict=True):
        variables[f"{key}{suffix}"] = stacked(rows, f"{which}{text.format(name)}")
    variables |= error_variables(name, kind, dims, derivatives)
    if any(d.check is not None for d in derivatives):
        checks = zip(*(_checks(d, _rounding(simulation, study, d)) for d in derivatives), strict=True)
        for (suffix, text), rows in zip(CHECKS.items(), checks, strict=True):
            variables[f"{key}{suffix}"] = stacked(rows, text.format(name))
    variables[f"{key}_estimator"] = (dims[0], [d.choice.method for d in derivatives])
    variables[f"{key}_reason"] = (dims[0], [d.choice.reason for d in derivatives])
    if any(d.unknown for d in derivatives):
        variables[f"{key}_unknown"] = (dims[0], [d.unknown for d in derivatives])
    return variables


def _attributes(simulation: Simulation, study: EstimatedSensitivities, labels: list[str]) -> dict[str, Any]:
    grid, judged = simulation.grid, resolutions(simulation, study, lambda d: _pair(d, labels))
    return {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "kind": simulation.stepping.kind,
        "model": type(model_of(simulation.problem)).__name__,
        "solver": type(simulation.solver).__name__,
        "state_variables": " ".join(simulation.problem.State._fields),
        "quantities": " ".join(study.values),
        "t1": float(grid.times[-1]),
        "precision": simulation.precision,
        "paths": study.paths,
        **reduction_attributes(simulation),
        "failed_paths": study.failed,
        "elapsed_s": study.elapsed_s,
        "compile_s": study.compile_s,
        **{key: x for key, x in simulation.stepping.tolerances.items() if key == "rtol"},
        "too_few_steps": json.dumps({what: r.steps for what, r in judged.items() if r.kind == "noticeable"}),
        "unresolved": json.dumps({what: r.steps for what, r in judged.items() if r.kind == "unresolved"}),
    }


def _rounding(
    simulation: Simulation, study: EstimatedSensitivities, derivative: EstimatedDerivative
) -> np.ndarray:
    """What rounding of values becomes in the standard error of the differences that check a derivative."""
    sizes = [study.targets[i].scale for i in derivative.choice.targets]
    mean, _ = study.values[derivative.choice.quantity]
    return ROUNDED * rounding_in(simulation.precision) * np.abs(mean) / np.prod(sizes) / study.paths**0.5


def _checks(derivative: EstimatedDerivative, rounding: np.ndarray) -> tuple[np.ndarray, ...]:
    """The finite differences that check a derivative, their errors, and z.

    Both see the same paths, so z is cautious. There is no z where all that spreads is rounding.
    """
    check, none = derivative.check, np.full_like(derivative.mean, np.nan)
    if check is None:
        return none, none, none
    difference, error = derivative.mean - check.mean, np.hypot(derivative.stderr, check.stderr)
    return check.mean, check.stderr, np.divide(difference, error, out=none, where=error > rounding)


def _pair(derivative: EstimatedDerivative, labels: list[str]) -> str:
    return ", ".join(sorted((labels[i] for i in derivative.choice.targets), key=labels.index))
