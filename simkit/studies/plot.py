"""Pictures of studies: bars of indices, the plane of elementary effects, the distribution of an output."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.results.number_text import percentage
from simkit.results.plots.final_histograms import (
    BOOLEAN_EDGES,
    bars_label,
    in_visible_bins,
    scale_bars,
    write_fractions,
)
from simkit.results.plots.plot_layout import (
    BLUE,
    COLOURS,
    GREY,
    VERMILION,
    columns_for,
    figure_legend,
    shortened_file,
    titled_figure,
)
from simkit.studies.methods import METHODS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BARS = {
    "sobol": (("first", "first order", BLUE), ("total", "total", VERMILION)),
    "derivatives": (("bound", "upper bound of the total index", BLUE),),
    "rank": (("spearman", "rank correlation", BLUE), ("partial", "partial rank correlation", VERMILION)),
}
LIGHT = "#dfe4e8"
GREEN = COLOURS[2]
PAIRS = 6


def plot_study(dataset: "xr.Dataset") -> "Figure":
    """One panel for each observable: what the study's method measures, with intervals."""
    names = [str(name) for name in dataset["observable"].values]
    method = str(dataset.attrs["method"])
    columns = columns_for(len(names))
    rows = -(-len(names) // columns)
    rows_of_bars = dataset.sizes["parameter"] + min(_count_of_pairs(dataset), PAIRS)
    height = max(3.4, 0.62 * rows_of_bars + 1.6) if method in BARS else 4.2
    size = (4.6 * columns + 2.4, height * rows + 0.9)
    with titled_figure(_title(dataset), size, fontsize=12, pads={"w_pad": 0.1, "h_pad": 0.1}) as figure:
        for number, name in enumerate(names):
            axes = figure.add_subplot(rows, columns, number + 1)
            one = dataset.sel(observable=name)
            if method in BARS:
                _bars(axes, one, BARS[method])
            elif method == "morris":
                _plane(axes, one)
            else:
                _distribution(axes, one, _unit(dataset, name), int(dataset.attrs["runs"]))
            axes.set_title(name, fontsize=11, loc="left", color="#222222")
        figure_legend(figure)
    return figure


def _bars(axes: "Axes", one: "xr.Dataset", kinds: tuple) -> None:
    """Horizontal bars, the parameter with the largest measure on top; whiskers are intervals.

    Below the parameters stand the pairs with the largest indices of second order.
    """
    leading = np.nan_to_num(np.abs(one[kinds[-1][0]].values))
    order = np.argsort(-leading, kind="stable")
    names = [str(name) for name in one["parameter"].values]
    places = np.arange(len(order), dtype=float)
    thick = 0.72 / len(kinds)
    for number, (key, text, colour) in enumerate(kinds):
        at = places + (number - (len(kinds) - 1) / 2) * thick
        _row(axes, at, one[key].values[order], one[f"{key}_halfwidth"].values[order], thick, colour, text)
    pairs = _largest_pairs(one)
    if pairs:
        values, half = (
            one[key].values[tuple(zip(*pairs, strict=True))] for key in ("second", "second_halfwidth")
        )
        _row(axes, len(order) + np.arange(len(pairs)), values, half, thick, GREEN, "second order")
    labels = [names[i] for i in order] + [f"{names[i]} × {names[j]}" for i, j in pairs]
    axes.set_yticks(np.arange(len(labels)), labels)
    axes.tick_params(axis="y", labelcolor="#222222", length=0)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.axvline(0, color=GREY, linewidth=0.8)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.0), high)
    axes.set_xlabel("fraction of the variance" if kinds[0][0] in ("first", "bound") else "correlation")
    if len(pairs) < _count_of_pairs(one):
        text = f"the {len(pairs)} largest of {_count_of_pairs(one)} pairs"
        axes.set_title(text, fontsize=9, loc="right", color=GREY)
    for place, i in zip(places, order, strict=True):
        if str(one["note"].values[i]):
            text = str(one["note"].values[i]).split(":")[0]
            axes.annotate(
                text, (0, place), (6, 0), textcoords="offset points", va="center", fontsize=9, color=GREY
            )


def _row(axes: "Axes", at: np.ndarray, values, half, thick: float, colour: str, text: str) -> None:
    axes.barh(at, values, height=0.9 * thick, color=colour, alpha=0.75, label=text)
    axes.errorbar(values, at, xerr=half, fmt="none", ecolor="black", elinewidth=1.2, capsize=3)


def _count_of_pairs(dataset: "xr.Dataset") -> int:
    """How many indices of second order there are."""
    count = dataset.sizes["parameter"]
    return count * (count - 1) // 2 if "second" in dataset else 0


def _largest_pairs(one: "xr.Dataset") -> list[tuple[int, int]]:
    """The positions of the pairs of parameters whose indices are largest."""
    if "second" not in one:
        return []
    second = np.nan_to_num(np.abs(one["second"].values))
    pairs = itertools.combinations(range(len(second)), 2)
    return sorted(pairs, key=lambda pair: -second[pair])[:PAIRS]


def _plane(axes: "Axes", one: "xr.Dataset") -> None:
    """Mean absolute effects and the sd of signed ones: to the right matters, up interacts or bends."""
    style: dict[str, Any] = {"fmt": "o", "color": BLUE, "ecolor": GREY, "elinewidth": 1.1, "capsize": 2}
    x, y = one["mu_star"].values, one["sigma"].values
    axes.errorbar(x, y, one["sigma_halfwidth"].values, one["mu_star_halfwidth"].values, **style)
    top = 1.15 * max(float(x.max()), float(y.max()), 1e-300)
    axes.plot([0, top], [0, top], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), label="sigma = mu*")
    for (right, up), names in _together(zip(x, y, strict=True), one["parameter"].values, 0.04 * top).items():
        axes.annotate(", ".join(names), (right, up), xytext=(7, 5), textcoords="offset points", fontsize=10)
    axes.set_xlim(-0.03 * top, top)
    axes.set_ylim(-0.03 * top, top)
    axes.set_xlabel("mu*, mean absolute effect")
    axes.set_ylabel("sigma, sd of signed effects")


def _together(points, names, near: float) -> dict[tuple[float, float], list[str]]:
    """The names at each point, and at those so near that theirs would be printed over them."""
    result: dict[tuple[float, float], list[str]] = {}
    for (x, y), name in zip(points, names, strict=True):
        at = next((p for p in result if max(abs(p[0] - x), abs(p[1] - y)) < near), (float(x), float(y)))
        result.setdefault(at, []).append(str(name))
    return result


def _distribution(axes: "Axes", one: "xr.Dataset", unit: str, runs: int) -> None:
    """Percentages of the runs, with the mean and, unless all are true or false, the inner 90 and 50 %.

    Percentages, not a density: a value that many runs give, as those that pay nothing do, has none.
    """
    edges = one["histogram_edge"].values
    percentages = 100 * one["histogram"].values * np.diff(edges)
    percentages, edges = in_visible_bins(percentages, edges, runs)
    boolean = list(edges) == [-0.5, 0.5, 1.5]
    if boolean:
        percentages, edges = np.array([percentages[0], 0.0, percentages[1]]), BOOLEAN_EDGES
    else:
        quantiles = one["quantiles"].values
        axes.axvspan(quantiles[0], quantiles[4], color=LIGHT, label="5–95 %", zorder=0)
        axes.axvspan(quantiles[1], quantiles[3], color="#c3ccd3", label="25–75 %", zorder=0)
    if float(one.get("censored", 0)) > 0:
        note = f"{percentage(float(one['censored']) / runs)} % had not met it by the end"
        axes.set_title(note, loc="right", fontsize=9, color=GREY)
    axes.stairs(percentages, edges, fill=True, color=BLUE, alpha=0.6, linewidth=0)
    axes.axvline(float(one["mean"]), color=VERMILION, linewidth=2, label="mean")
    log = scale_bars(axes, "y", [percentages], log=False if boolean else None)
    if boolean:
        write_fractions(axes, percentages, "y")
    axes.set_xlabel(f"{one['observable'].item()}{f' [{unit}]' if unit else ''}")
    axes.set_ylabel(bars_label(edges, boolean, log, "runs"))


def _unit(dataset: "xr.Dataset", name: str) -> str:
    units = (entry.partition(": ") for entry in str(dataset.attrs.get("units", "")).split("; "))
    return next((unit for key, _, unit in units if key == name), "")


def _title(dataset: "xr.Dataset") -> str:
    a = dataset.attrs
    file, what = shortened_file(dataset), METHODS[str(a["method"])].title
    size = f"{int(a['runs']):,} runs in {int(a['replicates'])} replicates"
    return f"{f'{file}: ' if file else ''}{what}   {size}   intervals of {100 * float(a['confidence']):g} %"
