"""The picture of a run of particles: observables over time with their means, and distribution functions."""

from typing import TYPE_CHECKING

import numpy as np

from simkit.progress import counted
from simkit.results.plots.plot_layout import BLUE, COLOURS, GREY, VERMILION, titled_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 6
MOST_LINES = 8  # replicas that are drawn
ARGUMENTS = {"r": "r", "k": "k", "lag": "t"}


def plot_particles(dataset: "xr.Dataset") -> "Figure":
    """A row for each observable over time, and one for each distribution function."""
    scalars = dataset.attrs["observables"].split()[:MOST_ROWS]
    functions = [name for name in dataset.attrs["functions"].split() if name in dataset]
    rows = max(len(scalars) + len(functions), 1)
    with titled_figure(_title(dataset), (9, 2.5 * rows + 0.9)) as figure:
        grid = figure.add_gridspec(rows, 1)
        for row, name in enumerate(scalars):
            _over_time(figure.add_subplot(grid[row]), dataset, name)
        for row, name in enumerate(functions, len(scalars)):
            _function(figure.add_subplot(grid[row]), dataset, name)
    return figure


def _title(dataset: "xr.Dataset") -> str:
    a = dataset.attrs
    size = counted(int(a["particles"]), "particle")
    if int(a["paths"]) > 1:
        size = f"{counted(int(a['paths']), 'replica')} of {size}"
    return f"{a['potential']}, {a['solver']}: {size}, {counted(int(a['steps']), 'step')}"


def _over_time(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    """The series of the first replicas, and the mean of all with its error."""
    series, time = dataset[f"{name}_path"], dataset["time"]
    mean, stderr = float(dataset[f"{name}_mean"]), float(dataset[f"{name}_stderr"])
    values = np.atleast_2d(series.values)[:MOST_LINES]
    mark = "o" if len(time) == 1 else None
    for line in values:
        axes.plot(
            time.values, line, color=BLUE, linewidth=1, marker=mark, alpha=1 if len(values) == 1 else 0.6
        )
    if len(time) > 1 and np.isfinite(mean):
        text = f"mean {mean:.6g}" + (f" ± {stderr:.2g}" if np.isfinite(stderr) else "")
        axes.axhline(mean, color=VERMILION, linewidth=1.5, label=text)
        if np.isfinite(stderr):
            axes.axhspan(mean - stderr, mean + stderr, color=VERMILION, alpha=0.2, linewidth=0)
        axes.legend(loc="best", frameon=False)
    axes.set_ylabel(_label(name, series.attrs["units"]))
    axes.set_xlabel(_label("time", time.attrs["units"]))


def _function(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    """A function of a distance, a wave number or a time: a curve for each pair of species, or species."""
    function = dataset[name]
    argument = next(str(dim) for dim in function.dims if str(dim).rpartition("_")[2] in ARGUMENTS)
    kinds = [str(dim) for dim in function.dims if dim != argument]
    curves = function.transpose(*kinds, argument).values.reshape(-1, function.sizes[argument])
    labels = [str(label) for label in dataset[kinds[0]].values] if kinds else [""]
    x = dataset[argument]
    for i, (curve, label) in enumerate(zip(curves, labels, strict=True)):
        axes.plot(x.values, curve, color=COLOURS[i % len(COLOURS)], label=label, linewidth=1.5)
    if len(labels) > 1:
        axes.legend(loc="best", frameon=False)
    axes.set_ylabel(_label(name, function.attrs["units"]))
    axes.set_title(str(function.attrs["long_name"]), fontsize=10, loc="left", color=GREY)
    axes.set_xlabel(_label(ARGUMENTS[argument.rpartition("_")[2]], x.attrs["units"]))


def _label(name: str, unit: str) -> str:
    return name if unit in ("", "1") else f"{name} [{unit}]"
