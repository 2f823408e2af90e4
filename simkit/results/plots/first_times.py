"""First times in pictures: a distribution has the paths that met the condition, a note how many had not."""

from typing import TYPE_CHECKING

import numpy as np

from simkit.results.narrow_notes import narrow_note
from simkit.results.number_text import percentages
from simkit.results.titles import end_of

if TYPE_CHECKING:
    import xarray as xr

TAIL = 0.001  # of the paths: an end value of fewer lies outside the bins


def all_met(dataset: "xr.Dataset", name: str) -> bool:
    """Whether no path of a run waited in vain, so that the mean is one of first times alone."""
    return not _unmet(dataset, name).any()


def met_counts(dataset: "xr.Dataset", name: str) -> np.ndarray:
    """How many of the paths that met the condition each bin has; of other quantities how many of all paths.

    Those that did not share one value, which lies in one fine bin. Where that was split between bins, so are
    those of it that met the condition.
    """
    counts, edges = dataset[f"{name}_histogram"].values, dataset[f"{name}_histogram_edge"].values
    (unmet,) = _unmet(dataset, name)
    if unmet <= TAIL:
        return counts
    is_time = dataset[f"{name}_censored"].attrs.get("counts_as") != "0"  # files of earlier versions have none
    value = float(dataset["time"].values[-1]) if is_time else 0.0
    last = int(np.clip(np.searchsorted(edges, value, side="right") - 1, 0, counts.size - 1))
    waiting = round(unmet * int(dataset[f"{name}_histogram"].attrs["n"]))
    sums = np.cumsum(counts[last::-1])  # of the value's bin and those below it
    split = min(int(np.searchsorted(sums, waiting)), last)
    remaining = counts.astype(float)
    remaining[last - split : last + 1] *= max(1 - waiting / max(sums[split], 1), 0)
    return remaining


def distribution_note(dataset: "xr.Dataset", name: str) -> str:
    """What a distribution leaves out: paths that had not met the condition, or what is narrower than bins."""
    return "\n".join(filter(None, (unmet_note(dataset, name), narrow_note(dataset, name))))


def unmet_note(dataset: "xr.Dataset", name: str) -> str:
    """Which percentage had not met the condition by the end, of several the range; nothing if all had."""
    unmet = _unmet(dataset, name)
    if not unmet.any():
        return ""
    return f"{percentages(unmet)} % had not met it by {end_of(dataset)}"


def _unmet(dataset: "xr.Dataset", name: str) -> np.ndarray:
    """The fraction of the paths that had not met the condition, of each variant or point of a sweep."""
    known = dataset.get(f"{name}_censored")
    return np.zeros(1) if known is None else np.atleast_1d(np.nan_to_num(known.values))
