"""Pictures of sensitivities: a tornado chart for each quantity, and derivatives over time."""

from typing import TYPE_CHECKING

import numpy as np

from simkit.plot_layout import BLUE, COLOURS, GREY, STYLE, VERMILION
from simkit.variant_dataset import each_variant

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6  # quantities
BARS = 12


def plot_sensitivities(dataset: "xr.Dataset") -> "Figure":
    """For each quantity its elasticities as bars, largest first, and beside them those over time if saved.

    Of variants the panels of each.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    variants = each_variant(dataset)
    first = next(iter(variants.values()))
    names = [n for n in first.attrs["quantities"].split() if f"{n}_derivative" in first][:MOST]
    panels = [(_tornado, name, *each) for name in names for each in variants.items()]
    timed = [name for name in names if "time" in first[f"{name}_derivative"].dims]
    panels += [(_over_time, name, *each) for name in timed for each in variants.items()]
    bars = min(BARS, first.sizes["parameter"])
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, hspace=0.03, wspace=0.03)
        figure = Figure(figsize=(6.5 * columns, 0.8 + rows * (1.2 + 0.42 * max(bars, 4))), layout=layout)
        for number, (draw, name, variant, one) in enumerate(panels, 1):
            axes = figure.add_subplot(rows, columns, number)
            draw(axes, one, name)
            if variant:
                axes.set_title(variant, fontsize=9, loc="right", color=GREY)
        model, solver = first.attrs["model"], first.attrs["solver"]
        title = f"{model}, {solver}: what the mean at t = {float(first.attrs['t1']):g} depends on"
        figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold")
    return figure


def relative(dataset: "xr.Dataset", name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Derivatives at the end and their errors, made comparable, and what they then are.

    Where a parameter or the mean is 0 there is no elasticity, and all are shown as they are.
    """
    end = [dataset[f"{name}_derivative{suffix}"].values for suffix in ("", "_stderr")]
    derivative, error = (array[:, -1] if array.ndim == 2 else array for array in end)
    mean = float(np.atleast_1d(dataset[f"{name}_mean"].values)[-1])
    values = dataset["parameter_value"].values
    if mean == 0 or np.any(values == 0):
        return derivative, error, f"derivative of the mean of {name}"
    scale = values / mean
    return derivative * scale, error * np.abs(scale), f"change of the mean of {name} in %, for 1 % more"


def _tornado(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    values, errors, text = relative(dataset, name)
    order = np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:BARS]
    labels = [str(dataset["parameter"].values[i]) for i in order]
    places = np.arange(len(order))
    colours = [BLUE if values[i] >= 0 else VERMILION for i in order]
    axes.barh(places, values[order], color=colours, alpha=0.75, height=0.62)
    axes.errorbar(
        values[order],
        places,
        xerr=1.96 * errors[order],
        fmt="none",
        ecolor="black",
        elinewidth=1.2,
        capsize=3,
    )
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=1)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(text)


def _over_time(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    times, values = dataset["time"].values, dataset["parameter_value"].values
    # Parameters in units of their own would leave all but one of them flat.
    relative = not np.any(values == 0)
    scales = 0.01 * values if relative else np.ones_like(values)
    for i, label in enumerate(dataset["parameter"].values[: len(COLOURS)]):
        mean = scales[i] * dataset[f"{name}_derivative"].values[i]
        error = 1.96 * abs(scales[i]) * dataset[f"{name}_derivative_stderr"].values[i]
        axes.plot(times, mean, color=COLOURS[i], label=str(label))
        axes.fill_between(times, mean - error, mean + error, color=COLOURS[i], alpha=0.25, linewidth=0)
    axes.axhline(0, color=GREY, linewidth=1)
    axes.set_xlabel("time")
    title = f"change of the mean of {name}, for 1 % more" if relative else f"derivative of the mean of {name}"
    axes.set_title(title, fontsize=9, loc="left", color=GREY)
    axes.legend(loc="best", fontsize=9)
