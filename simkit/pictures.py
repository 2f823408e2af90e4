"""The picture of any dataset: of a run, of derivatives, of a study."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from simkit.errors import InputError, OutputError
from simkit.results.incomplete import incomplete

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

KINDS = (".png", ".pdf", ".svg", ".jpg", ".webp")


def save_picture(dataset: "xr.Dataset", path: str | Path) -> None:
    """Draw into a file whose ending says which kind.

    Raises `InputError` for an unknown ending, `OutputError` when it cannot be written.
    """
    path = Path(path)
    if path.suffix not in KINDS:
        raise InputError(f"{path}: a picture must end in one of {', '.join(KINDS)}")
    try:
        with incomplete(path) as temporary:
            plot_dataset(dataset).savefig(temporary, dpi=150)
            os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written: {error.strerror or error}") from error


def plot_dataset(dataset: "xr.Dataset") -> "Figure":
    """What `simkit plot` draws of a dataset, according to its kind. Raises `InputError` for anything else."""
    kind = checked(dataset).attrs.get("simkit_kind")
    if kind == "uncertainty":
        from simkit.studies.plot import plot_study as plot
    elif kind == "sensitivity":
        from simkit.derivatives.plot import plot_sensitivities as plot
    elif kind == "particles":
        from simkit.md.plots.plot import plot_particles as plot
    else:
        from simkit.results.plots.plot import plot_run as plot
    with complaining():
        return plot(dataset)


def checked(dataset: "xr.Dataset") -> "xr.Dataset":
    """The dataset, if simkit made it. Raises `InputError` for anything else."""
    import xarray as xr

    if not isinstance(dataset, xr.Dataset):
        remedy = "; simkit.read_dataset reads one from a file" if isinstance(dataset, str | Path) else ""
        raise InputError(f"a picture needs the dataset of a run, got {type(dataset).__name__}{remedy}")
    if "simkit_format" not in dataset.attrs:
        raise InputError(
            "this dataset is not one of simkit, or lost its attributes (it has no simkit_format): give one "
            "that simkit.run or simkit.read_dataset returned; "
            "xarray.set_options(keep_attrs=True) keeps attributes"
        )
    return dataset


@contextlib.contextmanager
def complaining() -> "Iterator[None]":
    """Name what a dataset lacks, of which a part was taken."""
    try:
        yield
    except KeyError as error:
        name = re.findall(r"[\w.]+", str(error.args[0]).removeprefix("No variable named"))[0]
        raise InputError(
            f"this dataset has no {name!r}, which its picture needs: give the whole one that "
            "simkit.run or simkit.read_dataset returned"
        ) from error
