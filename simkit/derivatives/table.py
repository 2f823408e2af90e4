"""The table of sensitivities, for people and for programs."""

import json
import math
import sys
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.table import Table

from simkit.derivatives.result import ROUNDED
from simkit.derivatives.tails import FAULTS, FLAGS
from simkit.progress import counted
from simkit.results.step_notes import more_steps, no_result, of_variant
from simkit.results.table import (
    MARK,
    apart,
    bias_text,
    laid_out,
    printed,
    rounding_of,
    run_title,
    titled,
    with_error,
)
from simkit.results.variant_dataset import each_variant, variant_names

if TYPE_CHECKING:
    import xarray as xr


ERRORS = ("step_error", "bias", "bias_stderr", "bias_bound", "tail_index", "largest_part")
SUMMED = 1e-12  # of a step bias: rounding of the sum in which it stands
NO_RESULT, HEAVY = FLAGS["grows"], FLAGS["heavy"]


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The figures at the end as plain data that JSON knows; None where there is no finite number.

    Of variants those of each by name.
    """
    if variant_names(dataset):
        return {"variants": {name: summary(one) for name, one in each_variant(dataset).items()}}
    found, unresolved = {}, _wanted(dataset, "unresolved")
    for name in dataset.attrs["quantities"].split():
        mean = _last(dataset[f"{name}_mean"])
        rows = {}
        for kind, along in (("derivative", "parameter"), ("second", "pair")):
            if f"{name}_{kind}" not in dataset:
                continue
            for i, label in enumerate(dataset[along].values):
                figures: dict[str, Any] = {
                    key: _finite(_last(dataset[f"{name}_{kind}{suffix}"][i]))
                    for key, suffix in (("derivative", ""), ("stderr", "_stderr"), ("sd", "_sd"))
                }
                estimator = str(dataset[f"{name}_{kind}_estimator"].values[i])
                reason = str(dataset[f"{name}_{kind}_reason"].values[i])
                for key in ERRORS:
                    if f"{name}_{kind}_{key}" in dataset:
                        figures[key] = _finite(_last(dataset[f"{name}_{kind}_{key}"][i]))
                figures["flag"] = (
                    str(dataset[f"{name}_{kind}_flag"].values[i]) if f"{name}_{kind}_flag" in dataset else ""
                )
                figures["resolved"] = f"{name} by {label}" not in unresolved
                if figures["flag"] == NO_RESULT:
                    figures |= dict.fromkeys(("derivative", "stderr", "sd", *ERRORS[:4]))
                if f"{name}_{kind}_z" in dataset:
                    for key, suffix in (("check", "_check"), ("check_stderr", "_check_stderr"), ("z", "_z")):
                        figures[key] = _finite(_last(dataset[f"{name}_{kind}{suffix}"][i]))
                rows[str(label)] = figures | {"estimator": estimator, "reason": reason}
                if kind == "derivative":
                    value = float(dataset["parameter_value"][i])
                    derivative = figures["derivative"]
                    elasticity = math.nan if derivative is None or not mean else derivative * value / mean
                    rows[str(label)]["elasticity"] = _finite(elasticity)
        found[name] = {"mean": _finite(mean), "stderr": _finite(_last(dataset[f"{name}_mean_stderr"]))}
        for key in ("bias", "bias_stderr", "bias_bound"):
            if f"{name}_{key}" in dataset:
                found[name][key] = _finite(_last(dataset[f"{name}_{key}"]))
        found[name]["resolved"] = name not in unresolved
        found[name]["derivatives"] = rows
    attributes = dataset.attrs
    return {
        "quantities": found,
        "paths": int(attributes["paths"]),
        "failed_paths": int(attributes["failed_paths"]),
        "elapsed_s": float(attributes["elapsed_s"]),
        "compile_s": float(attributes["compile_s"]),
    }


def _last(values) -> float:
    return float(np.atleast_1d(values)[-1])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> Table:
    """A row for each derivative; the elasticity is the change of the mean in % for 1 % of the parameter."""
    columns: dict[str, list[str]] = {
        "": [],
        "with respect to": [],
        "derivative": [],
        "step bias": [],
        "step error": [],
        "sd of a path": [],
        "differences": [],
        "z": [],
        "elasticity": [],
        "estimator": [],
        "because": [],
    }
    values = zip(dataset["parameter"].values, dataset["parameter_value"].values, strict=True)
    sizes = {str(label): float(value) or 1.0 for label, value in values}
    sizes |= {f"{a}, {b}": sizes[a] * sizes[b] for a in sizes for b in sizes}
    rounding = rounding_of(dataset)
    ends, count = set(), 0
    for name, content in summary(dataset)["quantities"].items():
        heads = _heads(name, content)
        for label, row in content["derivatives"].items():
            elasticity = row.get("elasticity")
            apart_by = ROUNDED * rounding * abs((content["mean"] or 0) / sizes[label])
            spread = apart_by / dataset.attrs["paths"] ** 0.5
            cells = [
                heads.pop(0) if heads else "",
                label,
                _derivative(row, rounding),
                _step_bias(row),
                _step_error(row),
                "" if row["sd"] is None or row["sd"] == 0 else f"{row['sd']:.4g}",
                ""
                if row.get("check") is None
                else with_error(row["check"], _beyond(row["check_stderr"], spread)),
                _apart(row, apart_by),
                "" if elasticity is None else f"{elasticity:+.3g}",
                row["estimator"],
                row["reason"],
            ]
            for column, cell in zip(columns.values(), cells, strict=True):
                column.append(cell)
            count += 1
        ends.add(count)
    shown = {
        titled(cells) if title == "z" else title: cells for title, cells in columns.items() if any(cells)
    }
    return laid_out(shown, ends, unicode)


def _heads(name: str, content: dict[str, Any]) -> list[str]:
    """What stands beside the rows of a quantity: its mean, and below that its step bias."""
    mean = f"{name} = {with_error(content['mean'], content['stderr'])}{'' if content['resolved'] else MARK}"
    if "bias" not in content:
        return [mean]
    bias = f"  step bias {bias_text(content)}"
    return [mean, bias] if len(content["derivatives"]) > 1 else [f"{mean},{bias[1:]}"]


def _derivative(row: dict[str, Any], rounding: float) -> str:
    if row["flag"] == NO_RESULT:
        return f"none{MARK}"
    error = _beyond(row["stderr"], rounding * abs(row["derivative"] or 0))
    return with_error(row["derivative"], error) + (MARK if row["flag"] or not row["resolved"] else "")


def _step_bias(row: dict[str, Any]) -> str:
    """What steps of time leave, with its sign and its error, as a run's table has it."""
    bound = row.get("bias_bound")
    keys = ("bias", "bias_stderr") if bound is None else ("bias_bound",)
    return bias_text({key: row.get(key) for key in keys})


def _step_error(row: dict[str, Any]) -> str:
    """The size of what other steps leave, or of all where no sign is known."""
    size = (row.get("step_error") or 0.0) - abs(row.get("bias") or 0.0)
    return f"{size:.2g}" if size > SUMMED * abs(row.get("bias") or 0.0) else ""


def notes(dataset: "xr.Dataset") -> list[str]:
    """What to say below the table of derivatives whose errors are too small or too large."""
    heavy, none, lines = [], [], []
    for name, content in summary(dataset)["quantities"].items():
        for label, row in content["derivatives"].items():
            each = f"{name} by {label}"
            if row.get("tail_index") is not None:
                each = f"{each} (tail index {row['tail_index']:.1f})"
            if row["flag"] == NO_RESULT:
                none.append(each)
            elif row["flag"] == HEAVY:
                heavy.append(each)
    if none:
        lines.append(
            f"! no result: {'; '.join(none)}: {FAULTS['grows']}; the reason in the table says what to do"
        )
    if heavy:
        lines.append(
            f"! heavy tail: {'; '.join(heavy)}: {FAULTS['heavy']}, and the ± may be far too small; take "
            "another estimator, or compare seeds"
        )
    lines += no_result(dataset, _wanted(dataset, "unresolved"))
    more = _wanted(dataset, "too_few_steps")
    if more:
        lines.append(f"! {', '.join(more)}: the step bias matters; {more_steps(dataset, more)}")
    return lines


def all_unresolved(dataset: "xr.Dataset") -> list[str]:
    """The means and derivatives that are no result since steps are too long, of each variant."""
    each = each_variant(dataset).items()
    lines = [no_result(one, _wanted(one, "unresolved"), of_variant(name)) for name, one in each]
    return [line for own in lines for line in own]


def _wanted(dataset: "xr.Dataset", attribute: str) -> dict[str, int]:
    """How many steps to take for each mean and derivative that an attribute names."""
    return json.loads(dataset.attrs.get(attribute, "{}"))


def _beyond(error: float | None, rounding: float) -> float | None:
    """A standard error, None where it is rounding."""
    return None if error is None or error <= rounding else error


def _apart(row: dict[str, Any], rounding: float) -> str:
    """How far a derivative is from finite differences; nothing where it is one of them."""
    check = row.get("check")
    if check is None or row["derivative"] is None:
        return ""
    return apart(row["derivative"], check, row.get("z"), 1, rounding)


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and a closing line, of each variant where there are several."""
    for name, one in each_variant(dataset).items():
        variant = f", {name}" if name else ""
        heading = f"{run_title(one)}{variant}: derivatives of means at t = {float(one.attrs['t1']):g}"
        content = summary(one)
        failed = f" ({content['failed_paths']:,} failed and left out)" if content["failed_paths"] else ""
        closing = (
            f"{counted(content['paths'], 'path')}{failed} in {content['elapsed_s']:.2f} s "
            f"(compiled in {content['compile_s']:.1f} s)"
        )
        printed(
            file or sys.stdout,
            heading,
            lambda unicode, one=one: make_table(one, unicode),
            [*notes(one), closing],
        )
