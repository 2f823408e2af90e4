"""Final distributions as pictures show them: percentages of the paths in bins wide enough to see."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from simkit.results.plots.plot_layout import GREY

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

BARS = 150  # of two pixels each find room along the shortest panel of a picture in a file
BEHIND = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # a number, above means
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
    that shows `extent`.
    """
    if boolean:
        true = 100 * final_mean(dataset, name)
        return np.array([100 - true, 0.0, true]), BOOLEAN_EDGES
    counts, edges = dataset[f"{name}_histogram"], dataset[f"{name}_histogram_edge"].values
    n = max(int(counts.attrs["n"]), 1)
    used = count_of_bins(counts.values, edges)
    most = 2 * n ** (1 / 3)
    if extent > 0 and np.all(np.isfinite(edges)):
        most = min(most, BARS * (edges[used] - edges[0]) / extent)
    divisors = (k for k in range(1, counts.size + 1) if counts.size % k == 0)
    together = next(k for k in divisors if used / k <= max(most, 1))
    bars = -(-used // together)
    percentages = 100 * counts.values.reshape(-1, together).sum(1) / n
    return percentages[:bars], edges[::together][: bars + 1]


def count_of_bins(counts: np.ndarray, edges: np.ndarray) -> int:
    """How many bins to show: of whole numbers the last ones may be empty."""
    return int(np.flatnonzero(counts).max(initial=0)) + 1 if are_whole(edges) else counts.size


def are_whole(edges: np.ndarray) -> bool:
    """Whether bins are those of whole numbers, which lie in their middle."""
    return bool(np.all(edges % 1 == 0.5))


def final_ends(each: "Iterable[xr.Dataset]", name: str) -> tuple[float, float]:
    """Between which values the bins and the means of the end lie; of equal values one of them, twice."""
    each = list(each)
    boolean = is_boolean(each, name)
    means = [mean for one in each for mean in final_means(one, name)]
    bins = [final_percentages(one, name, boolean)[1] for one in each if final_variance(one, name) > 0]
    ends = [float(edges[i]) for edges in bins for i in (0, -1) if np.isfinite(edges[i])]
    return (min(*ends, *means), max(*ends, *means)) if ends else (means[0], means[0])


def final_mean(dataset: "xr.Dataset", name: str) -> float:
    return _final(dataset, name, "mean")


def final_variance(dataset: "xr.Dataset", name: str) -> float:
    return _final(dataset, name, "variance")


def final_means(dataset: "xr.Dataset", name: str) -> list[float]:
    """The mean, and the exact one where it is known."""
    return [_final(dataset, name, key) for key in ("mean", "exact") if f"{name}_{key}" in dataset]


def _final(dataset: "xr.Dataset", name: str, key: str) -> float:
    return float(np.atleast_1d(dataset[f"{name}_{key}"].values)[-1])


def ceiling(percentages: np.ndarray) -> float:
    """How high to draw: a bin that towers over all others, as zero does in a payoff, is cut off."""
    ordered = np.sort([0.0, *percentages])
    return 1.25 * ordered[-2] if ordered[-1] > 3 * ordered[-2] > 0 else 1.08 * (ordered[-1] or 1.0)


def cut_above(axes: "Axes", percentages: np.ndarray, edges: np.ndarray, boolean: bool) -> None:
    """Draw as high as `ceiling`, with the percentage of a bin that is cut off as a number."""
    top, peak = ceiling(percentages), int(np.argmax(percentages))
    axes.set_ylim(0, top)
    if percentages[peak] > top:
        left = peak < len(percentages) / 2  # so the other side has room
        place = {"x": 0.98 if left else 0.02, "ha": "right" if left else "left", "y": 0.95, "va": "top"}
        text = f"{percentages[peak]:.0f} % {_values(edges[peak : peak + 2], boolean)}"
        axes.text(s=text, transform=axes.transAxes, fontsize=9, color=GREY, zorder=6, bbox=BEHIND, **place)


def _values(edges: np.ndarray, boolean: bool) -> str:
    """Which values lie in a bin."""
    low, high = edges
    if boolean:
        low = high = round((low + high) / 2)
    elif are_whole(edges):
        low, high = low + 0.5, high - 0.5
    return f"at {low:g}" if low == high else f"from {low:.3g} to {high:.3g}"
