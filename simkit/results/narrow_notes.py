"""Lines on distributions that are narrower than the bins of quantiles and histograms."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from simkit.results.step_notes import notes_of_variants
from simkit.results.variants import each_variant

if TYPE_CHECKING:
    import xarray as xr

SHARE = 0.15  # of a standard deviation: quantiles that bins may have moved so far do not show it


def narrow_notes(dataset: "xr.Dataset") -> list[str]:
    """A line for each quantity whose values at the end lie in a few bins, of each variant."""
    return notes_of_variants(dataset, _notes)


def _notes(dataset: "xr.Dataset", which: str) -> Iterable[str]:
    for name in [*dataset.attrs["observables"].split(), *dataset.attrs["state_variables"].split()]:
        if error := _narrow(dataset, name):
            mean, deviation = _last(dataset, f"{name}_mean"), _deviation(dataset, name)
            centre = round(mean, -math.floor(math.log10(deviation)))
            nearer = f"{name} {'-' if centre > 0 else '+'} {abs(centre):.15g}"
            yield (
                f"{name}{which}: bins may have moved its quantiles by {error:.2g}, and its standard "
                f"deviation is {deviation:.2g}; observe {nearer} to see it better"
            )


def narrow_note(dataset: "xr.Dataset", name: str) -> str:
    """The same for a panel; empty where there is nothing to say."""
    narrow = any(_narrow(one, name) for one in each_variant(dataset).values())
    return "narrower than its bins show" if narrow else ""


def _narrow(dataset: "xr.Dataset", name: str) -> float:
    """How far bins may have moved quantiles at the end, where that hides the distribution; else 0."""
    errors = dataset.get(f"{name}_quantile_bin_error")
    if errors is None or not errors.size:
        return 0.0
    error = float(errors.values.reshape(-1, errors.shape[-1])[-1].max())
    return error if error > SHARE * _deviation(dataset, name) > 0 else 0.0


def _deviation(dataset: "xr.Dataset", name: str) -> float:
    return math.sqrt(_last(dataset, f"{name}_variance"))


def _last(dataset: "xr.Dataset", name: str) -> float:
    return float(np.ravel(dataset[name])[-1])
