"""Reuse of memory freed by a chunk, which would otherwise go back to the system.

XLA allocates the arrays of each chunk anew. glibc's `malloc` maps large ones from the system and unmaps them
when they are freed, so the kernel clears the same pages again for every chunk.
"""

import ctypes
import sys

from simkit.machine.cores import usable_cores

# Names and numbers of glibc's <malloc.h>.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8
SETTINGS = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 2**26}


def reuse_freed_memory() -> bool:
    """Let `malloc` keep freed memory, up to the most in use, for this process; returns whether it does.

    Call it before threads start. It does nothing where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Each arena keeps memory of its own, so there are few. With a single one the threads that compile wait
    # for each other: a cold run took 1.13 of the time. Heaps of arenas other than the first hold 64 MiB, and
    # an M_TOP_PAD of that size keeps empty ones; larger arrays of theirs are mapped and unmapped as before.
    settings = {M_ARENA_MAX: usable_cores() + 1, **SETTINGS}
    accepted = [library.mallopt(name, value) for name, value in settings.items()]
    return all(accepted)
