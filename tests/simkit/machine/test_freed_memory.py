import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, sys
from simkit.machine.freed_memory import reuse_freed_memory

if sys.argv[1] == "reused":
    assert reuse_freed_memory()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p

def used_once():
    block = ctypes.c_void_p(library.malloc(ctypes.c_size_t(2**27)))
    ctypes.memset(block, 1, 2**27)
    library.free(block)

used_once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    used_once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="settings of glibc")
def test_memory_that_was_freed_is_not_cleared_by_the_kernel_again():
    """Four times 128 MiB are 131 072 pages of 4 KiB, or 256 of 2 MiB."""
    assert page_faults("reused") < 20
    assert page_faults("returned") >= 256
