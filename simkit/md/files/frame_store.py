"""Frames of all replicas in a Zarr dataset, each in a chunk of its own: written at once, never stacked."""

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import OutputError
from simkit.md.files.frame import Frame
from simkit.records.durable import flush_files, flush_names
from simkit.records.incomplete import incomplete, remove
from simkit.records.recording import Recording
from simkit.results.storage import put_in_place
from simkit.results.variables import Variables

AXES = ("path", "time", "particle", "axis")
LONG_NAMES = {
    "position": "position in the box",
    "image": "box vectors to add for the position on the path without the box",
    "velocity": "velocity",
}


class FrameStore:
    """An open dataset of frames: `position` in the box, `image` box vectors, and `velocity` where it means
    something, by path, time, particle and axis. It is in a `folder`."""

    def __init__(self, group: Any, folder: Path):
        self.arrays = {name: group[name] for name in ("position", "image", "velocity") if name in group}
        self.folder, self.lock, self.closed = folder, threading.Lock(), False
        self.written: dict[int, list[Path]] = defaultdict(list)  # since the last flush

    def write(self, path: int, number: int, frame: Frame) -> None:
        """Put frame `number` of a replica in its place; nothing once the store is closed."""
        given = {"position": frame.positions, "image": frame.images, "velocity": frame.velocities}
        with self.lock:
            if not self.closed:
                for name, array in self.arrays.items():
                    array[path, number] = given[name]
                    chunk = array.metadata.encode_chunk_key((path, number, 0, 0))
                    self.written[path].append(self.folder / name / chunk)

    def flush(self, path: int) -> None:
        """Make the frames of a replica durable. Of a chunk of zeros there is no file."""
        flush_files(self.written.pop(path, ()))

    def close(self) -> None:
        with self.lock:
            self.closed = True


@contextlib.contextmanager
def frame_store(
    file: Path,
    variables: Variables,
    units: dict[str, str],
    dtype: np.dtype,
    attributes: dict[str, Any],
    record: Recording | None = None,
    resumed: bool = False,
) -> Iterator[FrameStore]:
    """A new dataset that has its name when it is complete.

    `variables` are all but those of the frames, among them the coordinates `path`, `time`, `particle` and
    `axis`; `units` are those of the frames' variables. With a `record` what there is stays where the run
    stops, and is gone on with where that is `resumed`. Raises `OutputError` where it cannot be written.
    """
    import zarr

    path = Path(os.path.realpath(file))
    named = incomplete(path) if record is None else contextlib.nullcontext(record.partial(path))
    try:
        with named as temporary:
            complete = resumed and path.exists() and not temporary.exists()
            if not resumed:
                remove(temporary)
                _new_store(temporary, variables, units, dtype, attributes)
                if record is not None:
                    flush_files(file for file in temporary.rglob("*") if file.is_file())
                    flush_names(temporary.parent)
            elif not (complete or temporary.exists()):
                raise OutputError(
                    f"{temporary}: frames that were recorded are gone; start anew by --overwrite"
                )
            group = {} if complete else zarr.open_group(str(temporary), zarr_format=2)
            store = FrameStore(group, temporary)
            try:
                yield store
            finally:
                store.close()  # a thread may be at work still, after a failure or an interrupt
            if not complete:
                put_in_place(temporary, path)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"{file}: could not be written: {error.strerror or error}") from error


def _new_store(
    path: Path, variables: Variables, units: dict[str, str], dtype: np.dtype, attributes: dict[str, Any]
) -> None:
    import xarray as xr
    import zarr

    dataset = xr.Dataset(variables, attrs=attributes)
    # Format 2, as all datasets of simkit.
    dataset.to_zarr(str(path), mode="w-", zarr_format=2, consolidated=False)
    group = zarr.open_group(str(path), zarr_format=2)
    shape = (dataset.sizes["path"], dataset.sizes["time"], dataset.sizes["particle"], 3)
    for name, unit in units.items():
        array = group.create_array(
            name,
            shape=shape,
            chunks=(1, 1, *shape[2:]),
            dtype=np.dtype(np.int32) if name == "image" else dtype,
            fill_value=None,  # which xarray would take for a missing number
        )
        array.attrs.update({"_ARRAY_DIMENSIONS": list(AXES), "units": unit, "long_name": LONG_NAMES[name]})
    zarr.consolidate_metadata(str(path), zarr_format=2)
