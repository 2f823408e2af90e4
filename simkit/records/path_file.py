"""Stored paths of a run in a file beside its record, which several processes write, each its own region.

The arrays, `(paths, rows)` each, lie one after another behind a header. It has a token, by which a process on
another machine knows that it reaches this file, and not one of the same name on a disk of its own, and the
names, types and rows of the arrays with their checksum.
"""

import contextlib
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from simkit.errors import OutputError

HEADER = 2**22  # bytes, for the token and the names of some hundred thousand arrays
TOKEN, CHECKSUM = 32, 8  # digits


class Region(NamedTuple):
    """The rows of `count` paths from the `first`, and the checksum of what was written of them."""

    first: int
    count: int
    checksum: int


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

    def write(self, first: int, arrays: Mapping[str, np.ndarray]) -> Region:
        """Write the rows of the paths from `first`, durably. Raises `OutputError`."""
        layout = json.dumps([(name, array.dtype.str, array.shape[1]) for name, array in arrays.items()])
        start = HEADER
        with _errors_named(self.path), open(self.path, "r+b") as file:
            file.seek(TOKEN)
            file.write(_digits(layout.encode()) + layout.encode() + b"\0")
            for array in arrays.values():
                of_path = array.itemsize * array.shape[1]
                file.seek(start + first * of_path)
                file.write(np.ascontiguousarray(array).data)
                start += self.paths * of_path
            file.flush()
            os.fsync(file.fileno())
        return Region(first, len(next(iter(arrays.values()))), _checksum(arrays))

    def has(self, regions: Iterable[Region]) -> bool:
        """Whether this process reaches the file, and it holds what was written of these regions."""
        if not self.is_here:
            return False
        try:
            with open(self.path, "rb") as file:
                arrays = [*self._arrays(file)]
                return all(self._checksum_in(file, arrays, each) == each.checksum for each in regions)
        except (OSError, ValueError):  # its header is damaged
            return False

    def _checksum_in(self, file: BinaryIO, arrays: list[tuple], region: Region) -> int:
        """The checksum of what the file holds of a region, of which the end may be cut off."""
        result = 0
        for _, dtype, rows, start in arrays:
            of_path = dtype.itemsize * rows
            file.seek(start + region.first * of_path)
            result = zlib.crc32(file.read(region.count * of_path), result)
        return result

    def _arrays(self, file: BinaryIO) -> Iterator[tuple[str, np.dtype, int, int]]:
        """The name, type, rows and first byte of each array. Raises `ValueError` where they are damaged."""
        header, start = file.read(HEADER)[TOKEN:].partition(b"\0")[0], HEADER
        checksum, layout = header[:CHECKSUM], header[CHECKSUM:]
        if header and checksum != _digits(layout):
            raise ValueError("the checksum of its header is wrong, so part of it is damaged")
        for name, text, rows in json.loads(layout or b"[]"):
            dtype = np.dtype(text)
            yield name, dtype, rows, start
            start += dtype.itemsize * self.paths * rows

    def read(self) -> dict[str, np.ndarray]:
        """The arrays, mapped into memory, where they stay when the file is removed. Raises `OutputError`."""
        with _errors_named(self.path), open(self.path, "rb") as file:
            return {
                name: np.asarray(np.memmap(file, dtype, "r", start, (self.paths, rows)))
                for name, dtype, rows, start in self._arrays(file)
            }


def _digits(layout: bytes) -> bytes:
    """The checksum of a header, as it stands there."""
    return b"%0*x" % (CHECKSUM, zlib.crc32(layout))


def _checksum(arrays: Mapping[str, np.ndarray]) -> int:
    result = 0
    for array in arrays.values():
        result = zlib.crc32(np.ascontiguousarray(array).data, result)
    return result


@contextlib.contextmanager
def _errors_named(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OutputError(f"{path}: stored paths cannot be kept there: {why}") from error


def _token_in(path: str | Path) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(TOKEN).decode("ascii", "replace")
    except OSError:
        return ""
