"""Datasets on disk: checked before the run, complete or absent after it."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from simkit.errors import InputError, MissingFileError, OutputError, SimkitError
from simkit.progress import short_count
from simkit.records.incomplete import incomplete, remove, unused
from simkit.suggestions import missing_file

if TYPE_CHECKING:  # a second to import, and checking a path needs none of it
    import xarray as xr

FULL = os.strerror(errno.ENOSPC)
FRAMES = "trajectory"  # the kind of a dataset of positions along a run
GIVE_A_DATASET = "give one that `simkit run` wrote, under `output`"
ZARR_ATTRIBUTES = ("zarr.json", ".zattrs")
NETCDF_BEGINS = (b"\x89HDF", b"CDF")
CONTENTS = {
    "multilevel": "means of a multilevel run",
    "particles": "molecular dynamics",
    "sensitivity": "derivatives",
    "steady": "steady states",
    "sweep": "a sweep",
    "uncertainty": "a study",
}


def contents(dataset: "xr.Dataset") -> str:
    """What a dataset of simkit holds, in words."""
    return CONTENTS.get(dataset.attrs.get("simkit_kind", ""), "paths of a model")


def check_output(path: str | os.PathLike, overwrite: bool) -> None:
    """Raise `OutputError` unless a dataset can be written at `path`.

    It must end in .zarr, .nc or .csv, or an `InputError` is raised.
    What exists is only replaced with `overwrite`, a .zarr only if simkit wrote it, a .nc only if NetCDF.
    """
    path = Path(path)
    check_place(path)
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise OutputError(
            f"{path}: exists already; to replace it use --overwrite, from Python overwrite=True"
        )
    what = ""
    if path.suffix == ".zarr" and not any(_names_simkit(path / file) for file in ZARR_ATTRIBUTES):
        what = "is not a Zarr store of simkit"
    elif path.suffix != ".zarr" and path.is_dir():
        what = "is a directory"
    elif path.suffix == ".nc" and path.is_file() and not _is_netcdf(path):
        what = "is not a NetCDF file"
    if what:
        raise OutputError(f"{path}: {what}, so it is left alone; remove it or choose another name")


def _names_simkit(file: Path) -> bool:
    return file.is_file() and b'"simkit_format"' in file.read_bytes()


def _is_netcdf(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(4).startswith(NETCDF_BEGINS)


def check_place(path: Path) -> None:
    """Raise as `check_output` does where nothing can be written at `path`, whatever is there already."""
    if path.suffix not in (".zarr", ".nc", ".csv"):
        example = f"; for example {path.stem}.zarr" if path.stem.strip(".") else ""
        raise InputError(f"{path}: must end in .zarr, .nc or .csv{example}")
    folder = path.parent
    if not folder.exists():
        raise OutputError(
            f"{path}: the directory {folder} does not exist; create it or choose another output"
        )
    if not folder.is_dir():
        raise OutputError(f"{path}: {folder} is not a directory; choose another output")
    check_folder_of(path, folder)


def check_folder_of(path: Path, folder: Path) -> None:
    """Raise `OutputError`, about `path`, unless something can be made in a folder."""
    try:
        # Only trying shows it: permission bits say nothing about read-only disks, nor to root.
        os.rmdir(tempfile.mkdtemp(prefix=f".{path.name}.", dir=folder))
    except OSError as error:
        raise OutputError(
            f"{path}: cannot write in {folder}: {error.strerror}; choose another output"
        ) from error


def write_dataset(dataset: "xr.Dataset", path: str | os.PathLike, overwrite: bool = False) -> None:
    """Write to .zarr (a directory) or .nc (NetCDF-4) under a temporary name, and rename it when complete.

    A .csv gets the statistics alone, as a table for spreadsheets, and cannot be read again.
    A failure, Ctrl-C included, leaves nothing new, and what was at `path` unchanged.
    Raises `OutputError` when it cannot be written.

    >>> import pathlib, tempfile
    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "HarmonicOscillator", "m": 1.0, "k": 1.0},
    ...     "initial": {"q": 1.0, "p": 0.0},
    ...     "time": {"t1": 6.0, "steps": 60},
    ... }
    >>> result = simkit.run(experiment)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     simkit.write_dataset(result, pathlib.Path(folder) / "oscillator.csv")
    ...     print([file.name for file in pathlib.Path(folder).iterdir()])
    ['oscillator.csv']
    """
    check_output(path, overwrite)
    named, path = path, Path(os.path.realpath(path))
    try:
        with incomplete(path) as temporary:
            if path.suffix == ".zarr":
                # Format 2: the third has no stable specification of strings yet.
                dataset.to_zarr(str(temporary), mode="w-", zarr_format=2, consolidated=True)
            elif path.suffix == ".csv":
                from simkit.results.statistics_csv import write_statistics

                write_statistics(dataset, temporary)
            else:
                dataset.to_netcdf(str(temporary), engine="h5netcdf")
            check_output(named, overwrite)  # it may have come into being meanwhile
            put_in_place(temporary, path)
    except (OSError, RuntimeError) as error:  # HDF5 reports some failed writes as RuntimeError
        if isinstance(error, OutputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        if FULL in reason:  # among HDF5's own words
            reason = f"{FULL} for {short_count(dataset.nbytes)}B (before compression)"
        raise OutputError(f"{named}: could not be written: {reason}") from error


def write_or_rescue(dataset: "xr.Dataset", path: str | os.PathLike, overwrite: bool = False) -> None:
    """Write the results of a run as `write_dataset` does; where that fails, write them somewhere else.

    Raises the `OutputError` all the same, which names the other place: the system's temporary folder.
    """
    try:
        write_dataset(dataset, path, overwrite)
    except OutputError as error:
        other = Path(tempfile.mkdtemp(prefix="simkit-"), Path(path).name)
        try:
            write_dataset(dataset, other)
        except OutputError:
            os.rmdir(other.parent)
            raise error from None
        raise OutputError(f"{error}; the results are in {other}: move them") from error


def left_out(dataset: "xr.Dataset", path: Path) -> str:
    """What to say of a file that does not hold all of a dataset."""
    if path.suffix != ".csv":
        return ""
    if dataset.attrs.get("simkit_kind") == "steady":
        return " (without rates of change and conserved totals, which .zarr or .nc holds too)"
    return " (statistics only; .zarr or .nc holds paths and distributions too)"


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a complete file or directory its name, in place of what has it."""
    if not temporary.is_dir():
        os.replace(temporary, path)
        return
    aside = unused(path.with_name(f".{path.name}.old"))
    try:
        while temporary.exists():
            # A directory cannot be replaced in one call: step aside first, and back if the second step fails.
            if path.is_dir():
                remove(aside)
                with contextlib.suppress(FileNotFoundError):  # another process takes it aside
                    os.rename(path, aside)
            try:
                os.rename(temporary, path)
            except OSError:
                if not path.is_dir():
                    raise  # or another process was faster, and its store steps aside too
    except BaseException:
        if aside.exists() and not path.exists():
            os.rename(aside, path)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def read_dataset(path: str | Path) -> "xr.Dataset":
    """A dataset that simkit wrote, in memory.

    Raises `InputError` for a name that no dataset has, `OutputError` for anything else.

    >>> import pathlib, tempfile
    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "HarmonicOscillator", "m": 1.0, "k": 1.0},
    ...     "initial": {"q": 1.0, "p": 0.0},
    ...     "time": {"t1": 6.0, "steps": 60},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "oscillator.nc"
    ...     result = simkit.run(experiment, out=file)
    ...     simkit.read_dataset(file).equals(result)
    True
    """
    with opened_dataset(path) as dataset:
        if dataset.attrs.get("simkit_kind") == FRAMES:  # which may be larger than the memory
            raise InputError(
                f"{path}: holds the frames of a trajectory; read it by xarray.open_zarr, or give the dataset "
                "of the run, under `output`"
            )
        return dataset.load()


@contextlib.contextmanager
def opened_dataset(path: str | Path) -> "Iterator[xr.Dataset]":
    """Within it a dataset that simkit wrote, of which nothing is in memory yet. Raises as `read_dataset`."""
    import xarray as xr

    path = Path(path)
    if not path.exists():
        raise MissingFileError(missing_file(path))
    engines = {".zarr": {"engine": "zarr", "consolidated": True}, ".nc": {"engine": "h5netcdf"}}
    if path.suffix == ".csv":
        raise InputError(
            f"{path}: a .csv is a table for spreadsheets, not a dataset; write .zarr or .nc to read it again "
            "or to draw it"
        )
    if path.suffix not in engines:
        remedy = f"; `simkit run {path} --out {path.stem}.zarr` writes one" if path.suffix == ".yaml" else ""
        raise InputError(f"{path}: must end in .zarr or .nc to be a dataset of simkit{remedy}")
    try:
        # Times are plain numbers here, and a quantity in "days" is no duration.
        with xr.open_dataset(str(path), decode_times=False, **engines[path.suffix]) as dataset:
            if "simkit_format" not in dataset.attrs:
                raise OutputError(
                    f"{path}: was not written by simkit: it has no attribute simkit_format; {GIVE_A_DATASET}"
                )
            yield dataset
    except SimkitError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise OutputError(f"{path}: cannot be read as a dataset: {why}; {GIVE_A_DATASET}") from error
