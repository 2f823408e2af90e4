"""From the sensitivities of an experiment to a labelled dataset."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.problems.schedule import model_of

from simkit.derivatives.error_variables import error_variables, resolutions
from simkit.derivatives.study import Derivative, Study
from simkit.ensemble.simulation import Simulation
from simkit.results.dataset import FORMAT, quantities
from simkit.results.dataset_errors import bias_variables
from simkit.results.table import rounding_in
from simkit.results.variant_dataset import VARIANT

KIND = "sensitivity"
FIGURES = {
    "": "derivative of the mean of {}",
    "_stderr": "standard error of the derivative of the mean of {}",
    "_sd": "standard deviation over paths of the estimator of the derivative of {}",
}
ROUNDED = 1e3  # one over the step of differences: what rounding of a mean becomes in them

CHECKS = {
    "_check": "finite differences of the mean of {}",
    "_check_stderr": "standard error of the finite differences of the mean of {}",
    "_z": "derivative of the mean of {} less finite differences, in standard errors of both",
}


def to_dataset(simulation: Simulation, study: Study, provenance: Mapping[str, Any]) -> xr.Dataset:
    """The derivatives by flat names, with units and provenance.

    For an observable `call`: `call_mean`, `call_mean_stderr`; `call_derivative`, `call_derivative_stderr` and
    `call_derivative_sd` (of the estimator, per path) `(parameter)`, with the estimators' names and why they
    were chosen in `call_derivative_estimator` and `call_derivative_reason`; the same of second derivatives as
    `call_second…` `(pair)`. `call_derivative_step_error` is what steps leave: in ordinary equations what
    twice as many steps change, or a tenth of the tolerances; in stochastic ones, and of leaps, the size of
    the step bias, at the end alone; beside these, in finite differences, how far a formula of lower order is
    away, and for coupled copies what copies farther apart show. `call_derivative_bias` is that step bias with
    its sign, `call_derivative_bias_stderr` its error, and `call_derivative_bias_bound` what was seen where
    there is no estimate; `call_bias…` are those of the mean, as in a run. `call_derivative_flag` is `heavy
    tail` where a few paths make the variance, with `call_derivative_tail_index` and
    `call_derivative_largest_part`, and `no result` where it also grows as steps become shorter. The
    attributes `too_few_steps` and `unresolved` have, as JSON, how many steps to take where the step bias of a
    mean or a derivative matters, and where it is as large as the figure, which is no result. What is kept at
    each saved time has a dimension `time` too. Coordinates of `parameter` are its values and units. Where
    asked for, `call_derivative_check` are finite differences, and `call_derivative_z` is how many standard
    errors of both the derivative is away from them; NaN where it is one of them, and where neither has a
    spread beyond rounding. Both take the same steps, whose error is no part of z.
    """
    units = quantities(simulation)
    labels = [target.label for target in study.targets]
    pairs = list(dict.fromkeys(_pair(d, labels) for d in study.derivatives if len(d.choice.targets) == 2))
    coordinates: dict[str, Any] = {
        "parameter": labels,
        "parameter_value": ("parameter", [target.value for target in study.targets]),
        "parameter_unit": ("parameter", [target.unit for target in study.targets]),
    }
    if pairs:
        coordinates["pair"] = pairs
    variables: dict[str, tuple] = {}
    over_time = False
    for name, (mean, stderr) in study.values.items():
        unit, description = units[name]
        at = ("time",) if len(mean) > 1 else ()
        over_time |= bool(at)
        variables[f"{name}_mean"] = _variable(at, mean, unit, f"mean of {description}")
        variables[f"{name}_mean_stderr"] = _variable(
            at, stderr, unit, f"standard error of the mean of {description}"
        )
        variables |= bias_variables(f"{name}_bias", unit, f"mean of {description}", study.bias.get(name))
        own = [d for d in study.derivatives if d.choice.quantity == name]
        for kind, along in (("derivative", "parameter"), ("second", "pair")):
            found = [d for d in own if len(d.choice.targets) == (1 if kind == "derivative" else 2)]
            if not found:
                continue
            for suffix, text in FIGURES.items():
                arrays = np.stack([{"": d.mean, "_stderr": d.stderr, "_sd": d.sd}[suffix] for d in found])
                arrays = arrays if at else arrays[:, 0]
                variables[f"{name}_{kind}{suffix}"] = (
                    (along, *at),
                    arrays,
                    {
                        "long_name": text.format(name)
                        if kind == "derivative"
                        else f"second {text.format(name)}"
                    },
                )
            variables |= error_variables(name, kind, (along, *at), found)
            if any(d.check is not None for d in found):
                for suffix, text in CHECKS.items():
                    arrays = np.stack([_checked(d, suffix, _rounding(simulation, study, d)) for d in found])
                    variables[f"{name}_{kind}{suffix}"] = (
                        (along, *at),
                        arrays if at else arrays[:, 0],
                        {"long_name": text.format(name)},
                    )
            variables[f"{name}_{kind}_estimator"] = (along, [d.choice.method for d in found])
            variables[f"{name}_{kind}_reason"] = (along, [d.choice.reason for d in found])
    if over_time:
        coordinates["time"] = (
            "time",
            np.asarray(simulation.grid.times),
            {"units": "time", "long_name": "time"},
        )
    grid, judged = simulation.grid, resolutions(simulation, study, lambda d: _pair(d, labels))
    jumps = grid.has_events
    attributes = {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "kind": "jump" if jumps else "sde" if isinstance(simulation.problem, AbstractSDE) else "ode",
        "model": type(model_of(simulation.problem)).__name__,
        "solver": type(simulation.solver).__name__,
        "quantities": " ".join(study.values),
        "t1": float(simulation.grid.times[-1]),
        "precision": simulation.precision,
        "paths": study.paths,
        "failed_paths": study.failed,
        "elapsed_s": study.elapsed_s,
        "compile_s": study.compile_s,
        **({"rtol": float(grid.tolerances.rtol)} if grid.tolerances is not None else {}),
        "too_few_steps": json.dumps({what: r.steps for what, r in judged.items() if r.kind == "noticeable"}),
        "unresolved": json.dumps({what: r.steps for what, r in judged.items() if r.kind == "unresolved"}),
        **provenance,
    }
    return xr.Dataset(variables, coordinates, attributes)


def _rounding(simulation: Simulation, study: Study, derivative: Derivative) -> np.ndarray:
    """What rounding of values becomes in the standard error of the differences that check a derivative."""
    sizes = [study.targets[i].scale for i in derivative.choice.targets]
    mean, _ = study.values[derivative.choice.quantity]
    return ROUNDED * rounding_in(simulation.precision) * np.abs(mean) / np.prod(sizes) / study.paths**0.5


def _checked(derivative: Derivative, suffix: str, rounding: np.ndarray) -> np.ndarray:
    """A figure of the finite differences that check a derivative. Both see the same paths: z is cautious.

    There is no z where all that spreads is rounding.
    """
    check = derivative.check
    if check is None:
        return np.full_like(derivative.mean, np.nan)
    if suffix == "_check":
        return check.mean
    if suffix == "_check_stderr":
        return check.stderr
    apart, error = derivative.mean - check.mean, np.hypot(derivative.stderr, check.stderr)
    return np.divide(apart, error, out=np.full_like(apart, np.nan), where=error > rounding)


def _pair(derivative: Derivative, labels: list[str]) -> str:
    return ", ".join(sorted((labels[i] for i in derivative.choice.targets), key=labels.index))


def _variable(at: tuple[str, ...], rows: np.ndarray, unit: str, text: str) -> tuple:
    return at, rows if at else rows[0], {"units": unit, "long_name": text}


def of_variants(datasets: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """The sensitivities of variants as one dataset along `variant`, `one_variant` gives each back.

    Where only some have a variable, such as the error of their steps, it is NaN for the others. Attributes
    are those that all share, and in `variant_attributes`, as JSON, all of each.
    """
    each = list(datasets.values())
    shapes = {str(name): one[name] for one in each for name in one.data_vars}
    filled = [
        one.assign({name: xr.full_like(known, np.nan) for name, known in shapes.items() if name not in one})
        for one in each
    ]
    names = xr.DataArray(np.array(list(datasets), object), dims=VARIANT, name=VARIANT)
    found = xr.concat(
        filled,
        names,
        data_vars="all",
        coords="different",
        compat="equals",
        join="exact",
        combine_attrs="drop",
    )
    shared = {
        key: value for key, value in each[0].attrs.items() if all(one.attrs.get(key) == value for one in each)
    }
    own = {name: one.attrs for name, one in datasets.items()}
    found.attrs = shared | {"variant_attributes": json.dumps(own, ensure_ascii=False)}
    return found
