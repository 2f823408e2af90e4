"""How much memory this process may still take, and what becomes of an allocation that fails."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from simkit.errors import OutOfMemoryError
from simkit.machine.control_groups import group_folders
from simkit.progress import short_count

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None

# Address space in which jax starts and compiles a small program: with less than 0.85 GB its threads abort.
LEAST_ADDRESS_SPACE = 10**9


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take; None where the system does not say.

    The least of what is free in the machine, in the control groups of this process (a container's limit), and
    below its own limits (`ulimit -v`, `ulimit -d`).
    """
    free = [_free_in_machine(root), *_free_in_groups(root), *_free_below_limits(root)]
    known = [max(0, size) for size in free if size is not None]
    return min(known, default=None)


def check_address_space() -> None:
    """Raise `OutOfMemoryError` where jax could not even start: its threads would end the process."""
    if resource is None:
        return
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if 0 <= most < LEAST_ADDRESS_SPACE:
        raise OutOfMemoryError(
            f"this process may use {short_count(most)}B of address space (ulimit -v), and jax needs "
            f"{short_count(LEAST_ADDRESS_SPACE)}B to start; raise the limit"
        )


def is_shortage(error: BaseException) -> bool:
    """Whether an error is an allocation that failed, of Python, NumPy or XLA."""
    of_xla = isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    return of_xla or isinstance(error, MemoryError)


@contextlib.contextmanager
def failures_named(remedy: str) -> Iterator[None]:
    """Within it an allocation that fails, of Python, NumPy or XLA, is an `OutOfMemoryError` with a remedy."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not is_shortage(error):
            raise
        text = str(error)
        why = text.strip().splitlines()[0].removeprefix("RESOURCE_EXHAUSTED: ") if text.strip() else "no room"
        available = available_memory()
        left = "" if available is None else f", {short_count(available)}B are left"
        raise OutOfMemoryError(f"not enough memory: {why.rstrip('.')}{left}; {remedy}") from error


def _free_in_machine(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        return int(dict(line.split(":") for line in lines)["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _free_in_groups(root: Path) -> Iterator[int]:
    """What is cached of files is free: the system gives it up."""
    for folder in group_folders("memory", root):
        for limit, used, cached in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with contextlib.suppress(OSError, ValueError):  # no such files, or "max" for no limit
                most, taken = (int((folder / name).read_text()) for name in (limit, used))
                counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                yield most - taken + int(counts.get(cached, 0))


def _free_below_limits(root: Path) -> Iterator[int]:
    """The process's own limits, of its address space and of its data."""
    try:
        pages = [int(number) for number in (root / "proc/self/statm").read_text().split()]
    except (OSError, ValueError):
        return
    if resource is None:
        return
    for limit, taken in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most, _ = resource.getrlimit(limit)
        if 0 <= most < sys.maxsize:
            yield most - taken * os.sysconf("SC_PAGE_SIZE")
