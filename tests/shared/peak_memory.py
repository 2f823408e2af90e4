"""The most memory that this process has held at once."""

import re
import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """In bytes. Linux begins getrusage's peak with that of the process that started this one."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])
