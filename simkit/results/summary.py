"""The numbers of a dataset at the end, as plain data for JSON."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.results.level_notes import levels_summary
from simkit.results.step_notes import by_quantity
from simkit.results.target_notes import target_summary
from simkit.results.variants import each_variant, variant_names

if TYPE_CHECKING:
    import xarray as xr

SECTIONS = ("derived", "observables", "state")
RATES = ("elapsed_s", "path_steps_per_s")
ALWAYS = ("mean", "stderr", "bias", "bias_stderr", "exact", "z")
SOMETIMES = (
    *("difference", "difference_stderr", "difference_bias", "difference_bias_stderr"),
    *("strong_error", "strong_error_stderr"),
    *("strong_order", "strong_order_stderr", "bias_order", "bias_bound", "lower", "upper"),
    *("in_sample", "in_sample_stderr", "upper_bound", "upper_bound_stderr", "censored", "censored_stderr"),
    "variance_reduction",
)


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The figures of the table; None where there is no finite number.

    Of variants those of each, with the difference from the first.
    """
    if variant_names(dataset):
        variants = {name: summary(one) for name, one in each_variant(dataset).items()}
        return {"variants": variants} | {key: float(dataset.attrs[key]) for key in RATES}
    attributes = dataset.attrs
    derived, events = (attributes.get(key, "").split() for key in ("derived", "counted_events"))
    return {
        "observables": {name: _figures(dataset, name) for name in attributes["observables"].split()},
        "state": {name: _figures(dataset, name) for name in attributes["state_variables"].split()},
        **({"derived": {name: _figures(dataset, name) for name in derived}} if derived else {}),
        **({"events": {name: _count(dataset, name) for name in events}} if events else {}),
        **({"target": target} if (target := target_summary(dataset)) else {}),
        **levels_summary(dataset),
        "paths": int(attributes["paths"]),
        "failed_paths": int(attributes["failed_paths"]),
        **_steps(attributes),
        **{key: float(attributes[key]) for key in RATES},
    }


def _steps(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The number of steps; None where they differ, and how many were accepted and rejected, or events."""
    if "steps" in attributes:
        return {"steps": int(attributes["steps"])}
    kinds = ("accepted_steps", "rejected_steps", "events", "leaps", "refused_leaps")
    counts = {
        kind: {"mean": float(attributes[f"{kind}_mean"]), "max": int(attributes[f"{kind}_max"])}
        for kind in kinds
        if f"{kind}_mean" in attributes
    }
    if "rtol" not in attributes:
        return {"steps": None} | counts
    return {"steps": None, "rtol": float(attributes["rtol"]), "atol": float(attributes["atol"])} | counts


def _count(dataset: "xr.Dataset", name: str) -> dict[str, float | None]:
    """How often an event happened on a path."""
    figures = {
        key: float(dataset[f"{name}_count{end}"]) for key, end in (("mean", ""), ("stderr", "_stderr"))
    }
    return {key: value if math.isfinite(value) else None for key, value in figures.items()}


def _figures(dataset: "xr.Dataset", name: str) -> dict[str, Any]:
    """The figures of one quantity; the value of one made of means counts as its mean."""
    derived = f"{name}_mean" not in dataset
    about = dataset[f"{name}_value" if derived else f"{name}_mean"].attrs
    figures: dict[str, Any] = {}
    for key in (*ALWAYS, *(key for key in SOMETIMES if f"{name}_{key}" in dataset)):
        variable = dataset.get(f"{name}_{'value' if key == 'mean' and derived else key}")
        value = float(np.atleast_1d(variable)[-1]) if variable is not None else math.nan
        figures[key] = value if math.isfinite(value) else None
    left_out = by_quantity(dataset, "bias_left_out")
    if name in left_out:
        figures["bias_left_out"] = left_out[name]
    parts = about.get("means", name).split()
    figures["noticeable_bias"] = any(part in by_quantity(dataset, "noticeable_bias") for part in parts)
    figures["resolved"] = not any(part in by_quantity(dataset, "unresolved") for part in parts)
    figures["n"] = int(about["n"])
    if figures["n"] > 1 and f"{name}_variance" in dataset and not dataset[f"{name}_variance"].values.flat[-1]:
        figures["same_on_all_paths"] = True
    figures["unit"] = str(about["units"])
    return figures
