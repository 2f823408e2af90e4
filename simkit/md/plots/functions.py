"""Panels of functions: g(r), S(k), the mean-square displacement, the velocity autocorrelation."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from simkit.md.number_notes import note_of
from simkit.md.plots.time_rows import figure_text, in_print, labelled, log_where_peaked, noted
from simkit.results.plots.plot_layout import COLOURS, GREY, plain_ticks

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

Panel = Callable[["Axes"], None]
NEAR = 1.7  # times the distance of the highest peak: as far as the coordination number fills its axis


def panels_of(dataset: "xr.Dataset", name: str) -> list[Panel]:
    """What draws a function, known by the variables it has; functions that are numbers have no panel."""
    kinds = {
        "coordination": [_radial],
        "vectors": [_structure],
        "exponent": [_displacement],
        "spectrum": [_correlation, _spectrum],
    }
    return [
        partial(draw, dataset=dataset, name=name)
        for suffix, each in kinds.items()
        if f"{name}_{suffix}" in dataset
        for draw in each
    ]


def _curves(
    dataset: "xr.Dataset", name: str, argument: str
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Label, colour, values and errors of each species, or pair of species."""
    function = dataset[name]
    kinds = [str(dim) for dim in function.dims if dim != argument]
    values, errors = (
        dataset[key].transpose(*kinds, argument).values.reshape(-1, function.sizes[argument])
        for key in (name, f"{name}_stderr")
    )
    labels = [str(label) for label in dataset[kinds[0]].values] if kinds else [""]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(labels))]
    yield from zip(labels, colours, values, errors, strict=True)


def _draw_curves(axes: "Axes", dataset: "xr.Dataset", name: str, argument: str) -> None:
    """Each curve with its band of one standard error, and what the panel shows."""
    x = dataset[argument].values
    for label, colour, values, errors in _curves(dataset, name, argument):
        axes.plot(x, values, color=colour, label=label, linewidth=1.4)
        if np.isfinite(errors).any():
            axes.fill_between(x, values - errors, values + errors, color=colour, alpha=0.3, linewidth=0)
    function = dataset[name]
    axes.set_ylabel(labelled(name, function.attrs["units"]))
    unknown = (
        "no errors: the run is too short" if function.attrs.get("stderr_unknown") else "± one standard error"
    )
    noted(axes, f"{str(function.attrs['long_name']).partition(',')[0]}, {unknown}")


def _legend(axes: "Axes", place: Literal["best", "upper left"] = "best") -> None:
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(loc=place, frameon=False, fontsize=9)


def _unit(dataset: "xr.Dataset", coordinate: str) -> str:
    return str(dataset[coordinate].attrs["units"])


def _radial(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    """g(r), and the coordination number on the right axis."""
    _draw_curves(axes, dataset, name, f"{name}_r")
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set_xlim(0, float(dataset[f"{name}_edge"].values[-1]))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(labelled("r", _unit(dataset, f"{name}_r")))
    axes.set_ylabel("g(r)")
    right, edge = axes.twinx(), dataset[f"{name}_edge"].values
    numbers = list(_curves(dataset, f"{name}_coordination", f"{name}_edge"))
    shown = []
    for (_, _, g, _), (_, colour, coordination, _) in zip(
        _curves(dataset, name, f"{name}_r"), numbers, strict=True
    ):
        right.plot(edge, coordination, color=colour, linewidth=1, linestyle="--")
        shown.append(np.interp(NEAR * edge[np.argmax(g)], edge, coordination))
    right.set_ylim(0, max(*shown, 1e-3) if len(shown) > 1 else max(shown[0], 1e-3))
    right.set_ylabel("coordination number (dashed)")
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    _legend(axes, "upper left")


def _structure(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    """S(k) at each wave number, with error bars."""
    k = dataset[f"{name}_k"].values
    ((_, colour, values, errors),) = _curves(dataset, name, f"{name}_k")
    axes.errorbar(k, values, np.nan_to_num(errors), fmt="o", markersize=3, color=colour, linewidth=1)
    axes.axhline(1, color=GREY, linewidth=0.8)
    axes.set_xlim(left=0)
    log_where_peaked(axes, [values])
    axes.set_xlabel(labelled("k", _unit(dataset, f"{name}_k")))
    axes.set_ylabel("S(k)")
    noted(axes, f"{dataset[name].attrs['long_name']}, at each wave number of the box")


def _displacement(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    """The displacement on logarithmic axes, and the line of slope 6 D over the range that was fitted."""
    later = dataset.isel({f"{name}_lag": dataset[f"{name}_lag"] > 0})
    _draw_curves(axes, later, name, f"{name}_lag")
    lag, diffusion = later[f"{name}_lag"].values, dataset[f"{name}_diffusion"]
    first, last = diffusion.attrs["fitted_from"], diffusion.attrs["fitted_to"]
    inside = (lag >= first * (1 - 1e-9)) & (lag <= last * (1 + 1e-9))
    axes.axvspan(first, last, color=GREY, alpha=0.12, linewidth=0)
    captions, unit = {}, in_print(diffusion.attrs["units"])
    labels = [label for label, *_ in _curves(later, name, f"{name}_lag")]
    for i, (label, _, values, _) in enumerate(_curves(later, name, f"{name}_lag")):
        value, stderr = (
            float(np.ravel(dataset[key])[i]) for key in (diffusion.name, f"{diffusion.name}_stderr")
        )
        line = values[inside].mean() + 6 * value * (lag[inside] - lag[inside].mean())
        axes.plot(lag[inside], line, color="black", linewidth=2.2, linestyle=":")
        doubted = note_of(str(diffusion.attrs.get("note", "")), labels, label)
        figure = f"D = {figure_text(value, stderr, '')} {unit}"
        captions[label] = "no diffusion coefficient" if doubted else figure
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis, ends in ((axes.xaxis, (lag[0], lag[-1])), (axes.yaxis, axes.get_ylim())):
        plain_ticks(axis, *ends)
    axes.set_xlim(lag[0], lag[-1])
    axes.set_xlabel(labelled("lag", _unit(dataset, f"{name}_lag")))
    axes.set_ylabel(labelled("⟨|Δx|²⟩", dataset[name].attrs["units"]))
    middle = (first * last) ** 0.5
    axes.annotate("fitted", (middle, 0.02), xycoords=("data", "axes fraction"), ha="center", color=GREY)
    several = len(captions) > 1
    noted(axes, "mean-square displacement", "" if several else ", ".join(captions.values()))
    for line in axes.lines if several else ():
        if line.get_label() in captions:
            line.set_label(f"{line.get_label()}: {captions[str(line.get_label())]}")
    _legend(axes)


def _correlation(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    _draw_curves(axes, dataset, name, f"{name}_lag")
    lag = dataset[f"{name}_lag"].values
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(lag[0], lag[-1])
    axes.set_xlabel(labelled("lag", _unit(dataset, f"{name}_lag")))
    axes.set_ylabel(labelled("⟨v(0)·v(t)⟩", dataset[name].attrs["units"]))
    _legend(axes)


def _spectrum(axes: "Axes", dataset: "xr.Dataset", name: str) -> None:
    """The spectrum, as far as it is more than a thousandth of its maximum."""
    _draw_curves(axes, dataset, f"{name}_spectrum", f"{name}_frequency")
    frequency = dataset[f"{name}_frequency"]
    largest = np.abs(dataset[f"{name}_spectrum"].values.reshape(len(frequency), -1)).max(1)
    seen = np.flatnonzero(largest > 0.01 * largest.max())
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(0, float(frequency[min(int(1.2 * seen[-1]) + 1, len(frequency) - 1)]))
    axes.set_xlabel(labelled("frequency", _unit(dataset, f"{name}_frequency")))
    axes.set_ylabel(labelled("S(ν)", dataset[f"{name}_spectrum"].attrs["units"]))
    _legend(axes)
