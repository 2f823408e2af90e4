"""The table of a sweep: that of its points, with a column for each key."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from simkit.results.swept import SWEPT, unfolded

if TYPE_CHECKING:
    import xarray as xr


def print_table(dataset: "xr.Dataset", file: TextIO | None = None) -> None:
    """Print the table and the closing line."""
    _table_of(dataset).print_table(unfolded(dataset), file or sys.stdout)


def summary(dataset: "xr.Dataset") -> dict[str, Any]:
    """The figures of the table as plain data, by the name of the point."""
    return _table_of(dataset).summary(unfolded(dataset))


def _table_of(dataset: "xr.Dataset") -> ModuleType:
    if dataset.attrs[SWEPT] == "particles":
        from simkit.md import table
    else:
        from simkit.results import table
    return table
