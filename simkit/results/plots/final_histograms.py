"""Final distributions as pictures show them: percentages of the paths in bins wide enough to see."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from simkit.results.plots.first_times import all_met, met_counts
from simkit.results.plots.plot_layout import GREY

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

BARS = 150  # of two pixels each find room along the shortest panel of a picture in a file
TOWERING = 10  # times the second: on an axis in proportion the other bars would be lines
LOG_TICKS = 4  # at most: five-digit numbers find room next to each other in a panel at the end of a row
SHORT = 5e-4, 5e4  # bars of which the percentages have five digits at most
BEHIND = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # a number, above means
OUTSIDE = 0.35  # of the distance of 0 and 1: room for a percentage
LOGARITHMIC = "\n(logarithmic)"
BOOLEAN_EDGES = np.array([-0.02, 0.02, 0.98, 1.02])


def is_boolean(each: "Iterable[xr.Dataset]", name: str) -> bool:
    """Whether a quantity is 1 on some paths and 0 on all others, so that its mean is a fraction."""
    ends = set()
    for one in each:
        if f"{name}_path" not in one:
            return False
        values = one[f"{name}_path"].values
        if not values.size or not np.isin(values, (0, 1)).all():
            return False
        ends |= {float(one[f"{name}_min"].min()), float(one[f"{name}_max"].max())}
    return ends == {0, 1}


def final_percentages(
    dataset: "xr.Dataset", name: str, boolean: bool, extent: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Percentages of all paths, and bin edges; of a boolean those of 0, of nothing between, and of 1.

    At most twice the cube root of the number of paths (Rice), and none thinner than two pixels along an axis
    that shows `extent`. Of a first time only the paths that met its condition, in the bins that they reach.
    """
    if boolean:
        true = 100 * final_mean(dataset, name)
        return np.array([100 - true, 0.0, true]), BOOLEAN_EDGES
    counts, edges = met_counts(dataset, name), dataset[f"{name}_histogram_edge"].values
    n = max(int(dataset[f"{name}_histogram"].attrs["n"]), 1)
    if counts.any() and not all_met(dataset, name):
        n_met, there = round(counts.sum()), np.flatnonzero(counts)
        return in_visible_bins(100 * counts / n, edges, n_met, extent, (there[0], there[-1] + 1))
    return in_visible_bins(100 * counts / n, edges, n, extent)


def has_bars(dataset: "xr.Dataset", name: str) -> bool:
    """Whether there is a distribution: final values differ, and a first time's condition is met."""
    finite = bool(np.all(np.isfinite(dataset[f"{name}_histogram_edge"])))
    return finite and final_variance(dataset, name) > 0 and bool(met_counts(dataset, name).any())


def in_visible_bins(
    percentages: np.ndarray,
    edges: np.ndarray,
    n: int,
    extent: float = 0.0,
    shown: tuple[int, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Percentages of `n` numbers in fine bins put together: what `final_percentages` says of their width.

    `shown` are the first of the fine bins and the one after the last, by default all that are needed.
    """
    first, end = shown or (0, count_of_bins(percentages))
    most = 2 * n ** (1 / 3)
    if extent > 0 and np.all(np.isfinite(edges)):
        most = min(most, BARS * (edges[end] - edges[first]) / extent)
    divisors = (k for k in range(1, percentages.size + 1) if percentages.size % k == 0)
    together = next(k for k in divisors if (end - first) / k <= max(most, 1))
    low, high = first // together, -(-end // together)
    return percentages.reshape(-1, together).sum(1)[low:high], edges[::together][low : high + 1]


def comparable_percentages(
    dataset: "xr.Dataset", name: str, boolean: bool, extent: float = 0.0
) -> tuple[np.ndarray, np.ndarray] | None:
    """Percentages per unit, and bin edges, as the bins of variants differ in width; of equal values `None`.

    Of a boolean, percentages of its two values.
    """
    if not boolean and not has_bars(dataset, name):
        return None
    percentages, edges = final_percentages(dataset, name, boolean, extent)
    if boolean:
        return percentages, edges
    return percentages / np.diff(edges), edges


def comparable_label(each: "Iterable[xr.Dataset]", name: str) -> str:
    """What they are: of conditions and counts the percentage of each value, of all else a density."""
    each = list(each)
    edges = [one[f"{name}_histogram_edge"].values for one in each if final_variance(one, name)]
    if is_boolean(each, name) or all(map(are_whole, edges)):
        return "% of paths per value"
    return "% of paths per unit"


def count_of_bins(counts: np.ndarray) -> int:
    """How many bins to show: of numbers on a lattice, such as counts, the last ones may be empty."""
    there = np.flatnonzero(counts)
    return int(there[-1]) + 1 if there.size else counts.size


def are_whole(edges: np.ndarray) -> bool:
    """Whether bins are those of whole numbers, which lie in their middle."""
    return bool(np.all(edges % 1 == 0.5))


def final_ends(each: "Iterable[xr.Dataset]", name: str) -> tuple[float, float]:
    """Between which values the bins and the means of the end lie; of equal values one of them, twice."""
    each = list(each)
    boolean = is_boolean(each, name)
    means = [mean for one in each for mean in final_means(one, name)]
    bins = [final_percentages(one, name, boolean)[1] for one in each if has_bars(one, name)]
    ends = [float(edges[i]) for edges in bins for i in (0, -1)]
    values = [*ends, *means] if ends else [final_mean(each[0], name)]
    return min(values), max(values)


def final_mean(dataset: "xr.Dataset", name: str) -> float:
    return _final(dataset, name, "mean")


def final_variance(dataset: "xr.Dataset", name: str) -> float:
    return _final(dataset, name, "variance")


def final_means(dataset: "xr.Dataset", name: str) -> list[float]:
    """The mean, and the exact one where it is known; none that counts a time for paths without one."""
    if not all_met(dataset, name):
        return []
    return [_final(dataset, name, key) for key in ("mean", "exact") if f"{name}_{key}" in dataset]


def _final(dataset: "xr.Dataset", name: str, key: str) -> float:
    return float(np.atleast_1d(dataset[f"{name}_{key}"].values)[-1])


def scale_bars(
    axes: "Axes", side: Literal["x", "y"], each: Sequence[np.ndarray], log: bool | None = None
) -> bool:
    """Give bars lengths in proportion, or where some tower over all others a logarithmic axis: whether it is.

    `each` are the bars of one or several distributions, which go along an axis (`side`) from its start.
    """
    from matplotlib.ticker import LogLocator

    bars = [np.sort(values[values > 0]) for values in each]
    bars = [values for values in bars if values.size]
    top = max((values[-1] for values in bars), default=1.0)
    if log is None:
        alone = any(values.size > 1 and values[-1] > TOWERING * values[-2] for values in bars)
        least = min((values[-1] for values in bars), default=top)
        log = bool(alone or top > TOWERING * least)
    if log and bars:
        low, high = min(v[0] for v in bars) / 2, 1.5 * top
        axes.set(**{f"{side}scale": "log", f"{side}lim": (low, high)})
        axis = axes.xaxis if side == "x" else axes.yaxis
        axis.set_major_locator(LogLocator(numticks=LOG_TICKS))
        if SHORT[0] < low and high < SHORT[1]:  # all others as powers of 10
            axis.set_major_formatter("{x:g}")
    else:
        axes.set(**{f"{side}lim": (0, 1.08 * top)})
    return log


def bars_label(edges: np.ndarray, boolean: bool, log: bool, what: str = "paths") -> str:
    """What the lengths of bars are, with the width of a bin."""
    scale = LOGARITHMIC if log else ""
    if boolean:
        return f"% of {what}{scale}"
    width = edges[1] - edges[0]
    per = "value" if are_whole(edges) and width == 1 else f"bin of {width:.3g}"
    return f"% of {what}\nper {per}{scale}"


def write_fractions(axes: "Axes", percentages: np.ndarray, side: Literal["x", "y"]) -> None:
    """The percentages of 0 and of 1 next to their bars, of which one may be too short to be seen.

    Upright bars have them on their outer sides, as a mean lies between the two.
    """
    if side == "y":
        axes.set_xticks([0, 1])
        axes.set_xlim(-OUTSIDE, 1 + OUTSIDE)
    for value, percentage, inwards in ((0, percentages[0], 1), (1, percentages[-1], -1)):
        style: Any = {
            "fontsize": 9,
            "color": GREY,
            "zorder": 6,
            "bbox": BEHIND,
            "textcoords": "offset points",
        }
        text = f"{percentage:.3g} %"
        if side == "y":
            place = {"xy": (BOOLEAN_EDGES[-value], 0), "xytext": (-4 * inwards, 3)}
            axes.annotate(text, **place, ha="right" if inwards > 0 else "left", va="bottom", **style)
        else:
            place = {"xy": (0, value), "xytext": (4, 5 * inwards), "va": "bottom" if inwards > 0 else "top"}
            axes.annotate(text, **place, ha="left", **style)
