"""Names that a run will write, claimed at its start: a second run into the same file is refused at once."""

import contextlib
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from simkit.errors import OutputError, levels_to_caller
from simkit.records.incomplete import abandoned, removed_at_the_end

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=levels_to_caller())


@contextlib.contextmanager
def claimed(paths: list[Path], say: Callable[[str], None] = _warn) -> Iterator[None]:
    """Hold these names while a run is at work; raise `OutputError` where another process holds one.

    Calls `say` with a line about each file that a killed run has left beside them. A claim is a lock of the
    system on a hidden file `.NAME.lock`, which a dead process does not hold.
    """
    with contextlib.ExitStack() as stack:
        for path in paths:
            stack.enter_context(_claim(path))
        for path in paths:
            for line in leftovers(path):
                say(line)
        yield


def leftovers(path: Path) -> list[str]:
    """What killed runs have left of `path`, a line each. It is for the user to remove."""
    return [
        f"{file}: was left by a run into {path.name} that was killed; remove it" for file in abandoned(path)
    ]


@contextlib.contextmanager
def _claim(path: Path) -> Iterator[None]:
    real = Path(os.path.realpath(path))
    lock = real.with_name(f".{real.name}.lock")
    try:
        descriptor = _locked(lock)
    except BlockingIOError as error:
        raise OutputError(
            f"{path}: is being written by another run{_holder(lock)}; wait for it, or choose another output"
        ) from error
    except OSError:  # a file system without locks
        yield
        return
    try:
        with removed_at_the_end(lock):
            yield
    finally:
        os.close(descriptor)


def _locked(lock: Path) -> int:
    """The open and locked file. Raises `BlockingIOError` where another process holds it."""
    if fcntl is None:
        raise OSError("no locks")
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == os.stat(lock).st_ino:
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # of a run that ended meanwhile, and removed it


def _holder(lock: Path) -> str:
    with contextlib.suppress(OSError):
        if text := lock.read_text().strip():
            return f" ({text})"
    return ""
