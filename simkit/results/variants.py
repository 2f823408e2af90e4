"""The variants in a dataset, each as the dataset of a run by itself."""

import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

VARIANT = "variant"
# Variables that only some runs have.
SOMETIMES = tuple(
    f"_{known}"
    for known in (
        *("bias", "bias_stderr", "bias_order", "bias_bound"),
        *("lower", "upper", "censored", "censored_stderr", "exact", "exact_variance", "z"),
    )
)


def one_variant(dataset: "xr.Dataset", name: str) -> "xr.Dataset":
    """A variant's own dataset out of one of several, with the labels and attributes of a run by itself."""
    own = dataset.sel({VARIANT: name}, drop=True)
    attributes = {key: value for key, value in dataset.attrs.items() if key != "variant_attributes"}
    own.attrs = attributes | json.loads(dataset.attrs["variant_attributes"])[name]
    counted = own.attrs["paths"] - own.attrs["failed_paths"]
    for key, each in own.variables.items():
        each.attrs = {k: counted if k == "n" else v for k, v in dataset[key].attrs.items()}
    missing = [
        key for key in own.data_vars if str(key).endswith(SOMETIMES) and not np.isfinite(own[key]).any()
    ]
    return own.drop_vars(missing)


def variant_names(dataset: "xr.Dataset") -> list[str]:
    """The variants in a dataset; none in that of a run by itself."""
    return [str(name) for name in dataset[VARIANT].values] if VARIANT in dataset.dims else []


def each_variant(dataset: "xr.Dataset") -> "dict[str, xr.Dataset]":
    """The dataset of each variant by name; that of a run by itself has none."""
    names = variant_names(dataset)
    return {name: one_variant(dataset, name) for name in names} if names else {"": dataset}
