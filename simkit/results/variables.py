"""Variables of datasets: values with dimensions, units and a long name, and their standard errors."""

import dataclasses
from typing import Any, NamedTuple


class Variable(NamedTuple):
    """A variable or coordinate as xarray takes it."""

    dims: tuple[str, ...]
    values: Any
    attrs: dict[str, Any]


Variables = dict[str, Any]  # a `Variable` or its dimensions, values and attributes as a tuple


@dataclasses.dataclass(frozen=True)
class DatasetParts:
    """What a dataset is made of, under the names that it has there.

    Making a dataset takes five times as long as this: of the points of a sweep one is made, of all.
    """

    data_vars: dict[str, Variable]
    coords: dict[str, Any]
    attrs: dict[str, Any]


def variable(dims: tuple[str, ...], values: Any, unit: str | None, long_name: str, **about: Any) -> Variable:
    """A variable or coordinate as xarray takes it; without the attribute `units` where `unit` is None."""
    units = {} if unit is None else {"units": unit}
    return Variable(dims, values, {**units, "long_name": long_name, **about})


def with_stderr(
    key: str, dims: tuple[str, ...], values: Any, stderr: Any, unit: str | None, long_name: str, **about: Any
) -> Variables:
    """A figure `key` and its standard error `key_stderr`."""
    return {
        key: variable(dims, values, unit, long_name, **about),
        f"{key}_stderr": variable(dims, stderr, unit, f"standard error of {key}"),
    }


def power_of(unit: str, power: int) -> str:
    """The unit of a power: of a variance the second, of a ratio the zeroth."""
    if not power:
        return "1"
    return unit if not unit or power == 1 else f"({unit})^{power}"
