"""The picture of a multilevel run: means and variances on each level, and its paths."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.results.number_text import with_error
from simkit.results.plots.plot_layout import COLOURS, GREY, run_name, titled_figure

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: Any = {"marker": "o", "capsize": 3, "zorder": 4}


def plot_levels(dataset: "xr.Dataset") -> "Figure":
    """Three panels over the levels, with logarithmic axes: sizes of means, variances and paths."""
    names = dataset.attrs["target_of"].split()[: len(COLOURS)]
    title = f"{run_name(dataset)}   {int(dataset.attrs['paths']):,} paths on {dataset.sizes['level']} levels"
    with titled_figure(title, (12, 4.4)) as figure:
        means, variances, paths = (figure.add_subplot(1, 3, number) for number in (1, 2, 3))
        for name, colour in zip(names, COLOURS, strict=False):
            mean, error, variance = (
                dataset[f"{name}_level_{key}"].values for key in ("mean", "stderr", "variance")
            )
            _with_power(means, dataset, name, "alpha", np.abs(mean), error, colour)
            _with_power(variances, dataset, name, "beta", variance, None, colour)
        paths.plot(dataset["level"], dataset["paths"], color=GREY, marker="o")
        titles = "size of the mean of differences", "variance of differences", "paths"
        for axes, text in zip((means, variances, paths), titles, strict=True):
            axes.set_yscale("log", base=10)
            axes.set_title(text, loc="left", fontsize=11)
            axes.set_xticks(dataset["level"].values, [f"{n:,}" for n in dataset["steps"].values])
            axes.set_xlabel("steps")
        for axes in (means, variances):
            axes.legend(frameon=False, fontsize=9)
    return figure


def _with_power(
    axes: "Axes",
    dataset: "xr.Dataset",
    name: str,
    key: str,
    sizes: np.ndarray,
    errors: np.ndarray | None,
    colour: str,
) -> None:
    """The sizes of a quantity on each level, those of differences joined, and the power in the legend."""
    rate, stderr = (float(dataset[f"{name}_{key}{end}"]) for end in ("", "_stderr"))
    power = f", power {with_error(rate, stderr, 2)}" if np.isfinite(rate) else ""
    levels = dataset["level"].values
    seen = sizes > 0
    axes.errorbar(
        levels[seen][1:],
        sizes[seen][1:],
        None if errors is None else errors[seen][1:],
        color=colour,
        label=f"{name}{power}",
        **STYLE,
    )
    axes.plot(levels[:1], sizes[:1], color=colour, marker="s", linestyle="")
