"""Reuse of memory freed by a chunk, which would otherwise go back to the system.

XLA allocates the arrays of each chunk anew. glibc's `malloc` maps large ones from the system and unmaps them
when they are freed, so the kernel clears the same pages again for every chunk.
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

from simkit.machine.cores import usable_cores

# Names and numbers of glibc's <malloc.h>.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -3, -4, -8
SETTINGS = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 2**26}
_accepted: list[int] = []  # of the settings, once they were made
LARGE = {M_MMAP_MAX: 2**16, M_MMAP_THRESHOLD: 2**25}  # the largest threshold there is


def reuse_freed_memory() -> bool:
    """Let `malloc` keep freed memory, up to the most in use, for this process; returns whether it does.

    Call it before threads start. It does nothing where the C library is not glibc.
    """
    library = _glibc()
    if library is None:
        return False
    # Each arena keeps memory of its own, so there are few. With a single one the threads that compile wait
    # for each other: a cold run took 1.13 of the time. Heaps of arenas other than the first hold 64 MiB, and
    # an M_TOP_PAD of that size keeps empty ones; larger arrays of theirs are mapped and unmapped as before.
    settings = {M_ARENA_MAX: usable_cores() + 1, **SETTINGS}
    accepted = [library.mallopt(name, value) for name, value in settings.items()]
    _accepted.extend(accepted)
    return all(accepted)


@contextlib.contextmanager
def large_arrays_mapped() -> Iterator[None]:
    """Meanwhile arrays above 32 MiB go back to the system when freed, for runs of a few large arrays.

    A larger list of neighbours does not fit where a smaller one was: with what was kept, a million particles
    took 2.0 to 2.4 GB at most, otherwise 1.65 GB. Afterwards memory is kept if it was before: an ensemble
    that saves 200 000 x 200 numbers has up to twice the page faults otherwise.
    """
    library = _glibc()
    if library is not None:
        for name, value in LARGE.items():
            library.mallopt(name, value)
    try:
        yield
    finally:
        if library is not None and _accepted:
            library.mallopt(M_MMAP_MAX, SETTINGS[M_MMAP_MAX])


def give_back_freed_memory() -> None:
    """Return what `malloc` keeps to the system: another thread would not find what this one's arena keeps."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is glibc."""
    library = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return library if library is not None and hasattr(library, "gnu_get_libc_version") else None
