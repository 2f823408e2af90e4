"""The table of a run of particles: means with their errors, for people and as plain data."""

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.table import Table

from simkit.md.number_notes import note_of
from simkit.progress import counted
from simkit.results.number_text import MARK, finite_or_none, row_title, with_error
from simkit.results.printing import laid_out, printed
from simkit.results.swept import is_swept, name_columns
from simkit.results.variants import each_variant, variant_names

if TYPE_CHECKING:
    import xarray as xr

RATES = ("elapsed_s", "atom_steps_per_s")
AFTER = "largest_force_after_"  # attributes, by stage


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The figures of the table; None where there is no finite number. Of variants those of each by name."""
    attributes = dataset.attrs
    if variant_names(dataset):
        variants = {name: summary(one) for name, one in each_variant(dataset).items()}
        return {"variants": variants} | {key: float(attributes[key]) for key in RATES}
    content: dict[str, Any] = {
        "observables": {name: _figures(dataset, name) for name in attributes["observables"].split()},
        "paths": int(attributes["paths"]),
        "steps": int(attributes["steps"]),
        "particles": int(attributes["particles"]),
        "ensemble": str(attributes["ensemble"]),
        "units": str(attributes["units"]),
        "forces": str(attributes["forces"]),
        **{key: str(attributes[key]) for key in ("start", "errors") if key in attributes},
    }
    numbers = {
        key: figures for name in attributes["numbers"].split() for key, figures in _each(dataset, name)
    }
    if numbers:
        content["numbers"] = numbers
    if "drift" in dataset:
        drift = dataset["drift"]
        content["drift"] = {
            "value": finite_or_none(drift),
            "stderr": finite_or_none(dataset["drift_stderr"]),
            "unit": str(drift.attrs["units"]),
        }
        if "stderr_unknown" in drift.attrs:
            content["drift"]["stderr_unknown"] = str(drift.attrs["stderr_unknown"])
    return content | {key: float(attributes[key]) for key in RATES}


def _each(dataset: "xr.Dataset", name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of a number, of each species where there are several."""
    value, stderr = dataset[name], dataset[f"{name}_stderr"]
    unknown = value.attrs.get("stderr_unknown")
    about = {"unit": str(value.attrs["units"])}
    kinds = [str(kind) for kind in dataset["species"].values] if value.dims else [""]
    for i, kind in enumerate(kinds):
        label = f"{name} {kind}" if len(kinds) > 1 else name
        pair = np.ravel(value.values)[i], np.ravel(stderr.values)[i]
        note = note_of(str(value.attrs.get("note", "")), kinds, kind)
        figures = {"mean": finite_or_none(pair[0]), "stderr": finite_or_none(pair[1])} | about
        figures |= {"stderr_unknown": str(unknown)} if unknown and figures["stderr"] is None else {}
        yield label, figures | ({"note": note} if note else {})


def _figures(dataset: "xr.Dataset", name: str) -> dict[str, Any]:
    """The figures of one observable."""
    mean = dataset[f"{name}_mean"]
    figures: dict[str, Any] = {
        "mean": finite_or_none(mean),
        "stderr": finite_or_none(dataset[f"{name}_stderr"]),
        "correlation_time": finite_or_none(dataset[f"{name}_correlation_time"]),
        "correlation_time_stderr": finite_or_none(dataset[f"{name}_correlation_time_stderr"]),
        "first": finite_or_none(dataset[f"{name}_path"].isel(path=0, time=0)),
        "last": finite_or_none(dataset[f"{name}_path"].isel(path=0, time=-1)),
        "n": int(mean.attrs["n"]),
        "unit": str(mean.attrs["units"]),
    }
    keys = ("transient", "settled_mean", "settled_stderr", "begins_away")
    figures |= {key: finite_or_none(mean.attrs[key]) for key in keys if key in mean.attrs}
    reason = mean.attrs.get("stderr_unknown")
    return figures | ({"stderr_unknown": str(reason)} if reason else {})


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> Table:
    """A row for each observable, with its mean, how long it is correlated, and its first and last value.

    Numbers such as a diffusion coefficient follow. Of a single point there are values only, and of variants a
    row for each.
    """
    variants = {name: summary(one) for name, one in each_variant(dataset).items()}
    several = "" not in variants
    sections = [_names(variants, section) for section in ("observables", "numbers")]
    places = [
        (section, key, name)
        for section, keys in zip(("observables", "numbers"), sections, strict=True)
        for key in keys
        for name, one in variants.items()
        if key in one.get(section, {})
    ]
    rows = [variants[name][section][key] for section, key, name in places]
    heads = [row_title(key, row["unit"], several) for (_, key, _), row in zip(places, rows, strict=True)]
    starts = [i for i, head in enumerate(heads) if i == 0 or head != heads[i - 1]]
    single = int(dataset.sizes["time"]) == 1
    columns = {"": [head if i in starts else "" for i, head in enumerate(heads)]}
    for key, texts in name_columns(dataset, variants).items():
        columns[key] = [texts[name] for *_, name in places]
    if single:
        columns["value"] = ["" if row["mean"] is None else f"{row['mean']:.12g}" for row in rows]
    else:
        marks = [MARK if {"transient", "begins_away"} & row.keys() else "" for row in rows]
        columns["mean"] = [
            _with_error(row, "mean", "stderr") + mark for row, mark in zip(rows, marks, strict=True)
        ]
        columns[f"correlated for [{dataset['time'].attrs['units']}]"] = [
            _with_error(row, "correlation_time", "correlation_time_stderr") for row in rows
        ]
    if not single and not several and int(dataset.attrs["paths"]) == 1:
        columns["at first"] = [_short(row.get("first")) for row in rows]
        columns["at last"] = [_short(row.get("last")) for row in rows]
    columns["unit"] = [] if several else [row["unit"] for row in rows]
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    return laid_out(shown, starts if several else (len(sections[0]),), unicode)


def _names(variants: dict[str, dict[str, Any]], section: str) -> list[str]:
    """The rows of a section that any variant has."""
    return list(dict.fromkeys(key for one in variants.values() for key in one.get(section, {})))


def _with_error(row: dict[str, Any], figure: str, stderr: str) -> str:
    error = row.get(stderr)
    return with_error(row.get(figure), math.nan if error is None else error)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def closing_lines(dataset: "xr.Dataset") -> list[str]:
    """What no standard error is known of, the drift of the energy, the forces, and the speed.

    Lines that several variants have in common stand there once.
    """
    each = each_variant(dataset)
    lines: dict[str, list[str]] = {}
    for name, one in each.items():
        for line in _notes(one):
            lines.setdefault(line, []).append(name)
    notes = [line if len(of) == len(each) else _of_variants(line, of) for line, of in lines.items()]
    return [*notes, _speed(dataset, each)]


def _of_variants(line: str, names: list[str]) -> str:
    """A line that holds for some variants; an exclamation mark stays in front."""
    mark, text = ("! ", line[2:]) if line.startswith("! ") else ("", line)
    return f"{mark}{', '.join(names)}: {text}"


def _notes(dataset: "xr.Dataset") -> list[str]:
    """What no standard error is known of, the drift of the energy, and the forces."""
    content, attributes = summary(dataset), dataset.attrs
    reasons: dict[str, list[str]] = {}
    rows = content["observables"] | content.get("numbers", {})
    for name, row in rows.items():
        if "stderr_unknown" in row:
            reasons.setdefault(row["stderr_unknown"], []).append(name)
    for name in attributes["functions"].split():
        if name in dataset and "stderr_unknown" in dataset[name].attrs:
            unknown = np.isnan(dataset[f"{name}_stderr"].values)
            some = "" if unknown.all() else f" ({unknown.sum():,} of {unknown.size:,} values)"
            reasons.setdefault(str(dataset[name].attrs["stderr_unknown"]), []).append(f"{name}{some}")
    drift = content.get("drift", {})
    if drift.get("value") is not None and "stderr_unknown" in drift:
        reasons.setdefault(drift["stderr_unknown"], []).append("drift")
    lines = [f"error of {', '.join(names)} unknown: {reason}" for reason, names in reasons.items()]
    lines += _transients(dataset, content["observables"])
    lines += list(dict.fromkeys(f"{name}: {row['note']}" for name, row in rows.items() if "note" in row))
    if drift.get("value") is not None:
        text = _with_error(drift, "value", "stderr")
        lines.append(f"drift of the conserved energy: {text} {drift['unit']} per particle")
    for key, force in attributes.items():
        if key.startswith(AFTER):
            lines.append(f"largest force after the stage {key.removeprefix(AFTER)}: {force:.3g}")
    lines += [content[key] for key in ("errors", "start") if key in content]
    return [*lines, content["forces"]]


def _transients(dataset: "xr.Dataset", rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """That means include the way from the start to equilibrium, and what they are without it."""
    away = {name: row for name, row in rows.items() if "transient" in row}
    later = [
        f"{name} {_with_error(row, 'settled_mean', 'settled_stderr')} from {row['transient']:.3g} on"
        + ("" if row["settled_stderr"] is not None else ", where it still approaches")
        for name, row in away.items()
    ]
    if later:
        yield (
            "! the run begins away from equilibrium, and its means include that; without the beginning "
            f"[{dataset['time'].attrs['units']}]: {', '.join(later)}; equilibrate in a stage before the run"
        )
    far = [f"{name} {row['begins_away']:.0f}" for name, row in rows.items() if "begins_away" in row]
    if far:
        yield (
            f"! the run begins away from equilibrium: {', '.join(far)} standard deviations from what "
            "follows, and means include the way from there; equilibrate in a stage before the run"
        )


def _speed(dataset: "xr.Dataset", variants: "dict[str, xr.Dataset]") -> str:
    """How large the run was, how long it took and how fast it was."""
    sizes = list(dict.fromkeys(run_size(one) for one in variants.values()))
    size = sizes[0] if len(sizes) == 1 else ""
    if len(variants) > 1:
        what = "point" if is_swept(dataset) else "variant"
        size = " × ".join(part for part in (counted(len(variants), what), size) if part)
    elapsed, rate = (float(dataset.attrs[key]) for key in RATES)
    compiled = f"compiled in {float(dataset.attrs['compile_s']):.1f} s"
    if all(int(one.attrs["steps"]) == 0 for one in variants.values()):
        return f"{size} in {elapsed:.2f} s ({compiled})"
    speed = f"{rate / 1e6:,.2f} million" if rate >= 1e6 else f"{rate:,.0f}"
    return f"{size} in {elapsed:.2f} s, {speed} atom-steps per second ({compiled})"


def run_size(dataset: "xr.Dataset") -> str:
    """Replicas, particles and steps."""
    steps, paths, particles = (int(dataset.attrs[key]) for key in ("steps", "paths", "particles"))
    size = counted(particles, "particle")
    if paths > 1:
        size = f"{counted(paths, 'replica')} × {size}"
    return f"{size} × {counted(steps, 'step')}" if steps else size


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and the closing lines: in colour on a terminal only, in ASCII where need be."""
    lines = closing_lines(dataset)
    printed(file or sys.stdout, title(dataset), lambda unicode: make_table(dataset, unicode), lines)


def title(dataset: "xr.Dataset") -> str:
    """Potential, method, ensemble and units; what differs between variants is left out."""
    attributes = dataset.attrs
    single = int(dataset.sizes["time"]) == 1
    method = f"{attributes['solver']} ({attributes['ensemble']})" if "solver" in attributes else ""
    parts = [attributes.get("potential", ""), "a single point" if single else method]
    return ", ".join(part for part in (*parts, f"units {attributes['units']}") if part)
