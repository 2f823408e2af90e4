import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, sys, threading
from simkit.machine.freed_memory import large_arrays_mapped, reuse_freed_memory

how = sys.argv[1]
mapped = large_arrays_mapped()
if how != "returned":
    assert reuse_freed_memory()
if how.startswith("mapped"):
    mapped.__enter__()
if how == "mapped before":
    mapped.__exit__(None, None, None)
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p

def used_once(count, size):
    blocks = [ctypes.c_void_p(library.malloc(ctypes.c_size_t(size))) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        library.free(block)

def used(*blocks):
    used_once(*blocks)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(4):
        used_once(*blocks)
    print(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

used(1, 2**27)
thread = threading.Thread(target=used, args=(4, 2**25))
thread.start()
thread.join()
"""


def page_faults(how: str) -> list[int]:
    """Of the main thread with a block of 128 MiB, and of another with four of 32 MiB."""
    command = [sys.executable, "-c", PROGRAM, how]
    return [*map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="settings of glibc")
def test_memory_that_was_freed_is_not_cleared_by_the_kernel_again():
    """Four times 128 MiB are 131 072 pages of 4 KiB, or 256 of 2 MiB."""
    assert max(page_faults("reused")) < 20
    assert min(page_faults("returned")) >= 256


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="settings of glibc")
def test_large_arrays_go_back_to_the_system_only_while_they_are_to():
    assert min(page_faults("mapped")) >= 256
    assert max(page_faults("mapped before")) < 20
