"""The summary of a dataset: figures with their errors, for people and for programs."""

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.box import ASCII2, HEAVY_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from simkit.progress import counted, steps_text
from simkit.results.step_notes import by_quantity, step_notes

if TYPE_CHECKING:
    import xarray as xr

VARIANT = "variant"
LEFT = ("", "unit", "paths", "variant", "parameter", "of the output", "note")
LEFT += ("with respect to", "estimator", "because")
FOLDED, FOLDED_WIDTH = ("unit", "note", "because"), 5
BIAS_DIGITS = 4
WIDEST = 10_000  # where there is no terminal, nothing is folded
ROUNDINGS = 100
OFF = (" %", " abs")
MARK = " !"
OF_VARIANTS = (
    "difference",
    "difference_stderr",
    "strong_error",
    "strong_error_stderr",
    "strong_order",
    "strong_order_stderr",
)


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The table's figures as plain data that JSON knows; None where there is no finite number.

    Of variants those of each, with the difference from the first.
    """
    if VARIANT in dataset.dims:
        return _summaries(dataset)
    attributes = dataset.attrs
    derived = attributes.get("derived", "").split()
    return {
        "observables": {name: _figures(dataset, name) for name in attributes["observables"].split()},
        "state": {name: _figures(dataset, name) for name in attributes["state_variables"].split()},
        **({"derived": {name: _figures(dataset, name) for name in derived}} if derived else {}),
        "paths": int(attributes["paths"]),
        "failed_paths": int(attributes["failed_paths"]),
        **_steps(attributes),
        "elapsed_s": float(attributes["elapsed_s"]),
        "path_steps_per_s": float(attributes["path_steps_per_s"]),
    }


def _summaries(dataset: "xr.Dataset") -> dict[str, Any]:
    from simkit.results.variant_dataset import one_variant, variant_names

    found = {name: summary(one_variant(dataset, name)) for name in variant_names(dataset)}
    rates = {key: float(dataset.attrs[key]) for key in ("elapsed_s", "path_steps_per_s")}
    return {"variants": found} | rates


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


def _figures(dataset: "xr.Dataset", name: str) -> dict[str, Any]:
    figures = {}
    derived = f"{name}_mean" not in dataset
    about = dataset[f"{name}_value" if derived else f"{name}_mean"].attrs
    differences = [key for key in OF_VARIANTS if f"{name}_{key}" in dataset]
    some = ("bias_order", "bias_bound", "lower", "upper", "in_sample", "in_sample_stderr")
    some += ("upper_bound", "upper_bound_stderr", "censored", "censored_stderr")
    known = [key for key in some if f"{name}_{key}" in dataset]
    for key in ("mean", "stderr", "bias", "bias_stderr", "exact", "z", *differences, *known):
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


def derived_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for each figure made of means that has no value."""
    from simkit.results.variant_dataset import each_variant

    notes = []
    for variant, one in each_variant(dataset).items():
        for name in one.attrs.get("derived", "").split():
            value = one[f"{name}_value"]
            if math.isnan(value):
                of = f" of {variant}" if variant else ""
                notes.append(f"no {name}{of}: {value.attrs['reason'] or 'it has no value at these means'}")
    return notes


def bound_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for what is exercised early and has no upper bound."""
    from simkit.results.variant_dataset import each_variant

    names = dict.fromkeys(
        name
        for _, one in each_variant(dataset).items()
        for name in one.attrs.get("observables", "").split()
        if f"{name}_in_sample" in one and f"{name}_upper_bound" not in one
    )
    reason = "no Brownian noise drives the model"
    return [f"no upper bound of {', '.join(names)}: {reason}"] if names else []


def _mean(row: Mapping[str, Any]) -> str:
    """A mean with its error, which of several paths is a number unless it is too large for one.

    A value that is the same on all paths has the digits that its step bias leaves, and no spread: what its
    error says is rounding.
    """
    error = math.inf if row["stderr"] is None and row["n"] > 1 else row["stderr"]
    mark = "" if row["resolved"] and not row["noticeable_bias"] else MARK
    if limit := _limit(row):
        return f"{row['mean']:.10g}{limit}{mark}"
    if row["n"] == 1 or "same_on_all_paths" in row:
        return _to_bias(row) + (" ± 0" if row["n"] > 1 else "") + mark
    return with_error(row["mean"], error) + (" ± 0" if error == 0 else "") + mark


def _to_bias(row: Mapping[str, Any]) -> str:
    """A value without spread, with as many digits as its step bias, or the bias's own error, leaves."""
    off = max((abs(row.get(key) or 0) for key in ("bias", "bias_stderr", "bias_bound")), default=0)
    if row["mean"] is None or not off:
        return with_error(row["mean"], None)
    return f"{round(row['mean'], 2 - math.floor(math.log10(off))):.10g}"


def _limit(row: Mapping[str, Any]) -> str:
    """Of a mean of values that are all the same the limit on the side where others would be."""
    for key, side in (("upper", "below"), ("lower", "above")):
        if row.get(key) is not None and row[key] != row["mean"]:
            return f" ({side} {row[key]:.5g})"
    return ""


def _apart(row: Mapping[str, Any], rounding: float) -> str:
    """How far a mean is from its exact value; nothing where an error is too large for a number."""
    spread = row["stderr"] is None and row["n"] > 1
    if spread or row["mean"] is None or row["exact"] is None or "bias_bound" in row:
        return ""
    if row.get("lower") is not None and row["lower"] <= row["exact"] <= (row["upper"] or math.inf):
        return ""
    return apart(row["mean"], row["exact"], row["z"], 2, rounding * max(abs(row["mean"]), abs(row["exact"])))


def bias_text(row: Mapping[str, Any], digits: int = 3) -> str:
    """The step bias with its error; of many digits to the first one of its error, which saves room."""
    if "bias_bound" in row:
        return "unknown" if row["bias_bound"] is None else f"at least {row['bias_bound']:.3g}"
    value, error = row["bias"], row["bias_stderr"]
    error = math.inf if error is None and value is not None else error  # too large for a number
    if not value or not error or abs(value) <= 10**BIAS_DIGITS * error:
        return with_error(value, error, digits)
    last = int(f"{error:.0e}".partition("e")[2])
    digits = min(math.floor(math.log10(abs(value))) - last + 1, 15)
    return f"{value:#.{digits}g} ± {error:.1g}".replace(". ", " ")


def apart(value: float | None, other: float | None, z: float | None, digits: int, rounding: float) -> str:
    """How far a value is from another: z, or where neither has a spread the difference in % of the other.

    Where that is 0 it is the difference itself, `abs`. What is as close as `rounding` is `equal`.
    """
    if z is not None:
        return f"{z:+.{digits}f}"
    if value is None or other is None:
        return ""
    if abs(value - other) <= rounding:
        return "equal"
    if not other:
        return f"{value:+.2g} abs"
    share = 100 * (value - other) / abs(other)
    return f"{share:+.{3 if abs(share) >= 100 else 2}g} %"


def rounding_of(dataset: "xr.Dataset") -> float:
    """What rounding may make of a figure, relative to it."""
    return rounding_in(dataset.attrs.get("precision", "float64"))


def rounding_in(precision: str) -> float:
    """The same of a figure computed in this precision."""
    return ROUNDINGS * float(np.finfo(precision).eps)


def titled(cells: list[str]) -> str:
    """The title of a column of z, and of differences where there is no spread."""
    off = [cell == "equal" or cell.endswith(OFF) for cell in cells if cell]
    return "z" if not any(off) else "off by" if all(off) else "z or off by"


def with_error(value: float | None, error: float | None, shown: int = 3) -> str:
    """A figure with as many digits as its error gives meaning to, as `10.4506 ± 0.0147`: `shown` of those."""
    if value is None:
        return ""
    if error is None or error == 0:
        return f"{value:.10g}"
    if math.isinf(error):
        return f"{value:.10g} ± inf"
    exponent = math.floor(math.log10(error))
    largest = max(exponent, math.floor(math.log10(abs(value)))) if value else exponent
    if exponent > -6 and largest < 9:
        digits = max(shown - 1 - exponent, 0)
        return f"{value:.{digits}f} ± {error:.{digits}f}"
    digits = largest - exponent + shown - 1
    if digits > 15:
        return f"{value:.15g} ± {error:.{shown}g}"
    scale = 10.0**largest
    return f"({value / scale:.{digits}f} ± {error / scale:.{digits}f})e{largest:+03d}"


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> Table:
    """Observables first, then the state at the end; columns that would be empty are left out.

    Without `unicode` it is pure ASCII, but for what the user's own names and units say.
    """
    if VARIANT in dataset.dims:
        return _variants_table(dataset, unicode)
    content = summary(dataset)
    sections = [content.get("derived", {}), content["observables"], content["state"]]
    rows = {name: row for section in sections for name, row in section.items()}
    ends = {len(sections[0]), len(sections[0]) + len(sections[1])}
    failed = content["failed_paths"]
    single = content["paths"] == 1
    rounding = rounding_of(dataset)
    far = [_apart(row, rounding) for row in rows.values()]
    columns = {
        "": list(rows),
        ("value" if single else "mean"): [_mean(row) for row in rows.values()],
        "in sample": [with_error(row.get("in_sample"), row.get("in_sample_stderr")) for row in rows.values()],
        "at most": [
            with_error(row.get("upper_bound"), row.get("upper_bound_stderr")) for row in rows.values()
        ],
        "step bias": [bias_text(row) for row in rows.values()],
        "exact": ["" if row["exact"] is None else f"{row['exact']:.8g}" for row in rows.values()],
        titled(far): far,
        "unit": [row["unit"] for row in rows.values()],
    }
    if failed:
        columns["paths"] = [f"{row['n']:,} ({failed:,} failed)" for row in rows.values()]
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    return laid_out(shown, ends, unicode)


def _variants_table(dataset: "xr.Dataset", unicode: bool) -> Table:
    """For each quantity a row for each variant, with the difference from the first one."""
    variants: dict[str, Any] = summary(dataset)["variants"]
    first = next(iter(variants.values()))
    quantities = [*first.get("derived", {}), *first["observables"], *first["state"]]
    figures = {
        name: content.get("derived", {}) | content["observables"] | content["state"]
        for name, content in variants.items()
    }
    rows = [(quantity, name, figures[name][quantity]) for quantity in quantities for name in variants]
    failed = {name: content["failed_paths"] for name, content in variants.items()}
    start = next(iter(variants))
    rounding = rounding_of(dataset)
    far = [_apart(row, rounding) for *_, row in rows]
    columns = {
        "": [_named(quantity, row["unit"]) if name == start else "" for quantity, name, row in rows],
        "variant": [name for _, name, _ in rows],
        ("value" if first["paths"] == 1 else "mean"): [_mean(row) for *_, row in rows],
        "at most": [with_error(row.get("upper_bound"), row.get("upper_bound_stderr")) for *_, row in rows],
        "step bias": [bias_text(row, 2) for *_, row in rows],
        f"minus {start}": ["" if name == start else _difference(row) for _, name, row in rows],
        "strong error": [_strong_error(row) for *_, row in rows],
        "exact": ["" if row["exact"] is None else f"{row['exact']:.8g}" for *_, row in rows],
        titled(far): far,
    }
    if any(failed.values()):
        columns["failed"] = [f"{failed[name]:,}" for _, name, _ in rows]
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    return laid_out(shown, set(range(len(variants), len(rows), len(variants))), unicode)


def _named(quantity: str, unit: str) -> str:
    return f"{quantity} [{unit}]" if unit not in ("", "1") else quantity


def _difference(row: Mapping[str, Any]) -> str:
    return with_error(row.get("difference"), row.get("difference_stderr"))


def _strong_error(row: Mapping[str, Any]) -> str:
    """Of all but the finest variant, from which it is."""
    return with_error(row["strong_error"], row["strong_error_stderr"]) if row.get("strong_error") else ""


def strong_order_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for each quantity whose strong order is known."""
    names = (*dataset.attrs["observables"].split(), *dataset.attrs["state_variables"].split())
    notes = []
    for name in names:
        if f"{name}_strong_order" not in dataset:
            continue
        order, error = (float(dataset[f"{name}_strong_order{end}"]) for end in ("", "_stderr"))
        if math.isfinite(order) and math.isfinite(error):
            doubt = dataset[f"{name}_strong_order"].attrs.get("note")
            notes.append(f"strong order of {name}: {with_error(order, error)}{f', {doubt}' if doubt else ''}")
    return notes


def laid_out(columns: Mapping[str, list[str]], ends: Collection[int], unicode: bool) -> Table:
    """A table of columns by title, with lines below the rows in which sections end, counted from 1.

    Where the terminal is narrow, what is in `FOLDED` is folded. No number is: half of one reads as another.
    """
    table = Table(box=HEAVY_HEAD if unicode else ASCII2)
    for title, cells in columns.items():
        least = FOLDED_WIDTH if title in FOLDED else max(map(cell_len, (title, *cells)))
        justify = "left" if title in LEFT else "right"
        table.add_column(title, justify=justify, overflow="fold", min_width=least)
    rows = list(zip(*columns.values(), strict=True))
    for number, cells in enumerate(rows, 1):
        texts = (cell if unicode else cell.replace("±", "+-") for cell in cells)
        table.add_row(*texts, end_section=number in ends and number < len(rows))
    return table


def run_title(dataset: "xr.Dataset") -> str:
    """Model and solver; those in which variants differ are left out."""
    attributes = dataset.attrs
    view = f" ({attributes['view']})" if "view" in attributes else ""
    parts = [f"{attributes['model']}{view}" if "model" in attributes else "", attributes.get("solver", "")]
    return ", ".join(part for part in parts if part) or "variants"


def closing_line(dataset: "xr.Dataset") -> str:
    """How large the run was, how long it took and how fast it was."""
    content = summary(dataset)
    if VARIANT in dataset.dims:
        some = next(iter(content["variants"].values()))
        paths = f"{len(content['variants'])} variants × {counted(some['paths'], 'path')}"
    else:
        paths = counted(content["paths"], "path")
    if content.get("failed_paths"):
        paths += f" ({content['failed_paths']:,} failed and left out)"
    rate = content["path_steps_per_s"]
    speed = f"{rate / 1e6:,.{int(rate < 1e7)}f} million" if rate >= 1e6 else f"{rate:,.0f}"
    steps = f" × {_steps_text(dataset)}" if _steps_text(dataset) else ""
    compiled = f"compiled in {float(dataset.attrs['compile_s']):.1f} s"
    return f"{paths}{steps} in {content['elapsed_s']:.2f} s, {speed} path-steps per second ({compiled})"


def _steps_text(dataset: "xr.Dataset") -> str:
    """What each path took; nothing where variants differ in it."""
    counts = ("steps", "events_mean", "leaps_mean", "accepted_steps_mean")
    return steps_text(dataset.attrs) if any(key in dataset.attrs for key in counts) else ""


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and the closing line: in colour on a terminal only, in ASCII where need be."""
    heading = f"{run_title(dataset)}, at t = {float(dataset['time'][-1]):g}"
    printed(
        file or sys.stdout,
        heading,
        lambda unicode: make_table(dataset, unicode),
        [
            *step_notes(dataset),
            *strong_order_notes(dataset),
            *bound_notes(dataset),
            *derived_notes(dataset),
            closing_line(dataset),
        ],
    )


def printed(file: TextIO, heading: str, table: Callable[[bool], Table], closings: Iterable[str]) -> None:
    """Print a heading, a table made for a terminal that knows Unicode or not, and closing lines."""
    console = Console(file=file, highlight=False, markup=False, width=None if file.isatty() else WIDEST)
    unicode = _knows(file, "┏━┓±×")
    content = table(unicode)
    if file.isatty():
        console.width = max(console.width, _least_width(console, content))
    with console.capture() as capture:
        console.print(heading, soft_wrap=True)
        console.print(content)
        for closing in closings:
            console.print(
                closing if unicode else closing.replace("×", "x").replace("±", "+-"), soft_wrap=True
            )
    text = capture.get()
    if not _knows(file, text):
        text = text.encode(file.encoding, "replace").decode(file.encoding)
    file.write(text)
    file.flush()


def _least_width(console: Console, content: Table) -> int:
    return Measurement.get(console, console.options.update(width=WIDEST), content).minimum


def _knows(file: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(file, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
