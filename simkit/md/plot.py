"""The picture of a run of particles: observables over time with their means, and distribution functions."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.progress import counted
from simkit.results.plots.plot_layout import BLUE, COLOURS, GREY, VERMILION, titled_figure
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 6
MOST_LINES = 8  # replicas that are drawn
ARGUMENTS = {"r": "r", "k": "k", "lag": "t"}
DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))  # of the first kinds of a function


def plot_particles(dataset: "xr.Dataset") -> "Figure":
    """A row for each observable over time, and one for each distribution function.

    Variants are laid over each other, each in a colour of its own.
    """
    variants = each_variant(dataset)
    first = next(iter(variants.values()))
    scalars = first.attrs["observables"].split()[:MOST_ROWS]
    functions = [name for name in first.attrs["functions"].split() if name in first]
    rows = max(len(scalars) + len(functions), 1)
    with titled_figure(_title(variants), (9, 2.5 * rows + 0.9)) as figure:
        grid = figure.add_gridspec(rows, 1)
        for row, name in enumerate(scalars):
            _over_time(figure.add_subplot(grid[row]), variants, name)
        for row, name in enumerate(functions, len(scalars)):
            _function(figure.add_subplot(grid[row]), variants, name)
    return figure


def _title(variants: "dict[str, xr.Dataset]") -> str:
    each = list(dict.fromkeys(_size(one) for one in variants.values()))
    size = each[0] if len(each) == 1 else ""
    if len(variants) > 1 or "" not in variants:
        size = " × ".join(part for part in (counted(len(variants), "variant"), size) if part)
    kinds = [
        list(dict.fromkeys(one.attrs[key] for one in variants.values())) for key in ("potential", "solver")
    ]
    common = ", ".join(kind[0] for kind in kinds if len(kind) == 1)
    return f"{common}: {size}" if common else size


def _size(dataset: "xr.Dataset") -> str:
    a = dataset.attrs
    size = counted(int(a["particles"]), "particle")
    if int(a["paths"]) > 1:
        size = f"{counted(int(a['paths']), 'replica')} of {size}"
    return f"{size}, {counted(int(a['steps']), 'step')}"


def _over_time(axes: "Axes", variants: "dict[str, xr.Dataset]", name: str) -> None:
    """The series of the first replicas, of variants of the first one, and the mean of all with its error."""
    single, lines = "" in variants, max(MOST_LINES // len(variants), 1)
    first = next(iter(variants.values()))
    for number, (variant, one) in enumerate(variants.items()):
        series, time = one[f"{name}_path"], one["time"]
        mean, stderr = float(one[f"{name}_mean"]), float(one[f"{name}_stderr"])
        values = np.atleast_2d(series.values)[:lines]
        line, level = (BLUE, VERMILION) if single else (COLOURS[number % len(COLOURS)],) * 2
        mark = "o" if len(time) == 1 else None
        alpha = (1.0 if len(values) == 1 else 0.6) * (1.0 if single else 0.35)
        for each in values:
            axes.plot(time.values, each, color=line, linewidth=1, marker=mark, alpha=alpha)
        if len(time) > 1 and np.isfinite(mean):
            text = f"mean {mean:.6g}" + (f" ± {stderr:.2g}" if np.isfinite(stderr) else "")
            axes.axhline(mean, color=level, linewidth=1.5, label=text if single else f"{variant}: {text}")
            if np.isfinite(stderr):
                axes.axhspan(mean - stderr, mean + stderr, color=level, alpha=0.2, linewidth=0)
            axes.legend(loc="best", frameon=False, fontsize=None if single else 9)
    axes.set_ylabel(_label(name, first[f"{name}_path"].attrs["units"]))
    axes.set_xlabel(_label("time", first["time"].attrs["units"]))


def _function(axes: "Axes", variants: "dict[str, xr.Dataset]", name: str) -> None:
    """A function of a distance, a wave number or a time: a curve for each pair of species, or species."""
    single, first = "" in variants, next(iter(variants.values()))[name]
    argument = next(str(dim) for dim in first.dims if str(dim).rpartition("_")[2] in ARGUMENTS)
    kinds = [str(dim) for dim in first.dims if dim != argument]
    for number, (variant, one) in enumerate(variants.items()):
        function = one[name]
        curves = function.transpose(*kinds, argument).values.reshape(-1, function.sizes[argument])
        labels = [str(label) for label in one[kinds[0]].values] if kinds else [""]
        x = one[argument]
        for i, (curve, label) in enumerate(zip(curves, labels, strict=True)):
            colour, dashes = (i, "solid") if single else (number, DASHES[i % len(DASHES)])
            parts = [variant, label if len(labels) > 1 else ""]
            axes.plot(
                x.values,
                curve,
                color=COLOURS[colour % len(COLOURS)],
                linestyle=dashes,
                label=" ".join(part for part in parts if part),
                linewidth=1.5,
            )
    if not single or (kinds and first.sizes[kinds[0]] > 1):
        axes.legend(loc="best", frameon=False)
    axes.set_ylabel(_label(name, first.attrs["units"]))
    axes.set_title(str(first.attrs["long_name"]), fontsize=10, loc="left", color=GREY)
    axes.set_xlabel(_label(ARGUMENTS[argument.rpartition("_")[2]], first[argument].attrs["units"]))


def _label(name: str, unit: str) -> str:
    return name if unit in ("", "1") else f"{name} [{unit}]"
