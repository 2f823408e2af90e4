"""Rows of the picture over time: observables with their means, and the energy with its drift."""

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from simkit.results.number_text import with_error
from simkit.results.plots.plot_layout import BLUE, GREY, VERMILION, shortened

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

MOST_ROWS = 6
LETTERS = {"sigma": "σ", "epsilon": "ε", "tau": "τ"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+")
MOST_LINES = 8  # replicas that are drawn
PEAK = 20  # times the median: more than any liquid has
LOWEST = 1e-6  # of the highest peak: what is less is rounding
DRIFT = "drift"
CONSERVED = ("conserved_energy", "conserved_energy/atoms")
TOTAL = ("total_energy", "total_energy/atoms")  # conserved too, where nothing gives or takes energy


def time_rows(dataset: "xr.Dataset") -> list[str]:
    """The observables that have a row, and the drift of the energy; none of a single point.

    The conserved energy has one row, in which it is drawn from its start.
    """
    if dataset.sizes["time"] < 2:
        return []
    names = dataset.attrs["observables"].split()
    if DRIFT not in dataset:
        return names[:MOST_ROWS]
    again = (*CONSERVED, *TOTAL) if dataset.attrs["ensemble"] == "NVE" else CONSERVED
    own = [name for name in names if _text(dataset, name) not in again]
    return [*own[: MOST_ROWS - 1], DRIFT]


def draw_row(axes: "Axes", dataset: "xr.Dataset", name: str, last: bool) -> None:
    """The series of the first replicas, with the mean of all or with the drift; the last row says `time`."""
    time = dataset["time"]
    values = dataset[f"{name}_path"].values[:MOST_LINES]
    scale = _draw_drift(axes, dataset) if name == DRIFT else _draw_mean(axes, dataset, name)
    for line in values:
        alpha = 1.0 if len(values) == 1 else 0.5
        mark = "o" if len(time) < 20 else ""
        axes.plot(time.values, line / scale, color=BLUE, linewidth=1, alpha=alpha, marker=mark, zorder=1.5)
    axes.set_xlim(time.values[0], time.values[-1])
    axes.margins(y=0.1)
    axes.locator_params(axis="x", nbins=6)
    axes.locator_params(axis="y", nbins=4)
    if last:
        axes.set_xlabel(labelled("time", time.attrs["units"]))
    else:
        axes.tick_params(labelbottom=False)


def labelled(name: str, unit: str) -> str:
    """A name with its unit, if it has one."""
    return name if unit in ("", "1") else f"{name} [{in_print(unit)}]"


def in_print(unit: str) -> str:
    """A unit with Greek letters and raised numbers."""
    unit = re.sub(r"\^(-?\d+)", lambda power: power[1].translate(RAISED), unit)
    return re.sub("|".join(LETTERS), lambda letter: LETTERS[letter[0]], unit)


def number_in_print(text: str) -> str:
    """A number with a minus sign, and a raised exponent."""
    text = re.sub(r"e([+-]?)0*(\d+)", lambda power: f"×10{(power[1] + power[2]).translate(RAISED)}", text)
    return text.replace("-", "−")


def legend_aside(axes: "Axes") -> None:
    """A legend to the right of a panel, where it hides no curve."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def log_where_peaked(axes: "Axes", values: "list[np.ndarray]") -> None:
    """A logarithmic axis upwards where peaks, such as a crystal's, would make a line of all else."""
    seen = np.concatenate([np.ravel(each) for each in values])
    seen = seen[np.isfinite(seen) & (seen > 0)]
    if not seen.size or seen.max() < PEAK * np.median(seen):
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(max(seen.min(), LOWEST * seen.max()) / 2, 2 * seen.max())


def noted(axes: "Axes", left: str, right: str = "") -> None:
    """What a panel shows, above it on the left; its figures on the right."""
    axes.set_title(left, fontsize=9, loc="left", color=GREY)
    axes.set_title(right, fontsize=9, loc="right", color=VERMILION)


def figure_text(value: float, stderr: float, unit: str) -> str:
    """A figure with its error, or a question mark where that is unknown, and its unit."""
    text = number_in_print(with_error(value, stderr, 2))
    return text if unit in ("", "1") else f"{text} {in_print(unit)}"


def _text(dataset: "xr.Dataset", name: str) -> str:
    """The expression of an observable, without spaces."""
    return str(dataset[f"{name}_path"].attrs["long_name"]).replace(" ", "")


def _draw_mean(axes: "Axes", dataset: "xr.Dataset", name: str) -> float:
    """The mean with its error; returns the unit of the axis."""
    series = dataset[f"{name}_path"]
    mean, stderr = float(dataset[f"{name}_mean"]), float(dataset[f"{name}_stderr"])
    unit, text = series.attrs["units"], str(series.attrs["long_name"])
    axes.axhline(mean, color=VERMILION, linewidth=1.2)
    if np.isfinite(stderr):
        axes.axhspan(mean - stderr, mean + stderr, color=VERMILION, alpha=0.25, linewidth=0)
    axes.set_ylabel(labelled(name, unit))
    noted(axes, shortened(text, 40), f"mean {figure_text(mean, stderr, unit)}")
    return 1.0


def _draw_drift(axes: "Axes", dataset: "xr.Dataset") -> float:
    """The line through the mean of all series, and between which slopes it lies within one error.

    Returns the unit of the axis, a power of ten.
    """
    series, time = dataset[f"{DRIFT}_path"], dataset["time"].values
    slope, stderr = float(dataset[DRIFT]), float(dataset[f"{DRIFT}_stderr"])
    largest = float(np.abs(series).max())
    exponent = math.floor(math.log10(largest)) if largest > 0 else 0
    scale = 10.0**exponent
    since, middle = time - time.mean(), float(series.mean())
    axes.plot(time, (middle + slope * since) / scale, color=VERMILION, linewidth=1.2)
    if np.isfinite(stderr):
        low, high = ((middle + (slope + sign * stderr) * since) / scale for sign in (-1, 1))
        axes.fill_between(time, low, high, color=VERMILION, alpha=0.25, linewidth=0)
    power = f"10^{exponent} " if exponent else ""
    axes.set_ylabel(labelled("ΔE/N", f"{power}{series.attrs['units']}"))
    noted(axes, "conserved energy", f"drift {figure_text(slope, stderr, dataset[DRIFT].attrs['units'])}")
    return scale
