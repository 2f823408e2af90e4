"""Lines below a table about the error that a run was to have: what was wanted, and what was reached."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.progress import counted
from simkit.results.swept import is_swept
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr


def target_summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """What was wanted, and by quantity what was reached; empty of a run without a target."""
    attributes = dataset.attrs
    if "target" not in attributes:
        return {}
    kind, relative = str(attributes["target_kind"]), bool(attributes["target_relative"])
    names = attributes["target_of"].split()
    return {
        kind: float(attributes["target"]),
        "relative": relative,
        "reached": {name: _reached(dataset, name, kind, relative) for name in names},
        "pilot_paths": int(attributes["pilot_paths"]),
        "wanted_paths": int(attributes["target_paths"]),
        "limited_by": attributes.get("target_limited_by"),
    }


def target_notes(dataset: "xr.Dataset") -> list[str]:
    """What to say below the table: a line for runs that reached their targets, and one for the others."""
    known = {name: summary for name, one in each_variant(dataset).items() if (summary := target_summary(one))}
    missed = {name: each for name, each in known.items() if each["limited_by"]}
    met = {name: each for name, each in known.items() if name not in missed}
    what = "point" if is_swept(dataset) else "variant"
    unknown = any(math.isnan(x) for each in met.values() for x in each["reached"].values())
    notes = [("! " if unknown else "") + _note(met, what)] if met else []
    for limit in dict.fromkeys(each["limited_by"] for each in missed.values()):
        those = {name: each for name, each in missed.items() if each["limited_by"] == limit}
        wanted = max(each["wanted_paths"] for each in those.values())
        notes.append(f"! {_note(those, what)}; {limit} allows no more, and {wanted:,} paths would reach it")
    return notes


def _note(each: dict[str, dict[str, Any]], thing: str) -> str:
    """The targets of some variants or points, and the largest errors that they reached."""
    first = next(iter(each.values()))
    kind = "total_error" if "total_error" in first else "stderr"
    names = dict.fromkeys(name for one in each.values() for name in one["reached"])
    errors = {name: float(np.max([one["reached"].get(name, 0) for one in each.values()])) for name in names}

    def text(error: float) -> str:
        if math.isnan(error):
            return "unknown, as all paths have one value"
        return f"{100 * error:.3g} %" if first["relative"] else f"{error:.3g}"

    wanted = " or ".join(dict.fromkeys(text(one[kind]) for one in each.values() if kind in one))
    which = "" if "" in each else f" of {counted(len(each), thing)}"
    worst = " at worst" if which else ""
    what = "total error" if kind == "total_error" else "standard error"
    reached = ", ".join(f"{name} {text(error)}" for name, error in errors.items())
    pilot = f"pilot of {counted(max(one['pilot_paths'] for one in each.values()), 'path')}"
    return f"{what}{which}: {wanted} was the target, reached{worst}: {reached} ({pilot})"


def _reached(dataset: "xr.Dataset", name: str, kind: str, relative: bool) -> float:
    """The error of a mean, with its step bias where that is meant; NaN where it is unknown.

    So it is where all paths have one value, though rarer ones would have another.
    """

    def figure(key: str) -> float:
        return float(np.atleast_1d(dataset.get(f"{name}_{key}", np.nan))[-1])

    stderr = "mean_stderr" if f"{name}_mean_stderr" in dataset else "stderr"  # the one of sensitivities
    error = math.nan if f"{name}_upper" in dataset else figure(stderr)
    if kind == "total_error" and f"{name}_bias" in dataset:
        error = math.hypot(error, figure("bias"))
    return error / abs(figure("mean" if f"{name}_mean" in dataset else "value")) if relative else error
