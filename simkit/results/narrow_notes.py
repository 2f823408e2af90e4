"""Lines on distributions that are narrower than the bins of quantiles and histograms."""

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
        if width := bin_width(dataset, name):
            mean, variance = (float(np.ravel(dataset[f"{name}_{key}"])[-1]) for key in ("mean", "variance"))
            yield (
                f"{name}{which}: the bins of its quantiles and histogram are {width:.2g} wide, and its "
                f"standard deviation is {variance**0.5:.2g}; observe {name} {-mean:+.4g} to see it better"
            )


def narrow_note(dataset: "xr.Dataset", name: str) -> str:
    """The same for a panel, of variants with the widest bins; empty where there is nothing to say."""
    width = max(bin_width(one, name) for one in each_variant(dataset).values())
    return f"narrower than bins of {width:.2g} show" if width else ""


def bin_width(dataset: "xr.Dataset", name: str) -> float:
    """How wide bins are that do not show how values at the end are distributed; 0 where bins do."""
    if f"{name}_quantile_bin_error" not in dataset or not dataset[f"{name}_quantile_bin_error"].size:
        return 0.0
    error = dataset[f"{name}_quantile_bin_error"].values.reshape(-1, dataset.sizes["quantile"])[-1].max()
    deviation = float(np.ravel(dataset[f"{name}_variance"])[-1]) ** 0.5
    return float(np.diff(dataset[f"{name}_histogram_edge"][:2])[0]) if error > SHARE * deviation > 0 else 0.0
