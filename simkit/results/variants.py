"""The variants in a dataset, each as the dataset of a run by itself."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

VARIANT = "variant"
OF_VARIABLES = "of_variables"  # in `variant_attributes`: the attributes of variables that differ
AXES = "own_axes"  # attribute: the dimensions along which variants have different places
LACKS = "lacks"  # in `variant_attributes`: the variables that only others have


def one_variant(dataset: "xr.Dataset", name: str) -> "xr.Dataset":
    """A variant's own dataset out of one of several, with the labels and attributes of a run by itself."""
    place = variant_names(dataset).index(name)
    return _at(dataset, place, json.loads(dataset.attrs["variant_attributes"])[name])


def _at(dataset: "xr.Dataset", place: int, attributes: dict[str, Any]) -> "xr.Dataset":
    """The dataset of the variant at a place, which has these attributes besides those of all."""
    own = dataset.isel({VARIANT: place}, drop=True)
    for axis in dataset.attrs.get(AXES, "").split():
        own = own.dropna(axis, how="all", subset=[key for key, each in own.items() if axis in each.dims])
    shared = {k: v for k, v in dataset.attrs.items() if k not in ("variant_attributes", AXES)}
    own.attrs = shared | attributes
    of_variables = own.attrs.pop(OF_VARIABLES, None)
    for key, each in own.variables.items():
        each.attrs = dict(dataset.variables[key].attrs)
        if of_variables is None and "n" in each.attrs:
            each.attrs["n"] = own.attrs["paths"] - own.attrs["failed_paths"]
        each.attrs |= (of_variables or {}).get(str(key), {})
    return own.drop_vars(own.attrs.pop(LACKS, []))


def variant_names(dataset: "xr.Dataset") -> list[str]:
    """The variants in a dataset; none in that of a run by itself."""
    return [str(name) for name in dataset[VARIANT].values] if VARIANT in dataset.dims else []


def each_variant(dataset: "xr.Dataset", having: str = "") -> "dict[str, xr.Dataset]":
    """The dataset of each variant by name; that of a run by itself has none.

    Only those with an attribute `having`, if that is given.
    """
    names = variant_names(dataset)
    if not names:
        return {"": dataset}
    attributes = json.loads(dataset.attrs["variant_attributes"])
    return {
        name: _at(dataset, place, attributes[name])
        for place, name in enumerate(names)
        if not having or having in attributes[name] or having in dataset.attrs
    }
