"""The numbers of a dataset of sensitivities at the end, as plain data for JSON."""

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.derivatives.error_variables import ERRORS
from simkit.derivatives.result import CHECKS, FIGURES, ORDERS
from simkit.derivatives.tails import FLAGS
from simkit.results.level_notes import levels_summary
from simkit.results.number_text import finite_or_none
from simkit.results.variants import each_variant, variant_names

if TYPE_CHECKING:
    import xarray as xr

BIAS = ("bias", "bias_stderr", "bias_bound")
NO_RESULT = FLAGS["grows"]


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The figures at the end; None where there is no finite number. Of variants those of each by name."""
    if variant_names(dataset):
        return {"variants": {name: summary(one) for name, one in each_variant(dataset).items()}}
    unresolved, attributes = steps_wanted(dataset, "unresolved"), dataset.attrs
    quantities = {}
    for name in attributes["quantities"].split():
        figures: dict[str, Any] = {
            "mean": _at_end(dataset, f"{name}_mean"),
            "stderr": _at_end(dataset, f"{name}_mean_stderr"),
        }
        if "stderr_unknown" in dataset[f"{name}_mean"].attrs:
            figures["stderr_unknown"] = str(dataset[f"{name}_mean"].attrs["stderr_unknown"])
        for key in BIAS:
            if f"{name}_{key}" in dataset:
                figures[key] = _at_end(dataset, f"{name}_{key}")
        derivatives = {
            str(label): _derivative(dataset, name, kind, i, figures["mean"], unresolved)
            for kind, dimension in ORDERS.items()
            for i, label in enumerate(dataset[dimension].values if f"{name}_{kind}" in dataset else ())
        }
        quantities[name] = figures | {"resolved": name not in unresolved, "derivatives": derivatives}
    return {
        "quantities": quantities,
        **{key: int(attributes[key]) for key in ("paths", "failed_paths")},
        **{key: float(attributes[key]) for key in ("elapsed_s", "compile_s")},
        **levels_summary(dataset),
    }


def _derivative(
    dataset: "xr.Dataset",
    name: str,
    kind: str,
    place: int,
    mean: float | None,
    unresolved: dict[str, int],
) -> dict[str, Any]:
    """The figures of the derivative at a place along its dimension."""
    prefix = f"{name}_{kind}"

    def figure(suffix: str) -> float | None:
        return _at_end(dataset, f"{prefix}{suffix}", place)

    def text(what: str) -> str:
        return str(dataset[f"{prefix}_{what}"].values[place])

    known = [suffix for suffix in FIGURES if f"{prefix}{suffix}" in dataset]
    figures: dict[str, Any] = {suffix.lstrip("_") or "derivative": figure(suffix) for suffix in known}
    keys = [key for key in ("step_error", *ERRORS) if f"{prefix}_{key}" in dataset]
    figures |= {key: figure(f"_{key}") for key in keys}
    label = dataset[ORDERS[kind]].values[place]
    figures |= {"flag": text("flag"), "resolved": f"{name} by {label}" not in unresolved}
    if figures["flag"] == NO_RESULT:
        figures |= dict.fromkeys(("derivative", "stderr", "sd", "step_error", *BIAS))
    if f"{prefix}_unknown" in dataset and (reason := text("unknown")):
        figures["stderr_unknown" if figures["stderr"] is None else "step_error_unknown"] = reason
    if f"{prefix}_z" in dataset:
        figures |= {suffix.lstrip("_"): figure(suffix) for suffix in CHECKS}
    figures |= {"estimator": text("estimator"), "reason": text("reason")}
    if kind == "derivative":
        own, value = (figures["derivative"], figures["stderr"]), float(dataset["parameter_value"][place])
        ends = (math.nan if x is None else x for x in (*own, mean, _at_end(dataset, f"{name}_mean_stderr")))
        pair = elasticity(*ends, value)
        figures |= dict(zip(("elasticity", "elasticity_stderr"), map(finite_or_none, pair), strict=True))
    return figures


def elasticity(derivative: Any, stderr: Any, mean: float, mean_stderr: float, value: Any) -> tuple[Any, Any]:
    """The change of a mean in % for 1 % more of a parameter with this value, and the error; arrays as well.

    The relative errors of derivative and mean are added: how far they are correlated is unknown, and their
    sum is the most that the error can be. NaN where the mean is 0 within its own error.
    """
    if is_zero(mean, mean_stderr):
        return math.nan * derivative, math.nan * derivative
    scale = value / mean
    return derivative * scale, abs(scale) * (stderr + abs(derivative / mean) * mean_stderr)


def is_zero(figure: float, error: float) -> bool:
    """Whether a figure is 0, or cannot be told from it by its error; one that is NaN tells nothing."""
    return abs(figure) <= (0.0 if math.isnan(error) else error)


def steps_wanted(dataset: "xr.Dataset", attribute: str) -> dict[str, int]:
    """How many steps to take for each mean and derivative that an attribute names."""
    return json.loads(dataset.attrs.get(attribute, "{}"))


def _at_end(dataset: "xr.Dataset", name: str, *place: int) -> float | None:
    """The last value of a variable, of one derivative where there is a place."""
    return finite_or_none(float(np.atleast_1d(dataset[name].values[place])[-1]))
