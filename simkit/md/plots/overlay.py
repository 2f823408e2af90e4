"""The picture of variants of a run of particles: the same quantities overlaid, with a colour for each."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.md.plots.time_rows import (
    MOST_LINES,
    MOST_ROWS,
    figure_text,
    labelled,
    legend_aside,
    log_where_peaked,
    noted,
)
from simkit.progress import counted
from simkit.results.number_text import MARK
from simkit.results.plots.plot_layout import COLOURS, titled_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Variants = dict[str, xr.Dataset]

ARGUMENTS = {"r": "r", "k": "k", "lag": "t"}
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))  # of the first kinds of a function


def plot_overlay(variants: "Variants") -> "Figure":
    """A row for each observable over time, and one for each function such as g(r)."""
    first = next(iter(variants.values()))
    scalars = first.attrs["observables"].split()[:MOST_ROWS]
    functions = [name for name in first.attrs["functions"].split() if name in first]
    rows = max(len(scalars) + len(functions), 1)
    with titled_figure(_title(variants), (10, 2.5 * rows + 0.9)) as figure:
        grid = figure.add_gridspec(rows, 1)
        for row, name in enumerate(scalars):
            _over_time(figure.add_subplot(grid[row]), variants, name)
        for row, name in enumerate(functions, len(scalars)):
            _function(figure.add_subplot(grid[row]), variants, name)
    return figure


def _title(variants: "Variants") -> str:
    sizes = list(dict.fromkeys(size_text(one) for one in variants.values()))
    several = [counted(len(variants), "variant")] if len(variants) > 1 else []
    size = " × ".join([*several, *(sizes if len(sizes) == 1 else [])])
    kinds = [
        list(dict.fromkeys(one.attrs[key] for one in variants.values())) for key in ("potential", "solver")
    ]
    common = ", ".join(kind[0] for kind in kinds if len(kind) == 1)
    return f"{common}: {size}" if common else size


def size_text(dataset: "xr.Dataset") -> str:
    """Replicas, particles and steps."""
    a = dataset.attrs
    size = counted(int(a["particles"]), "particle")
    if int(a["paths"]) > 1:
        size = f"{counted(int(a['paths']), 'replica')} of {size}"
    return f"{size}, {counted(int(a['steps']), 'step') if int(a['steps']) else 'a single point'}"


def _over_time(axes: "Axes", variants: "Variants", name: str) -> None:
    """The series of the first replicas, pale, and the mean of all with its error."""
    first = next(iter(variants.values()))
    for number, (variant, one) in enumerate(variants.items()):
        time, colour = one["time"], COLOURS[number % len(COLOURS)]
        mean, stderr = float(one[f"{name}_mean"]), float(one[f"{name}_stderr"])
        for each in one[f"{name}_path"].values[: max(MOST_LINES // len(variants), 1)]:
            axes.plot(time.values, each, color=colour, linewidth=1, alpha=0.3)
        if len(time) > 1 and np.isfinite(mean):
            away = {"transient", "begins_away"} & one[f"{name}_mean"].attrs.keys()
            label = f"{variant}: mean {figure_text(mean, stderr, '')}{MARK if away else ''}"
            axes.axhline(mean, color=colour, linewidth=1.5, label=label)
            if np.isfinite(stderr):
                axes.axhspan(mean - stderr, mean + stderr, color=colour, alpha=0.2, linewidth=0)
    legend_aside(axes)
    axes.set_ylabel(labelled(name, first[f"{name}_path"].attrs["units"]))
    axes.set_xlabel(labelled("time", first["time"].attrs["units"]))


def _function(axes: "Axes", variants: "Variants", name: str) -> None:
    """A function of a distance, a wave number or a time, with its errors; dashes are for kinds of pairs."""
    first = next(iter(variants.values()))[name]
    argument = next(str(dim) for dim in first.dims if str(dim).rpartition("_")[2] in ARGUMENTS)
    kinds = [str(dim) for dim in first.dims if dim != argument]
    peaked = argument.endswith("_k")  # nothing is known between the wave numbers of a box
    if peaked:
        log_where_peaked(axes, [one[name].values for one in variants.values()])
    for number, (variant, one) in enumerate(variants.items()):
        curves, errors = (
            one[key].transpose(*kinds, argument).values.reshape(-1, one.sizes[argument])
            for key in (name, f"{name}_stderr")
        )
        labels = [str(label) for label in one[kinds[0]].values] if kinds else [""]
        x, colour = one[argument].values, COLOURS[number % len(COLOURS)]
        for i, (curve, error, label) in enumerate(zip(curves, errors, labels, strict=True)):
            text = " ".join(part for part in (variant, label if len(labels) > 1 else "") if part)
            if peaked:
                bars = {"fmt": "o", "markersize": 3, "linewidth": 1}
                axes.errorbar(x, curve, np.nan_to_num(error), color=colour, label=text, **bars)
                continue
            axes.plot(x, curve, color=colour, linestyle=DASHES[i % len(DASHES)], label=text, linewidth=1.5)
            if np.isfinite(error).any():
                axes.fill_between(x, curve - error, curve + error, color=colour, alpha=0.2, linewidth=0)
    legend_aside(axes)
    axes.set_ylabel(labelled(name, first.attrs["units"]))
    noted(axes, str(first.attrs["long_name"]))
    symbol = ARGUMENTS[argument.rpartition("_")[2]]
    axes.set_xlabel(labelled(symbol, next(iter(variants.values()))[argument].attrs["units"]))
