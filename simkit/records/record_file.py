"""A file that survives any interruption: with a checksum, and beside it the one before.

A process may be killed at any moment, and a disk may lose what was not flushed. So a record is written under
another name, flushed, and renamed; and the one before stays until the next is complete.
"""

import contextlib
import glob
import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from simkit.records.durable import flush_names
from simkit.records.incomplete import incomplete

MAGIC = b"simkit record 1\n"
PATHS = "-paths-"
OF_NUMPY = {"_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar"}


class Record(NamedTuple):
    """Whose record it is, and its content: tuples, lists, mappings, numbers and arrays."""

    identity: dict[str, str]
    content: Any


def record_of(output: Path) -> Path:
    """The name of the record of a run into `output`: a hidden file beside it."""
    real = Path(os.path.realpath(output))
    return real.with_name(f".{real.name}.record")


def _before(path: Path) -> Path:
    return path.with_name(f"{path.name}-before")


def paths_beside(path: Path, loop: int) -> Path:
    """The name of the file for the stored paths of a loop."""
    return path.with_name(f"{path.name}{PATHS}{loop}")


def exists(path: Path) -> bool:
    """Whether there is a record, complete or not."""
    return path.exists() or _before(path).exists()


def write(path: Path, record: Record) -> None:
    """Write a record durably; that before it stays until the next one. Raises `OSError`."""
    stream = io.BytesIO()
    _OfArrays(stream, protocol=5).dump(tuple(record))
    body = stream.getvalue()
    with incomplete(path) as temporary:
        with open(temporary, "wb") as file:
            file.write(MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n")
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, _before(path))
        os.replace(temporary, path)
    flush_names(path.parent)


def read(path: Path) -> tuple[Record | None, list[str]]:
    """The last record that is whole, and a line for each that is not."""
    spoilt = []
    for each in (path, _before(path)):
        try:
            return _whole(each.read_bytes()), spoilt
        except FileNotFoundError:
            pass
        except (ValueError, OSError) as error:
            spoilt.append(f"{each}: is not used: {error}")
    return None, spoilt


def remove(path: Path) -> None:
    """Remove the record, that before it, and the files of stored paths."""
    for file in path.parent.glob(f"{glob.escape(path.name)}{PATHS}*"):
        file.unlink(missing_ok=True)
    keep_only(path)
    path.unlink(missing_ok=True)


def keep_only(path: Path) -> None:
    """Remove the record before the one that is there."""
    _before(path).unlink(missing_ok=True)


def _whole(data: bytes) -> Record:
    """The record in a file. Raises `ValueError` where the file is not whole."""
    head, _, rest = data[len(MAGIC) :].partition(b"\n")
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin as a record of this version of simkit")
    if hashlib.sha256(rest).hexdigest().encode() != head:
        raise ValueError("its checksum is wrong, so part of it is missing or damaged")
    try:
        return Record(*_Plain(io.BytesIO(rest)).load())
    except Exception as error:  # of another version
        raise ValueError(f"it cannot be read ({error})") from error


class _OfArrays(pickle.Pickler):
    """Writes arrays of jax as those of NumPy."""

    def reducer_override(self, obj: Any) -> Any:
        return np.asarray(obj).__reduce_ex__(5) if isinstance(obj, jax.Array) else NotImplemented


class _Plain(pickle.Unpickler):
    """Reads nothing but arrays and named tuples of simkit, since others could run any code."""

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        if package == "numpy" and name in OF_NUMPY:
            return super().find_class(module, name)
        if package == "simkit":
            kind = super().find_class(module, name)
            if isinstance(kind, type) and issubclass(kind, tuple):
                return kind
        raise pickle.UnpicklingError(f"{module}.{name} does not belong in a record")
