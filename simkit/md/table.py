"""The table of a run of particles: means with their errors, for people and as plain data."""

import math
import sys
from typing import TYPE_CHECKING, Any, TextIO

from rich.table import Table

from simkit.progress import counted
from simkit.results.number_text import with_error
from simkit.results.printing import laid_out, printed

if TYPE_CHECKING:
    import xarray as xr

RATES = ("elapsed_s", "atom_steps_per_s")


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The figures of the table; None where there is no finite number."""
    attributes = dataset.attrs
    content: dict[str, Any] = {
        "observables": {name: _figures(dataset, name) for name in attributes["observables"].split()},
        "paths": int(attributes["paths"]),
        "steps": int(attributes["steps"]),
        "particles": int(attributes["particles"]),
        "ensemble": str(attributes["ensemble"]),
        "units": str(attributes["units"]),
        "forces": str(attributes["forces"]),
    }
    if "drift" in dataset:
        drift = dataset["drift"]
        content["drift"] = {
            "value": _finite(drift),
            "stderr": _finite(dataset["drift_stderr"]),
            "unit": str(drift.attrs["units"]),
        }
    return content | {key: float(attributes[key]) for key in RATES}


def _figures(dataset: "xr.Dataset", name: str) -> dict[str, Any]:
    """The figures of one observable."""
    mean = dataset[f"{name}_mean"]
    figures: dict[str, Any] = {
        "mean": _finite(mean),
        "stderr": _finite(dataset[f"{name}_stderr"]),
        "correlation_time": _finite(dataset[f"{name}_correlation_time"]),
        "first": _finite(dataset[f"{name}_path"].isel(path=0, time=0)),
        "last": _finite(dataset[f"{name}_path"].isel(path=0, time=-1)),
        "n": int(mean.attrs["n"]),
        "unit": str(mean.attrs["units"]),
    }
    reason = mean.attrs.get("stderr_unknown")
    return figures | ({"stderr_unknown": str(reason)} if reason else {})


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def make_table(dataset: "xr.Dataset", unicode: bool = True) -> Table:
    """A row for each observable: its mean, how long it is correlated, and its first and last value."""
    figures = summary(dataset)["observables"]
    rows = list(figures.values())
    single = int(dataset.sizes["time"]) == 1

    def shown(row: dict[str, Any]) -> str:
        mean, error = row["mean"], row["stderr"]
        if mean is None:
            return ""
        if error is None:
            return f"{mean:.6g}" + ("" if single else " ± ?")
        return with_error(mean, error)

    if single and all(row["n"] == 1 for row in rows):
        columns = {"": [*figures], "value": [f"{row['mean']:.12g}" for row in rows]}
    else:
        columns = {
            "": [*figures],
            "mean": [shown(row) for row in rows],
            "correlated for": [_short(row["correlation_time"]) for row in rows],
            "at first": [_short(row["first"]) for row in rows],
            "at last": [_short(row["last"]) for row in rows],
        }
        if int(dataset.attrs["paths"]) > 1:
            del columns["at first"], columns["at last"]
    columns["unit"] = [row["unit"] for row in rows]
    return laid_out({title: cells for title, cells in columns.items() if any(cells)}, (), unicode)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def closing_lines(dataset: "xr.Dataset") -> list[str]:
    """What no standard error is known of, the drift of the energy, the forces, and the speed."""
    content, attributes = summary(dataset), dataset.attrs
    reasons: dict[str, list[str]] = {}
    for name, row in content["observables"].items():
        if "stderr_unknown" in row:
            reasons.setdefault(row["stderr_unknown"], []).append(name)
    lines = [f"error of {', '.join(names)} {reason}" for reason, names in reasons.items()]
    if "drift" in content:
        drift = content["drift"]
        if drift["value"] is not None:
            text = with_error(drift["value"], drift["stderr"]) if drift["stderr"] else f"{drift['value']:.3g}"
            unit = f" {drift['unit']}" if drift["unit"] else ""
            lines.append(f"energy drift: {text}{unit} per particle")
    lines.append(content["forces"])
    steps, paths = content["steps"], content["paths"]
    size = counted(content["particles"], "particle")
    if paths > 1:
        size = f"{counted(paths, 'replica')} × {size}"
    rate = content["atom_steps_per_s"]
    speed = f"{rate / 1e6:,.2f} million" if rate >= 1e6 else f"{rate:,.0f}"
    compiled = f"compiled in {float(attributes['compile_s']):.1f} s"
    if steps:
        size += f" × {counted(steps, 'step')}"
        lines.append(f"{size} in {content['elapsed_s']:.2f} s, {speed} atom-steps per second ({compiled})")
    else:
        lines.append(f"{size} in {content['elapsed_s']:.2f} s ({compiled})")
    return lines


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and the closing lines: in colour on a terminal only, in ASCII where need be."""
    attributes = dataset.attrs
    heading = (
        f"{attributes['potential']}, {attributes['solver']} ({attributes['ensemble']}), units "
        f"{attributes['units']}"
        if int(attributes["steps"])
        else f"{attributes['potential']}, a single point, units {attributes['units']}"
    )
    printed(file or sys.stdout, heading, lambda unicode: make_table(dataset, unicode), closing_lines(dataset))
