"""The numbers in which variants differ, such as `model.sigma`, as coordinates along `variant`."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr
import yaml

from simkit.results.variables import DatasetParts, Variables, variable
from simkit.results.variants import VARIANT

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where there is one


def differing_numbers(datasets: Mapping[str, xr.Dataset | DatasetParts]) -> Variables:
    """A coordinate `(variant,)` for each key of the experiment that is another number in some variants.

    Its name is the key as `--set` takes it. Keys that are something else than a number in any variant have
    none.
    """
    texts = [one.attrs.get("configuration", "") for one in datasets.values()]
    each = [dict(_leaves(yaml.load(text, LOADER) or {})) for text in texts]
    coordinates: Variables = {}
    for key in each[0]:
        values = [settings.get(key) for settings in each]
        if all(map(_is_number, values)) and len(set(values)) > 1:
            coordinates[key] = variable((VARIANT,), np.array(values), None, f"{key} of the variant")
    return coordinates


def _leaves(settings: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{place}{key}.")
        else:
            yield f"{place}{key}", value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
