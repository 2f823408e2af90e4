"""Files that are not complete yet: hidden names, of which none is left when the process ends."""

import contextlib
import glob
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

TRIES, PAUSE = 20, 0.05  # seconds

_names: set[Path] = set()


@contextlib.contextmanager
def incomplete(path: Path) -> Iterator[Path]:
    """A name next to `path` for what is not complete yet; what has it is removed in the end."""
    temporary = unused(path.with_name(f".{path.stem}.tmp"), path.suffix)
    with removed_at_the_end(temporary):
        yield temporary


@contextlib.contextmanager
def removed_at_the_end(path: Path) -> Iterator[None]:
    """Within it a file or directory may be made, which is removed at its end, and where the process ends."""
    _names.add(path)
    try:
        yield
    finally:
        if _remove_for_good(path):
            _names.discard(path)


def unused(path: Path, suffix: str = "") -> Path:
    """A name that nothing has yet: `path` with the number of this process, and one more."""
    names = (path.with_name(f"{path.name}-{os.getpid()}-{i}{suffix}") for i in itertools.count())
    return next(name for name in names if not os.path.lexists(name))


def abandoned(path: Path) -> list[Path]:
    """What processes that are no more have left of `path`: incomplete files, and what one was to replace."""
    stem, name = glob.escape(path.stem), glob.escape(path.name)
    patterns = f".{stem}.tmp-[0-9]*{path.suffix}", f".{name}.old-[0-9]*"
    found = (file for pattern in patterns for file in sorted(path.parent.glob(pattern)))
    return [file for file in found if file not in _names and not _of_another_process(file)]


def _of_another_process(file: Path) -> bool:
    """Whether a process that is alive may be writing a file; one of the number in its name, but for this."""
    number = int(re.split(r"\.(?:tmp|old)-", file.name)[-1].partition("-")[0])
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    return True


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
