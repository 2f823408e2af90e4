"""The picture of a sweep: means at the end along a key, a line for each value of others, or a map."""

import itertools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simkit.results.plots.first_times import unmet_note
from simkit.results.plots.plot import MEANS
from simkit.results.plots.plot_layout import (
    COLOURS,
    GREY,
    MAX_OBSERVABLES,
    VERMILION,
    columns_for,
    figure_legend,
    label,
    plain_ticks,
    run_name,
    titled_figure,
)
from simkit.results.plots.plot_variants import DASHES
from simkit.results.step_notes import marked_in_table
from simkit.results.swept import SWEPT, Axes, unfolded, value_text
from simkit.results.titles import end_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes as Panel
    from matplotlib.figure import Figure

BAND = 2.0  # standard errors to either side
FEWEST = 3  # values of both keys of a map
EQUAL_RATIOS = 1e-6  # relative, of values for a logarithmic axis
LETTER, LINE = 0.035, 0.08  # of the width and height of a map, which a number takes
MOST_LINES = len(COLOURS) * len(DASHES)


def plot_sweep(dataset: "xr.Dataset") -> "Figure":
    """A panel for each observable, or each state variable where there are none.

    Two keys of three numbers or more make a map of means. Otherwise the key with the most numbers is the
    horizontal axis, and each combination of the others a line with a band of two standard errors. Of a first
    time the mean counts paths that have not met the condition; the title of its panel says how many.
    """
    axes = Axes.of(dataset)
    assert axes is not None
    quantities = dataset.attrs["observables"].split() or dataset.attrs["state_variables"].split()
    names, dims = quantities[:MAX_OBSERVABLES], [*axes.dims]
    numeric = [dim for dim in dims if np.issubdtype(dataset[dim].dtype, np.number) and dataset.sizes[dim] > 1]
    as_map = len(dims) == len(numeric) == 2 and min(dataset.sizes[dim] for dim in dims) >= FEWEST
    along = max(numeric or dims, key=lambda dim: dataset.sizes[dim])
    columns = columns_for(len(names))
    rows = -(-len(names) // columns)
    spread = not as_map and any(np.any(_at_end(dataset, name)[1] > 0) for name in names)
    bands = "; bands or bars: two standard errors" if spread else ""
    title = f"{_title(dataset)}{bands}{marked_in_table(unfolded(dataset))}"
    with titled_figure(title, (max(4.4 * columns, 7.0), 3.4 * rows + 1.0)) as figure:
        for place, name in enumerate(names, 1):
            panel = figure.add_subplot(rows, columns, place)
            if as_map:
                _draw_map(figure, panel, dataset, name, dims)
            else:
                _draw_lines(panel, dataset, axes, name, along)
        figure_legend(figure)
    return figure


def _title(dataset: "xr.Dataset") -> str:
    of_particles = dataset.attrs[SWEPT] == "particles"
    end = "" if of_particles else f", at {end_of(dataset)}"
    return f"{run_name(dataset)}{end}"


def _at_end(dataset: "xr.Dataset", name: str) -> "tuple[xr.DataArray, xr.DataArray]":
    """The mean at the end and its standard error, at each point; of an ordinary equation that is 0."""
    mean, error = (_last(dataset[f"{name}_{key}"]) for key in ("mean", "stderr"))
    return mean, error.fillna(0.0) if dataset.attrs.get("kind") == "ode" else error


def _last(values: "xr.DataArray") -> "xr.DataArray":
    return values.isel(time=-1) if "time" in values.dims else values


def _draw_lines(panel: "Panel", dataset: "xr.Dataset", axes: Axes, name: str, along: str) -> None:
    """Means along a key; where its values are no numbers, bars of two standard errors in place of a band."""
    mean, error = _at_end(dataset, name)
    x: Any = dataset[along].values
    numbers, others = np.issubdtype(x.dtype, np.number), [dim for dim in axes.dims if dim != along]
    styles = itertools.product(DASHES, COLOURS)
    combinations = [*itertools.product(*(range(dataset.sizes[dim]) for dim in others))]
    for places, (dash, colour) in zip(combinations, styles, strict=False):
        at = dict(zip(others, places, strict=True))
        y, off = mean.isel(at).values, BAND * error.isel(at).values
        text = ", ".join(f"{dim} = {value_text(axes.over[dim][i])}" for dim, i in at.items()) or None
        if not numbers:
            panel.errorbar([*map(str, x)], y, off, color=colour, fmt="o", capsize=3, label=text)
            panel.margins(x=0.3)
            continue
        order = np.argsort(x)
        x_, y, off = x[order], y[order], off[order]
        panel.plot(x_, y, color=colour, linestyle=dash, marker="o", markersize=3.5, label=text)
        known = np.isfinite(off)
        if not known.all():  # a band would end at its neighbours
            panel.plot(x_[~known], y[~known], "o", color=colour, markersize=3.5, markerfacecolor="white")
            panel.errorbar(x_[known], y[known], off[known], fmt="none", ecolor=colour, capsize=3)
        elif off.any():
            panel.fill_between(x_, y - off, y + off, color=colour, alpha=0.2, linewidth=0)
        if f"{name}_exact" in dataset:
            exact = _last(dataset[f"{name}_exact"]).broadcast_like(mean).isel(at).values[order]
            panel.plot(x_, exact, **MEANS[1])
    if len(combinations) > MOST_LINES:
        panel.set_title(f"the first {MOST_LINES} of {len(combinations)} lines", fontsize=10, color=GREY)
    if np.isnan(error.values).any():
        which = "hollow" if numbers else "without a bar"
        panel.set_title(f"{which}: error unknown", fontsize=9, loc="right", color=VERMILION)
    if note := unmet_note(dataset, name):
        above = "\n" if panel.get_title() or panel.get_title(loc="right") else ""
        panel.set_title(f"{note}{above}", fontsize=9, loc="left", color=GREY)
    if numbers and _equal_ratios(x):
        panel.set_xscale("log")
        plain_ticks(panel.xaxis, x.min(), x.max())
    panel.set_xlabel(along)
    panel.set_ylabel(_label(dataset, name))


def _draw_map(figure: "Figure", panel: "Panel", dataset: "xr.Dataset", name: str, dims: list[str]) -> None:
    """Means over two keys as colours; the title says how large their standard errors are."""
    mean, error = (x.transpose(dims[1], dims[0]).values for x in _at_end(dataset, name))
    x, y = (dataset[dim].values for dim in dims)
    by_x, by_y = np.argsort(x), np.argsort(y)
    image = panel.pcolormesh(x[by_x], y[by_y], mean[np.ix_(by_y, by_x)], shading="nearest", cmap="viridis")
    panel.grid(visible=False)
    _tick_values(panel, "x", x[by_x])
    _tick_values(panel, "y", y[by_y])
    panel.set_xlabel(dims[0])
    panel.set_ylabel(dims[1])
    known, lost = error[np.isfinite(error) & (error > 0)], int(np.isnan(error).sum())
    notes = [f"standard errors up to {known.max():.2g}"] if known.size else []
    notes += [f"unknown at {lost} of {error.size}"] if lost else []
    heading = [text for text in (", ".join(notes), unmet_note(dataset, name)) if text]
    panel.set_title("\n".join(heading), fontsize=10, loc="left", color=GREY)
    figure.colorbar(image, ax=panel, label=_label(dataset, name))


def _tick_values(panel: "Panel", side: Literal["x", "y"], values: np.ndarray) -> None:
    """Ticks at increasing values of a map, with a number at each that has room next to the one before."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    log, axis = _equal_ratios(values), panel.xaxis if side == "x" else panel.yaxis
    texts = [f"{value:g}" for value in values]
    places = np.log(values) if log else values
    room = (LETTER * (max(map(len, texts)) + 1) if side == "x" else LINE) * (places[-1] - places[0])
    numbered = [0]
    for i, place in enumerate(places):
        if place - places[numbered[-1]] >= room:
            numbered.append(i)
    panel.set(**{f"{side}scale": "log" if log else "linear"})
    axis.set_minor_locator(FixedLocator(values.tolist()))
    axis.set_minor_formatter(NullFormatter())
    axis.set_ticks(values[numbered], [texts[i] for i in numbered])


def _label(dataset: "xr.Dataset", name: str) -> str:
    return label(dataset, name) if "description" in dataset[f"{name}_mean"].attrs else name


def _equal_ratios(values: np.ndarray) -> bool:
    """Whether numbers are spaced by equal ratios, and not by equal differences."""
    ordered = np.sort(values)
    if len(ordered) < FEWEST or ordered[0] <= 0:
        return False
    ratios = ordered[1:] / ordered[:-1]
    return bool(np.ptp(ratios) <= EQUAL_RATIOS * ratios[0]) and ratios[0] > 1
