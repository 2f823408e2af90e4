"""The output of a command: a table, files, JSON.

Files are checked before the run.
"""

import contextlib
import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from simkit.cli.failures import print_json
from simkit.errors import OutputError

if TYPE_CHECKING:
    import xarray as xr


UNUSED_OUTPUT = (
    "note: nothing is written: output: {} is for the dataset of `simkit run`, and --out PATH writes the {}"
)


def note_unused(output: Path | None, out: Path | None, quiet: bool, results: str) -> None:
    """Say that a command does not write to the `output:` of the file."""
    if out is None and output is not None and not quiet:
        print(UNUSED_OUTPUT.format(output, results), file=sys.stderr)


def check_picture(path: Path, overwrite: bool) -> None:
    """Raise when the picture is there already and may not be replaced."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: exists already; to replace it use --overwrite")


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Where a command writes, and how much it says."""

    target: Path | None
    picture: Path | None
    overwrite: bool
    quiet: bool
    as_json: bool

    @staticmethod
    def checked(target: Path | None, no_plot: bool, overwrite: bool, quiet: bool, as_json: bool) -> "Outputs":
        """The picture is next to the dataset. Raises `OutputError` for files that may not be replaced."""
        if target:
            from simkit.results.storage import check_output

            check_output(target, overwrite)
        picture = target.with_suffix(".png") if target and not no_plot else None
        if picture:
            check_picture(picture, overwrite)
        return Outputs(target, picture, overwrite, quiet, as_json)

    @contextlib.contextmanager
    def claimed(self, files: list[Path]) -> Iterator[None]:
        """Within it no other run writes these files. What killed runs have left of them is named."""
        from simkit.results.claims import claimed

        def say(line: str) -> None:
            if not self.quiet:
                print(f"note: {line}", file=sys.stderr)

        with claimed(files, say):
            yield

    def import_meanwhile(self, *modules: str) -> None:
        """Import what is needed after the run while XLA compiles; before, tracing would wait for it."""
        from simkit.ensemble.programs import while_compiling

        needed = ["xarray", *modules]
        if self.target:
            needed.append({".zarr": "zarr", ".nc": "h5netcdf"}.get(self.target.suffix, "csv"))
        if self.picture:
            needed += ["matplotlib.figure", "matplotlib.backends.backend_agg"]
        while_compiling(lambda: [importlib.import_module(name) for name in needed])

    def show(self, dataset: "xr.Dataset", table: ModuleType) -> None:
        """Print the table, unless output is quiet or JSON. `table` has `print_table` and `summary`."""
        if not (self.quiet or self.as_json):
            table.print_table(dataset)

    def deliver(self, dataset: "xr.Dataset", table: ModuleType, **more: Any) -> None:
        """Write dataset and picture, then print the figures, and `more`, as JSON if `as_json`."""
        target, picture = self.target, self.picture
        if target:
            self._write(dataset, target)
        if picture:
            picture = self._draw(dataset, picture)
        if self.as_json:
            written = {"output": target and str(target), "picture": picture and str(picture)}
            print_json(table.summary(dataset) | more | written)

    def _write(self, dataset: "xr.Dataset", target: Path) -> None:
        from simkit.results.storage import write_or_rescue

        write_or_rescue(dataset, target, self.overwrite)
        if not self.quiet:
            from simkit.results.storage import left_out

            print(f"wrote {target}{left_out(dataset, target)}", file=sys.stderr)

    def _draw(self, dataset: "xr.Dataset", picture: Path) -> Path | None:
        """What goes wrong here is a warning: the results are safe on disk."""
        from simkit.pictures import save_picture

        try:
            save_picture(dataset, picture)
        except (OutputError, RuntimeError, ValueError) as error:
            print(f"warning: no picture: {error}", file=sys.stderr)
            return None
        if not self.quiet:
            print(f"wrote {picture}", file=sys.stderr)
        return picture
