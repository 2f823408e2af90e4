"""Files that are on the disk when a function returns, and not only in the memory of the system."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def flush_files(files: Iterable[Path]) -> None:
    """Make the content of files durable, and their names in their folders; there may be none of a name."""
    folders = set()
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            _flush(file, os.O_RDWR)
            folders.add(file.parent)
    for folder in folders:
        flush_names(folder)


def flush_names(folder: Path) -> None:
    """Make renames durable; a system that cannot open folders does so by itself."""
    with contextlib.suppress(OSError):
        _flush(folder, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
