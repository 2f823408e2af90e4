"""Stored paths of a run in a file beside its record, which several processes write, each its own region.

The arrays, `(paths, rows)` each, lie one after another behind a header. It has a token, by which a process on
another machine knows that it reaches this file, and not one of the same name on a disk of its own.
"""

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simkit.errors import OutputError

HEADER = 2**22  # bytes, for the token and the names of some hundred thousand arrays
TOKEN = 32


class PathFile(NamedTuple):
    """The file at `path` with the rows of so many `paths`."""

    path: str
    token: str
    paths: int

    @classmethod
    def opened(cls, path: Path, paths: int, anew: bool) -> "PathFile":
        """A new file, or the one that is there unless it is to be made `anew`. Raises `OutputError`."""
        token = "" if anew else _token_in(path)
        if not token:
            token = secrets.token_hex(TOKEN // 2)
            with _errors_named(path):
                path.write_bytes(token.encode())
        return cls(str(path), token, paths)

    @property
    def is_here(self) -> bool:
        """Whether this process reaches the file."""
        return _token_in(self.path) == self.token

    def write(self, first: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the rows of the paths from `first`, durably. Raises `OutputError`."""
        layout = json.dumps([(name, array.dtype.str, array.shape[1]) for name, array in arrays.items()])
        start = HEADER
        with _errors_named(self.path), open(self.path, "r+b") as file:
            file.seek(TOKEN)
            file.write(layout.encode() + b"\0")
            for array in arrays.values():
                of_path = array.itemsize * array.shape[1]
                file.seek(start + first * of_path)
                file.write(np.ascontiguousarray(array).data)
                start += self.paths * of_path
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> dict[str, np.ndarray]:
        """The arrays, mapped into memory, where they stay when the file is removed. Raises `OutputError`."""
        with _errors_named(self.path), open(self.path, "rb") as file:
            layout, start, arrays = file.read(HEADER)[TOKEN:].partition(b"\0")[0], HEADER, {}
            for name, dtype, rows in json.loads(layout):
                shape = self.paths, rows
                arrays[name] = np.asarray(np.memmap(file, np.dtype(dtype), "r", start, shape))
                start += np.dtype(dtype).itemsize * math.prod(shape)
        return arrays


@contextlib.contextmanager
def _errors_named(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: stored paths cannot be kept there: {error.strerror or error}") from error


def _token_in(path: str | Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(TOKEN).decode("ascii", "replace")
    except OSError:
        return ""
