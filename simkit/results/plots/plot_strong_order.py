"""The picture of variants on the same Brownian paths: strong errors against the length of a step."""

from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.results.number_text import with_error
from simkit.results.plots.plot_layout import BLUE, GREY, VERMILION, run_name, titled_figure
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 4  # quantities
SLOPES = {"slope 1/2": (0.5, (0, (1.5, 1.5))), "slope 1": (1.0, (0, (5, 2)))}


def with_strong_orders(dataset: "xr.Dataset") -> list[str]:
    """The quantities with a strong order, as many as there is room for; none of other datasets."""
    names = [*dataset.attrs["state_variables"].split(), *dataset.attrs["observables"].split()]
    known = [name for name in names if np.isfinite(dataset.get(f"{name}_strong_order", np.nan))]
    return [name for name in known if (dataset[f"{name}_strong_error"] > 0).sum() > 1][:MOST]


def plot_strong_orders(dataset: "xr.Dataset", names: list[str]) -> "Figure":
    """A panel for each quantity, both axes logarithmic, with the fitted curve and slopes to compare with."""
    steps = {name: float(one.attrs["dt"]) for name, one in each_variant(dataset).items()}
    finest = min(steps, key=lambda name: steps[name])
    paths = f"{int(dataset.attrs['paths']):,} paths"
    title = f"{run_name(dataset)}   {paths}, compared with those of variant {finest}"
    with titled_figure(title, (12, 5.4 * -(-len(names) // 2)), pads={}) as figure:
        for number, name in enumerate(names, 1):
            axes = figure.add_subplot(-(-len(names) // 2), min(len(names), 2), number)
            _panel(axes, dataset, name, steps)
            if number == 1:
                axes.legend(frameon=False, loc="upper left")
    return figure


def _panel(axes: "Axes", dataset: "xr.Dataset", name: str, steps: dict[str, float]) -> None:
    from matplotlib.ticker import LogLocator

    lengths = np.array([steps[str(variant)] for variant in dataset["variant"].values])
    errors, spreads = (dataset[f"{name}_strong_error{end}"].values for end in ("", "_stderr"))
    order, spread = (float(dataset[f"{name}_strong_order{end}"]) for end in ("", "_stderr"))
    seen, shortest = errors > 0, lengths.min()
    every = np.geomspace(lengths[seen].min(), lengths[seen].max(), 50)

    def power_law(h):
        return np.sqrt(h ** (2 * order) - shortest ** (2 * order))

    scale = np.exp(np.mean(np.log(errors[seen] / power_law(lengths[seen]))))
    axes.plot(
        every,
        scale * power_law(every),
        color=BLUE,
        label="fitted power, less the error of the finest steps",
        zorder=3,
    )
    middle = np.sqrt(every[0] * every[-1])
    for label, (slope, dashes) in SLOPES.items():
        line = scale * power_law(middle) * (every / middle) ** slope
        axes.plot(every, line, color=GREY, linestyle=dashes, linewidth=1.2, label=label)
    style: Any = {"fmt": "o", "color": VERMILION, "capsize": 3, "zorder": 4}
    label = "strong error and its standard error"
    axes.errorbar(lengths[seen], errors[seen], spreads[seen], label=label, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.minorticks_off()
    ticks = np.unique(lengths[seen])
    axes.set_xticks(ticks, [f"{tick:.4g}" for tick in ticks])
    axes.set_xlabel("length of a step")
    units = dataset[f"{name}_mean"].attrs["units"]
    axes.set_ylabel(f"root mean square error of {name}" + (f" [{units}]" if units not in ("", "1") else ""))
    axes.set_title(f"order {with_error(order, spread, 2)}", loc="right", fontsize=11, color=BLUE)
