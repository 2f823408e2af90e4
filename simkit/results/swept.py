"""The results of all points of a sweep, along one dimension for each of its keys, or along one for all."""

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.errors import InputError
from simkit.results.variants import VARIANT

if TYPE_CHECKING:
    import xarray as xr

KIND = "sweep"
AXES = "sweep_over"  # the attribute with the values of the keys
SIDE_BY_SIDE = "sweep_zip"
SWEPT = "swept_kind"  # the attribute with the kind of dataset that each point has


@dataclasses.dataclass(frozen=True)
class Axes:
    """The values of each key, of which all combinations are points, or those side by side."""

    over: dict[str, list[Any]]
    side_by_side: bool = False

    @property
    def dims(self) -> dict[str, int]:
        """The dimensions of a sweep with their sizes: the keys, of lists side by side the first key."""
        sizes = {key: len(values) for key, values in self.over.items()}
        return dict([*sizes.items()][:1]) if self.side_by_side else sizes

    @functools.cached_property
    def points(self) -> list[tuple[int, ...]]:
        """The places in the lists that make each point; the last key changes fastest."""
        places = [range(len(values)) for values in self.over.values()]
        return [*zip(*places, strict=True)] if self.side_by_side else [*itertools.product(*places)]

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the points: as variants of the experiment, `model.sigma=0.1, solver=Milstein`."""
        names = [", ".join(f"{key}={text}" for key, text in texts.items()) for texts in self.texts]
        return names if len({*names}) == len(names) else [f"{i}: {name}" for i, name in enumerate(names, 1)]

    @functools.cached_property
    def texts(self) -> list[dict[str, str]]:
        """The value of each key at each point, as text."""
        over = self.over.items()
        return [
            {key: value_text(values[i]) for (key, values), i in zip(over, point, strict=True)}
            for point in self.points
        ]

    @staticmethod
    def of(dataset: "xr.Dataset") -> "Axes | None":
        """The axes of a dataset; None of one that is no sweep."""
        if AXES not in dataset.attrs:
            return None
        return Axes(json.loads(dataset.attrs[AXES]), bool(dataset.attrs[SIDE_BY_SIDE]))


def is_swept(dataset: "xr.Dataset") -> bool:
    """Whether a dataset, or that of variants which was made of it, is a sweep."""
    return AXES in dataset.attrs


def name_columns(dataset: "xr.Dataset", names: Iterable[str]) -> dict[str, dict[str, str]]:
    """By their titles the columns that say in a table which variant a row is: of a sweep one for each key."""
    axes = Axes.of(dataset)
    if axes is None:
        return {"variant": {name: name for name in names}}
    return {
        key: {name: text[key] for name, text in zip(axes.names, axes.texts, strict=True)} for key in axes.over
    }


def value_text(value: Any) -> str:
    """A value as short text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {value_text(x)}" for key, x in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def folded(flat: "xr.Dataset", axes: Axes) -> "xr.Dataset":
    """The dataset of variants, which are the points in their order, with the dimensions of the sweep.

    Each key is a coordinate: numbers as they are, anything else as text.
    """
    import xarray as xr

    dims = axes.dims

    def along(variable: "xr.Variable") -> "xr.Variable":
        if VARIANT not in variable.dims:
            return variable
        first = variable.transpose(VARIANT, ...)
        shape = (*dims.values(), *first.shape[1:])
        values = first.values.reshape(shape)
        return xr.Variable((*dims, *first.dims[1:]), values, variable.attrs)

    variables = {name: along(flat[name].variable) for name in flat.data_vars}
    own = {VARIANT, *axes.over}
    coordinates = {name: along(x.variable) for name, x in flat.coords.items() if name not in own}
    for key, values in axes.over.items():
        dim = next(iter(dims)) if axes.side_by_side else key
        coordinates[key] = xr.Variable((dim,), _coordinate(values), {"long_name": key})
    attributes = {
        **flat.attrs,
        AXES: json.dumps(axes.over, ensure_ascii=False),
        SIDE_BY_SIDE: int(axes.side_by_side),
        SWEPT: flat.attrs.get("simkit_kind", ""),
        "simkit_kind": KIND,
    }
    return xr.Dataset(variables, coordinates, attributes)


def unfolded(dataset: "xr.Dataset") -> "xr.Dataset":
    """The dataset of variants that a sweep was made of, or of those points that it still has, in its order.

    Tables and pictures of variants take it. Raises `InputError` where a key has lost its coordinate.
    """
    import xarray as xr

    axes = Axes.of(dataset)
    if axes is None:
        return dataset
    lost = [key for key in axes.over if key not in dataset.coords]
    if lost:
        raise InputError(
            f"this dataset of a sweep has no coordinate {lost[0]!r}, which says what its points are; select "
            "by `sel` or `isel` without `drop`"
        )
    dataset = dataset.expand_dims([dim for dim in axes.dims if dim not in dataset.dims])
    names, dims = _names_of_points(dataset, axes), [*axes.dims]

    def flat(variable: "xr.Variable") -> "xr.Variable":
        if not set(dims) <= set(variable.dims):
            return variable
        first = variable.transpose(*dims, ...)
        rest = first.dims[len(dims) :]
        values = first.values.reshape(len(names), *first.shape[len(dims) :])
        return xr.Variable((VARIANT, *rest), values, variable.attrs)

    variables = {name: flat(dataset[name].variable) for name in dataset.data_vars}
    coordinates = {name: flat(x.variable) for name, x in dataset.coords.items() if name not in axes.over}
    coordinates[VARIANT] = xr.Variable((VARIANT,), np.array(names, object), {"units": "1"})
    attributes = {key: x for key, x in dataset.attrs.items() if key not in (SWEPT, "simkit_kind")}
    kind = dataset.attrs[SWEPT]
    return xr.Dataset(variables, coordinates, attributes | ({"simkit_kind": kind} if kind else {}))


def _names_of_points(dataset: "xr.Dataset", axes: Axes) -> list[str]:
    """The names of the points that a dataset has, in its order, by the values of its coordinates."""
    labels = {key: coordinate_texts(values) for key, values in axes.over.items()}
    whole = {
        tuple(labels[key][i] for key, i in zip(axes.over, point, strict=True)): name
        for name, point in zip(axes.names, axes.points, strict=True)
    }
    present = [[*map(str, np.atleast_1d(dataset[key].values))] for key in axes.over]
    points = zip(*present, strict=True) if axes.side_by_side else itertools.product(*present)
    return [whole[point] for point in points]


def coordinate_texts(values: list[Any]) -> list[str]:
    """The values of a key as texts, which are alike where those in its coordinate are."""
    return [*map(str, _coordinate(values))]


def _coordinate(values: list[Any]) -> np.ndarray:
    kinds = {type(x) for x in values}
    large = kinds == {int} and max(map(abs, values)) >= 2**63
    plain = kinds <= {int, float} and not large
    return np.array(values) if plain else np.array([value_text(x) for x in values], object)
