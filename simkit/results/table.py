"""The table of a run: numbers with their errors, for people."""

import math
import sys
from itertools import accumulate
from typing import TYPE_CHECKING, TextIO

from rich.table import Table

from simkit.progress import counted, steps_text
from simkit.results.difference_notes import difference_notes, difference_text
from simkit.results.event_notes import event_notes
from simkit.results.level_notes import level_notes
from simkit.results.narrow_notes import narrow_notes
from simkit.results.number_text import (
    bias_text,
    exact_difference,
    mean_text,
    rounding_of,
    row_title,
    titled,
    with_error,
)
from simkit.results.printing import ESTIMATED_ERROR, STANDARD_ERROR, laid_out, printed
from simkit.results.reduction_notes import reduction_notes
from simkit.results.step_notes import step_notes
from simkit.results.summary import SECTIONS, summary
from simkit.results.swept import is_swept, name_columns
from simkit.results.target_notes import target_notes
from simkit.results.titles import end_of, run_title
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr


def derived_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for each figure made of means that has no value."""
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
    names = dict.fromkeys(
        name
        for _, one in each_variant(dataset).items()
        for name in one.attrs.get("observables", "").split()
        if f"{name}_in_sample" in one and f"{name}_upper_bound" not in one
    )
    reason = "no Brownian noise drives the model"
    return [f"no upper bound of {', '.join(names)}: {reason}"] if names else []


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> Table:
    """Figures made of means first, then observables and the state at the end; empty columns are left out.

    Of variants there is a row for each, with the difference from the first one. Without `unicode` it is pure
    ASCII, but for what the user's own names and units say.
    """
    content = summary(dataset)
    several = "variants" in content
    variants = content.get("variants", {"": content})
    start, first = next(iter(variants.items()))
    sections = [[*first.get(section, {})] for section in SECTIONS]
    rows = [
        (quantity, name, one[section][quantity])
        for section, quantities in zip(SECTIONS, sections, strict=True)
        for quantity in quantities
        for name, one in variants.items()
    ]
    figures, rounding = [row for *_, row in rows], rounding_of(dataset)
    far = [exact_difference(row, rounding) for row in figures]

    swept, names = is_swept(dataset), name_columns(dataset, variants)

    def column(key: str) -> list[str]:
        return [with_error(row.get(key), row.get(f"{key}_stderr")) for row in figures]

    columns = {
        "": [
            row_title(quantity, row["unit"], several) if name == start else "" for quantity, name, row in rows
        ],
        **{key: [texts[name] for _, name, _ in rows] for key, texts in names.items()},
        ("value" if first["paths"] == 1 else "mean"): [mean_text(row) for row in figures],
        "in sample": [] if several else column("in_sample"),
        "at most": column("upper_bound"),
        "step bias": [bias_text(row, 2 if several else 3) for row in figures],
        f"minus {'the first' if swept else start}": [
            "" if name == start else cell
            for (_, name, _), cell in zip(rows, map(difference_text, figures), strict=True)
        ],
        # Of all but the finest variant, from which it is.
        "strong error": [
            cell if row.get("strong_error") else ""
            for row, cell in zip(figures, column("strong_error"), strict=True)
        ],
        "exact": ["" if row["exact"] is None else f"{row['exact']:.8g}" for row in figures],
        titled(far): far,
        "unit": [] if several else [row["unit"] for row in figures],
    }
    failed = {name: one["failed_paths"] for name, one in variants.items()}
    if any(failed.values()) and several:
        columns["failed"] = [f"{failed[name]:,}" for _, name, _ in rows]
    elif any(failed.values()):
        columns["paths"] = [f"{row['n']:,} ({failed['']:,} failed)" for row in figures]
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    ends = range(len(variants), len(rows), len(variants)) if several else [*accumulate(map(len, sections))]
    return laid_out(shown, ends, unicode)


def one_path_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for a single random path, whose values are no means."""
    random = dataset.attrs.get("kind", "ode") != "ode"
    note = (
        "these are the values of one random path, not means: take more ensemble.paths for means with errors"
    )
    return [note] if random and dataset.attrs.get("paths") == 1 else []


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


def closing_line(dataset: "xr.Dataset") -> str:
    """How large the run was, how long it took and how fast it was."""
    content = summary(dataset)
    if "variants" in content:
        counts = [one["paths"] for one in content["variants"].values()]
        what = counted(len(counts), "point" if is_swept(dataset) else "variant")
        same = len({*counts}) == 1
        paths = f"{what} × {counted(counts[0], 'path')}" if same else f"{what}, {sum(counts):,} paths in all"
    else:
        paths = counted(content["paths"], "path")
    if content.get("failed_paths"):
        paths += f" ({content['failed_paths']:,} failed and left out)"
    rate = content["path_steps_per_s"]
    speed = f"{rate / 1e6:,.{int(rate < 1e7)}f} million" if rate >= 1e6 else f"{rate:,.0f}"
    steps = f" × {_steps_text(dataset)}" if _steps_text(dataset) else ""
    compiled = f"compiled in {float(dataset.attrs['compile_s']):.1f} s"
    return f"{paths}{steps} in {content['elapsed_s']:.2f} s, {speed} {_work(dataset)} per second ({compiled})"


def _work(dataset: "xr.Dataset") -> str:
    """What the speed counts: steps of paths, of networks events or leaps; of variants all that they count."""
    each = (one.attrs for one in each_variant(dataset).values())
    kinds = (next((x for x in ("events", "leaps") if f"{x}_mean" in attrs), "path-steps") for attrs in each)
    return " and ".join(dict.fromkeys(kinds))


def _steps_text(dataset: "xr.Dataset") -> str:
    """Steps per path; nothing where variants differ in it."""
    counts = ("steps", "events_mean", "leaps_mean", "accepted_steps_mean")
    return steps_text(dataset.attrs) if any(key in dataset.attrs for key in counts) else ""


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and the closing line: in colour on a terminal only, in ASCII where need be."""
    heading = f"{run_title(dataset)}, at {end_of(dataset)}"
    events = event_notes(dataset)
    causes = [
        line for line in events if line.startswith("!")
    ]  # an event that never happened, before all else
    printed(
        file or sys.stdout,
        heading,
        lambda unicode: make_table(dataset, unicode),
        [
            *causes,
            *one_path_notes(dataset),
            *target_notes(dataset),
            *reduction_notes(dataset),
            *level_notes(dataset),
            *step_notes(dataset),
            *difference_notes(dataset),
            *(line for line in events if line not in causes),
            *narrow_notes(dataset),
            *strong_order_notes(dataset),
            *bound_notes(dataset),
            *derived_notes(dataset),
            closing_line(dataset),
        ],
        _meaning_of_errors(dataset),
    )


def _meaning_of_errors(dataset: "xr.Dataset") -> str:
    """What stands after ±. One path has no sampling error: there it is that of the estimated step bias."""
    single = all(one.attrs["paths"] == 1 for one in each_variant(dataset).values())
    return ESTIMATED_ERROR if single else STANDARD_ERROR
