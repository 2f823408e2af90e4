"""Single panels of a run, of which a user chooses the kind; variants are overlaid."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.errors import InputError
from simkit.results.plots.final_histograms import (
    are_whole,
    bars_label,
    comparable_label,
    comparable_percentages,
    final_means,
    final_percentages,
    is_boolean,
)
from simkit.results.plots.first_times import distribution_note, met_counts
from simkit.results.plots.plot_layout import GREY, label, time_label
from simkit.results.plots.saved_rows import FEW, SavedRows, draw_paths, draw_rows, shade_rows
from simkit.results.titles import end_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

SAMPLES = 8
IN_THE_MIDDLE = 1e-6  # of the width of a bin
ERRORS = 2  # standard errors to either side

Draw = Callable[["Axes", "xr.Dataset", str, str, str, str], None]


def _mean(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """The mean over time, in a band of two standard errors."""
    rows = SavedRows.of(dataset, name)
    mean, stderr = (dataset[f"{name}_{key}"].values for key in ("mean", "stderr"))
    _refuse_unless_positive(mean, f"the mean of {name}", "y", log)
    draw_rows(axes, rows, mean, 5, 4.5, color=color, label=text or "mean")
    low, high = _cut(axes, mean, mean - ERRORS * stderr, log), mean + ERRORS * stderr
    band = f"± {ERRORS} standard errors"
    shade_rows(axes, rows, low, high, color=color, alpha=0.25, label=band)


def _quantiles(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """The band between the outermost quantiles, and the middle one."""
    rows, levels = SavedRows.of(dataset, name), dataset["quantile"].values
    values = dataset[f"{name}_quantile"].values
    middle = int(np.argmin(np.abs(levels - 0.5)))
    shown = f"{100 * levels[middle]:g} % quantile"
    _refuse_unless_positive(values, f"the {100 * levels[0]:g} % quantile of {name}", "y", log)
    draw_rows(axes, rows, values[:, middle], 5, 4.5, color=color, label=text or shown)
    band = f"{100 * levels[0]:g}–{100 * levels[-1]:g} % of paths"
    shade_rows(axes, rows, values[:, 0], values[:, -1], color=color, alpha=0.25, label=band)


def _paths(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """The first of the stored paths."""
    style = {"color": color, "linewidth": 0.9, "alpha": 0.8, "label": text}
    paths = _stored(dataset, name)[:SAMPLES]
    _refuse_unless_positive(paths, f"a path of {name}", "y", log)
    draw_paths(axes, dataset, name, paths, FEW, 2, **style)


def _distribution(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """Percentages of the paths by their value at the end."""
    boolean = is_boolean([dataset], name)
    percentages, edges = final_percentages(dataset, name, boolean)
    shown = _shown_edges(dataset, name, edges, log)
    axes.stairs(percentages, shown, fill=True, color=color, alpha=0.45, linewidth=0, label=text)
    axes.set_ylabel(bars_label(edges, boolean, log=False))


def _distributions(
    axes: "Axes", variants: "dict[str, xr.Dataset]", name: str, colors: list[str], log: str
) -> None:
    """Percentages per unit of the value at the end, as bins differ in width; a line where all are equal."""
    boolean = is_boolean(variants.values(), name)
    for number, (variant, one) in enumerate(variants.items()):
        color = colors[number % len(colors)]
        bars = comparable_percentages(one, name, boolean)
        if bars is None:
            for mean in final_means(one, name)[:1]:
                _refuse_unless_positive(np.array(mean), name, "x", log)
                axes.axvline(mean, color=color, label=variant)
        else:
            heights, edges = bars
            shown = _shown_edges(one, name, edges, log)
            axes.stairs(heights, shown, fill=True, color=color, alpha=0.45, linewidth=0, label=variant)
    axes.set_ylabel(comparable_label(variants.values(), name))


def _density(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """The fraction of the paths per unit of their value at the end."""
    if is_boolean([dataset], name):
        raise InputError(f"{name}: is 0 or 1, which has no density; use kind='distribution'")
    percentages, edges = final_percentages(dataset, name, boolean=False)
    edges = _shown_edges(dataset, name, edges, log)
    axes.stairs(percentages / 100 / np.diff(edges), edges, color=color, label=text)
    unit = dataset[f"{name}_mean"].attrs["units"]
    axes.set_ylabel(f"density [1/({unit})]" if unit not in ("", "1") else "density")


def _ecdf(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """The fraction of the paths whose value at the end is at most that on the axis.

    Those that had not met the condition of a first time have none. It rises at whole numbers, and at others
    on a lattice, such as times on fixed steps, that have a bin each. Paths outside the bins, at most two
    thousandths, lie where the least and the largest value say; if on both sides, a half on each.
    """
    counts, edges = dataset[f"{name}_histogram"], dataset[f"{name}_histogram_edge"].values
    n, met = max(int(counts.attrs["n"]), 1), met_counts(dataset, name)
    low, high = (float(np.atleast_1d(dataset[f"{name}_{key}"].values)[-1]) for key in ("min", "max"))
    below, above = low < edges[0], high > edges[-1]
    outside = (n - int(counts.sum())) * (below / 2 if above else float(below))
    back = _from_last_value(edges, low, high)
    x, up_to = edges - back, (outside + np.cumsum([0, *met])) / n
    there = np.arange(len(x)) <= np.searchsorted(x, high)
    there &= (up_to > 0) | ~(("x" in log) & (x <= 0) | ("y" in log))  # below all values it is 0
    _refuse_unless_positive(x[there], name, "x", log, low)
    steps: Any = {"drawstyle": "steps-post"} if back else {}
    axes.plot(x[there], up_to[there], color=color, label=text, **steps)
    axes.set_ylim(None if "y" in log else 0, 1.02)
    axes.set_ylabel("fraction of paths up to this value")


def _from_last_value(edges: np.ndarray, low: float, high: float) -> float:
    """How far the end of a bin is from its last value, where these lie on a lattice; else 0.

    On a lattice with a bin for each value, the extremes lie in the middle of bins.
    """
    if are_whole(edges) and low % 1 == 0:
        return 0.5
    width = edges[1] - edges[0]
    places = (np.array([low, high]) - edges[0]) / width % 1
    return width / 2 if np.all(np.abs(places - 0.5) < IN_THE_MIDDLE) else 0.0


def _autocorrelation(axes: "Axes", dataset: "xr.Dataset", name: str, color: str, text: str, log: str) -> None:
    """The correlation of deviations from the mean with later ones, averaged over stored paths and times."""
    times, paths = dataset["time"].values, _stored(dataset, name)
    steps = np.diff(times)
    if len(times) < 4 or not np.allclose(steps, steps[0]):
        raise InputError(f"{name}: the autocorrelation needs at least 4 saved times at equal distances")
    mean = dataset[f"{name}_mean"].values if len(paths) > 1 else paths.mean()
    away = paths - mean
    lags = np.arange(len(times) // 2)
    products = np.array([(away[:, : len(times) - k] * away[:, k:]).mean(1) for k in lags])  # lags, paths
    variance = products[0].mean()
    if variance <= 0:
        raise InputError(f"{name}: has no autocorrelation: no stored path differs from the mean")
    values = products.mean(1) / variance
    if "x" in log:
        lags, values = lags[1:], values[1:]
    _refuse_unless_positive(values, f"the autocorrelation of {name}", "y", log)
    axes.plot(lags * steps[0], values, color=color, label=text or "stored paths")
    if len(paths) > 1:
        residuals = (products[lags] - values[:, None] * products[0]) / variance
        errors = ERRORS * residuals.std(1, ddof=1) / np.sqrt(len(paths))
        style = {"color": color, "alpha": 0.25, "linewidth": 0, "label": f"± {ERRORS} standard errors"}
        low = _cut(axes, values, values - errors, log)
        axes.fill_between(lags * steps[0], low, values + errors, **style)
    axes.set_xlabel(time_label(dataset).replace("time", "lag", 1))
    axes.set_ylabel(f"autocorrelation of {name}")


def _refuse_unless_positive(
    values: np.ndarray, what: str, axis: str, log: str, least: float | None = None
) -> None:
    """Raise `InputError` where a value has no place on a logarithmic axis; it names the `least`."""
    if axis not in log or not np.any(values <= 0):
        return
    reached = float(np.nanmin(values)) if least is None else least
    raise InputError(
        f"log: {what} reaches {reached:.4g}, and a logarithmic axis needs values above 0; leave {axis!r} out "
        "of log, or observe a positive quantity, such as an absolute value"
    )


def _shown_edges(dataset: "xr.Dataset", name: str, edges: np.ndarray, log: str) -> np.ndarray:
    """The edges of bins, on a logarithmic axis from the least value on, as a bin may begin below 0."""
    if "x" not in log or edges[0] > 0:
        return edges
    least = float(np.atleast_1d(dataset[f"{name}_min"].values)[-1])
    _refuse_unless_positive(np.array(least), name, "x", log)
    return np.maximum(edges, least)


def _cut(axes: "Axes", curve: np.ndarray, low: np.ndarray, log: str) -> np.ndarray:
    """The lower edge of a band around the last line; a logarithmic axis begins where it is cut above 0."""
    if "y" not in log or not np.any(low <= 0):
        return low
    floor = float(np.nanmin(np.where(low > 0, low, curve)))
    axes.get_lines()[-1].sticky_edges.y.append(floor)
    return np.maximum(low, floor)


def _without_zeros(dataset: "xr.Dataset", name: str, log: str) -> "xr.Dataset":
    """On logarithmic axes: without times up to 0, and without a start at which every path is 0."""
    shown = np.ones(dataset.sizes["time"], bool)
    if "x" in log:
        shown &= dataset["time"].values > 0
    if "y" in log:
        shown[0] &= any(dataset[f"{name}_{key}"].values[0] != 0 for key in ("min", "max"))
    if not shown.any():
        raise InputError(f"log: no row of {name} has its place on logarithmic axes; leave log out")
    return dataset if shown.all() else dataset.isel(time=shown)


def _label_at_end(dataset: "xr.Dataset", name: str) -> str:
    """The label of values at the end, of what is known over time with the time."""
    timed = "time" in dataset[f"{name}_mean"].dims
    when = f" at {end_of(dataset)}" if timed else ""
    return f"{label(dataset, name)}{when}"


def _stored(dataset: "xr.Dataset", name: str) -> np.ndarray:
    if f"{name}_path" not in dataset or not dataset[f"{name}_path"].size:
        raise InputError(f"{name}: no path is stored; run with save: {{paths: 20}}")
    return dataset[f"{name}_path"].values


OVER_TIME: dict[str, Draw] = {"mean": _mean, "quantiles": _quantiles, "paths": _paths}
AT_END: dict[str, Draw] = {"distribution": _distribution, "density": _density, "ecdf": _ecdf}
PANELS: dict[str, Draw] = {**OVER_TIME, **AT_END, "autocorrelation": _autocorrelation}


def draw_panel(
    axes: "Axes",
    variants: "dict[str, xr.Dataset]",
    name: str,
    kind: str | None,
    colors: list[str],
    log: str = "",
) -> None:
    """A quantity by default has its quantiles over time, or its distribution if only the end is known.

    Of weighted paths there are only means. The axes named in `log` are logarithmic. What would be cut there
    without a word is refused: values up to 0, but for the start. An error band is cut.
    """
    first = next(iter(variants.values()))
    if f"{name}_mean" not in first:
        known = " ".join([first.attrs["state_variables"], first.attrs["observables"]]).split()
        raise InputError(f"{name}: not in this dataset, which has {', '.join(known)}")
    timed = "time" in first[f"{name}_mean"].dims
    weighted = f"{name}_quantile" not in first
    kind = kind or ("mean" if weighted else "quantiles" if timed else "distribution")
    if kind not in PANELS:
        raise InputError(f"kind: {kind!r} is none of {', '.join(PANELS)}")
    if weighted and kind != "mean":
        raise InputError(f"{name}: paths are weighted, so there is no {kind}, only means; use kind='mean'")
    if not timed and kind not in AT_END:
        raise InputError(f"{name}: is known at the end only; its kinds are {', '.join(AT_END)}")
    axes.set(**{f"{side}scale": "log" for side in log})
    if kind in OVER_TIME:
        variants = {variant: _without_zeros(one, name, log) for variant, one in variants.items()}
        axes.set_xlabel(time_label(first))
        axes.set_ylabel(label(first, name))
    elif kind in AT_END:
        axes.set_xlabel(_label_at_end(first, name))
    if kind == "distribution" and len(variants) > 1:
        _distributions(axes, variants, name, colors, log)
    else:
        for number, (variant, one) in enumerate(variants.items()):
            PANELS[kind](axes, one, name, colors[number % len(colors)], variant, log)
    if kind in AT_END:
        notes = {variant: distribution_note(one, name) for variant, one in variants.items()}
        text = "\n".join(f"{variant}: {note}".removeprefix(": ") for variant, note in notes.items() if note)
        if text:  # axes may be the user's, with a title of their own
            axes.set_title(text, fontsize=9, loc="left", color=GREY)
    handles, texts = axes.get_legend_handles_labels()
    entries = dict(zip(texts, handles, strict=True))  # bands of variants have the same text
    if entries:
        axes.legend(entries.values(), entries.keys(), frameon=False, fontsize=9)
