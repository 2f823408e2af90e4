"""The table of sensitivities, for people."""

import math
import sys
from typing import TYPE_CHECKING, Any, TextIO

from rich.table import Table

from simkit.derivatives.result import ROUNDED
from simkit.derivatives.summary import NO_RESULT, steps_wanted, summary
from simkit.derivatives.tails import FAULTS, FLAGS, UNMOVED
from simkit.md.table import run_size
from simkit.progress import counted
from simkit.results.level_notes import level_notes
from simkit.results.number_text import (
    MARK,
    bias_text,
    difference_text,
    rarer_paths,
    rounding_of,
    titled,
    with_error,
)
from simkit.results.printing import ESTIMATED_ERROR, STANDARD_ERROR, laid_out, printed
from simkit.results.reduction_notes import few_scramblings
from simkit.results.step_notes import censored_notes, more_steps, no_result, of_variant, or_accept
from simkit.results.target_notes import target_notes
from simkit.results.titles import run_title
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr

SUMMED = 1e-12  # of a step bias: rounding of the sum in which it stands
HEAVY = FLAGS["heavy"]
APART, OFF = 4.0, 0.01  # standard errors, or parts of finite differences: a check that fails


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> Table:
    """A row for each derivative; the elasticity is the change of the mean in % for 1 % of the parameter."""
    rounding, scales = rounding_of(dataset), _scales(dataset)
    rows: list[dict[str, str]] = []
    ends = set()
    for name, content in summary(dataset)["quantities"].items():
        heads = _heads(name, content)
        for label, row in content["derivatives"].items():
            of_differences = _rounding_of_differences(content, rounding, scales[label])
            of_means = of_differences / dataset.attrs["paths"] ** 0.5
            check = row.get("check")
            rows.append(
                {
                    "": heads.pop(0) if heads else "",
                    "with respect to": label,
                    "derivative": _derivative(row, rounding),
                    "step bias": _step_bias(row),
                    "step error": _step_error(row),
                    "sd of a path": f"{row['sd']:.4g}" if row.get("sd") else "",
                    "differences": ""
                    if check is None
                    else with_error(check, _beyond(row["check_stderr"], of_means)),
                    "z": _difference(row, of_differences)
                    + MARK * _is_apart(row, _unsure_differences(content, dataset, scales[label])),
                    "elasticity": _elasticity(row),
                    "estimator": row["estimator"],
                    "because": row["reason"],
                }
            )
        ends.add(len(rows))
    columns = {title: [row[title] for row in rows] for title in (rows[0] if rows else ())}
    shown = {
        titled(cells) if title == "z" else title: cells for title, cells in columns.items() if any(cells)
    }
    return laid_out(shown, ends, unicode)


def _scales(dataset: "xr.Dataset") -> dict[str, float]:
    """The sizes of parameters and of pairs of them, by label."""
    values = zip(dataset["parameter"].values, dataset["parameter_value"].values, strict=True)
    scales = {str(label): float(value) or 1.0 for label, value in values}
    return scales | {f"{a}, {b}": scales[a] * scales[b] for a in scales for b in scales}


def _rounding_of_differences(content: dict[str, Any], rounding: float, scale: float) -> float:
    """What rounding of a mean becomes in finite differences."""
    return ROUNDED * rounding * abs((content["mean"] or 0) / scale)


def _unsure_differences(content: dict[str, Any], dataset: "xr.Dataset", scale: float) -> float:
    """How far finite differences of a mean without a spread may be off: by rounding, and by its step error.

    Tolerances leave another error at each value of a parameter. In float32 what a mean is the difference of
    is rounded too, and differences confirm nothing.
    """
    if dataset.attrs.get("precision") == "float32":
        return math.inf
    steps = sum(abs(content.get(key) or 0.0) for key in ("bias", "bias_stderr", "bias_bound"))
    steps += dataset.attrs.get("rtol", 0.0) * abs(content["mean"] or 0.0)
    return _rounding_of_differences(content, rounding_of(dataset), scale) + ROUNDED * steps / abs(scale)


def _heads(name: str, content: dict[str, Any]) -> list[str]:
    """What stands next to the rows of a quantity: its mean, and below that its step bias."""
    mark = "" if content["resolved"] else MARK
    mean = f"{name} = {_with_error(content, content['mean'], content['stderr'])}{mark}"
    if "bias" not in content:
        return [mean]
    bias = f"  step bias {bias_text(content)}"
    return [mean, bias] if len(content["derivatives"]) > 1 else [f"{mean},{bias[1:]}"]


def _derivative(row: dict[str, Any], rounding: float) -> str:
    if row["flag"] == NO_RESULT:
        return f"none{MARK}"
    error = _beyond(row["stderr"], rounding * abs(row["derivative"] or 0))
    return _with_error(row, row["derivative"], error) + (MARK if row["flag"] or not row["resolved"] else "")


def _with_error(row: dict[str, Any], value: float | None, error: float | None) -> str:
    """A figure with its error, or with a question mark where that is unknown."""
    return with_error(value, math.nan if "stderr_unknown" in row else error)


def _elasticity(row: dict[str, Any]) -> str:
    value, error = row.get("elasticity"), row.get("elasticity_stderr")
    if value is not None and "stderr_unknown" in row:
        return with_error(value, math.nan, 2)
    if value is None or error == 0 or (error is None and row.get("stderr") is None):
        return "" if value is None else f"{value:+.3g}"
    return with_error(value, math.nan if error is None else error, 2)


def _step_bias(row: dict[str, Any]) -> str:
    """What steps of time leave, with its sign and its error, as a run's table has it."""
    bound = row.get("bias_bound")
    keys = ("bias", "bias_stderr") if bound is None else ("bias_bound",)
    return bias_text({key: row.get(key) for key in keys})


def _step_error(row: dict[str, Any]) -> str:
    """The size of what other steps leave, or of all where no sign is known."""
    if "step_error_unknown" in row:
        return "unknown"
    size = (row.get("step_error") or 0.0) - abs(row.get("bias") or 0.0)
    return f"{size:.2g}" if size > SUMMED * abs(row.get("bias") or 0.0) else ""


def notes(dataset: "xr.Dataset") -> list[str]:
    """What to say below the table of derivatives whose errors are too small or too large.

    A derivative along the path that is 0 on all of them has no line: most often it is 0 on every path.
    """
    from simkit.derivatives.estimators import COUPLED, DIFFERENCES

    differences = COUPLED.name, DIFFERENCES.name
    heavy, none, unmoved, apart, lines = [], [], [], [], []
    scales = _scales(dataset)
    for name, content in summary(dataset)["quantities"].items():
        for label, row in content["derivatives"].items():
            each = f"{name} by {label}"
            if row.get("tail_index") is not None:
                each = f"{each} (tail index {row['tail_index']:.1f})"
            if row["flag"] == NO_RESULT:
                none.append(each)
            elif row["flag"] == HEAVY:
                heavy.append(each)
            if _is_apart(row, _unsure_differences(content, dataset, scales[label])):
                apart.append(each)
            if row["estimator"] in differences and row["reason"].startswith(UNMOVED):
                unmoved.append(each)
    lines += [line for line, _ in _unknown_errors(dataset)]
    if none:
        lines.append(
            f"! no result: {'; '.join(none)}: {FAULTS['grows']}; the reason in the table says what to do"
        )
    if heavy:
        lines.append(
            f"! heavy tail: {'; '.join(heavy)}: {FAULTS['heavy']}, and the ± may be far too small; use "
            "another estimator, as the reason in the table says, or compare seeds"
        )
    if apart:
        lines.append(
            f"! not confirmed: {'; '.join(apart)}: finite differences on the same paths give another value; "
            "one of the two is wrong, or the step of the differences is too long"
        )
    paths = int(dataset.attrs["paths"])
    if unmoved and paths > 1:
        rarer = f"{rarer_paths(paths)} may change it, which no error includes"
        lines.append(f"{'; '.join(unmoved)}: 0 on all {paths:,} paths; {rarer}")
    if few := few_scramblings(dataset):
        lines.append(f"{dataset.attrs['variance_reduction']}: {few}")
    lines += no_result(dataset, _too_long(dataset))
    more = steps_wanted(dataset, "too_few_steps")
    if more:
        lines.append(f"! {', '.join(more)}: the step bias matters; {more_steps(dataset, more)}")
    lines += [*target_notes(dataset), *level_notes(dataset)]
    return [*lines, *censored_notes(dataset, dataset.attrs.get("quantities", "").split())]


def _unknown_errors(dataset: "xr.Dataset", which: str = "") -> list[tuple[str, bool]]:
    """Lines on what has an unknown error and why, and whether it is a result in spite of that.

    All derivatives of a quantity are called by its name.
    """
    unknown: dict[tuple[str, str, bool], list[str]] = {}
    for name, content in summary(dataset)["quantities"].items():
        for what, key in (("error", "stderr_unknown"), ("step error", "step_error_unknown")):
            if key in content:
                unknown.setdefault((what, content[key], True), []).append(name)
            rows = content["derivatives"]
            reasons = {label: (row[key], row["resolved"]) for label, row in rows.items() if key in row}
            if 1 < len(rows) == len(reasons) and len({*reasons.values()}) == 1:
                (reason,) = {*reasons.values()}
                unknown.setdefault((what, *reason), []).append(f"all derivatives of {name}")
                continue
            for label, reason in reasons.items():
                unknown.setdefault((what, *reason), []).append(f"{name} by {label}")
    lines = []
    for (what, reason, resolved), names in unknown.items():
        line = f"{what} of {'; '.join(names)}{which} unknown: {reason}"
        lines.append((line if resolved else f"! {line}{or_accept(dataset)}", resolved))
    return lines


def _too_long(dataset: "xr.Dataset") -> dict[str, int]:
    """How many steps to take for the means and derivatives whose steps are too long; of others none shows."""
    return {name: steps for name, steps in steps_wanted(dataset, "unresolved").items() if steps}


def all_unresolved(dataset: "xr.Dataset") -> list[str]:
    """The means and derivatives that are no result, as steps are too long or unknown, of each variant."""
    lines = []
    for name, one in each_variant(dataset).items():
        which = of_variant(name)
        lines += [line for line, resolved in _unknown_errors(one, which) if not resolved]
        lines += no_result(one, _too_long(one), which)
    return lines


def _beyond(error: float | None, rounding: float) -> float | None:
    """A standard error, None where it is rounding."""
    return None if error is None or error <= rounding else error


def _difference(row: dict[str, Any], rounding: float) -> str:
    """The difference of a derivative from finite differences; nothing where it is one of them."""
    check = row.get("check")
    if check is None or row["derivative"] is None:
        return ""
    return difference_text(row["derivative"], check, row.get("z"), 1, rounding)


def _is_apart(row: dict[str, Any], unsure: float) -> bool:
    """Whether finite differences do not confirm a derivative; they may be off by `unsure`."""
    value, check, z = row["derivative"], row.get("check"), row.get("z")
    if z is not None:
        return abs(z) > APART
    if value is None or check is None:
        return False
    return abs(value - check) > max(unsure, OFF * abs(check))


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and a closing line, of each variant where there are several."""
    for name, one in each_variant(dataset).items():
        variant = f", {name}" if name else ""
        single = one.attrs["kind"] == "ode" and one.attrs["paths"] == 1
        heading = f"{run_title(one)}{variant}: derivatives{'' if single else ' of means'}{_when(one)}"
        content = summary(one)
        failed = f" ({content['failed_paths']:,} failed and left out)" if content["failed_paths"] else ""
        closing = (
            f"{_size(one)}{failed} in {content['elapsed_s']:.2f} s (compiled in {content['compile_s']:.1f} s)"
        )
        printed(
            file or sys.stdout,
            heading,
            lambda unicode, one=one: make_table(one, unicode),
            [*notes(one), closing],
            ESTIMATED_ERROR if single else STANDARD_ERROR,
        )


def _when(dataset: "xr.Dataset") -> str:
    """The time of the means; those of particles are over their run."""
    return "" if dataset.attrs["kind"] == "particles" else f" at t = {float(dataset.attrs['t1']):g}"


def _size(dataset: "xr.Dataset") -> str:
    """How large the run was."""
    if dataset.attrs["kind"] == "particles":
        return run_size(dataset)
    return counted(int(dataset.attrs["paths"]), "path")
