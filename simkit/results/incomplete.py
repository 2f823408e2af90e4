"""Files that are not complete yet: hidden names, of which none is left when the process ends."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_names: set[Path] = set()


@contextlib.contextmanager
def incomplete(path: Path) -> Iterator[Path]:
    """A name beside `path` for what is not complete yet; what has it is removed in the end."""
    temporary = path.with_name(f".{path.stem}.tmp-{os.getpid()}{path.suffix}")
    _names.add(temporary)
    try:
        remove(temporary)  # of a killed process that had the same number
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            remove(temporary)
        _names.discard(temporary)


def remove_incomplete() -> None:
    """Remove what threads are still writing: the process ends at once, without their `finally`."""
    for temporary in list(_names):
        with contextlib.suppress(OSError):
            remove(temporary)


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
