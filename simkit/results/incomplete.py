"""Files that are not complete yet: hidden names, of which none is left when the process ends."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

TRIES, PAUSE = 20, 0.05  # seconds

_names: set[Path] = set()


@contextlib.contextmanager
def incomplete(path: Path) -> Iterator[Path]:
    """A name next to `path` for what is not complete yet; what has it is removed in the end."""
    temporary = path.with_name(f".{path.stem}.tmp-{os.getpid()}{path.suffix}")
    _names.add(temporary)
    try:
        remove(temporary)  # of a killed process that had the same number
        yield temporary
    finally:
        if _remove_for_good(temporary):
            _names.discard(temporary)


def remove_incomplete() -> None:
    """Remove what threads are still writing: the process ends at once, without their `finally`."""
    for temporary in list(_names):
        _remove_for_good(temporary)


def _remove_for_good(path: Path) -> bool:
    """Remove what a thread may be at: that of zarr goes on after an interrupt, and makes folders again.

    Whether it is gone.
    """
    for _ in range(TRIES):
        with contextlib.suppress(OSError):
            if not path.exists():
                return True
            remove(path)
        time.sleep(PAUSE)
    return False


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
