"""How many processor cores this process may use: affinity, and the limit of its control group."""

import functools
import math
import os
from pathlib import Path

from simkit.machine.control_groups import group_folders


def usable_cores(root: Path = Path("/")) -> int:
    """The cores that the scheduler gives this process, and no more than its control group pays for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = group_limit(root)
    return cores if limit is None else max(1, min(cores, math.ceil(limit)))


@functools.cache  # each run of a sweep asks several times
def group_limit(root: Path = Path("/")) -> float | None:
    """The cores that the control group of this process, or one above it, allows; None without a limit.

    Version 2 writes quota and period of a group into `cpu.max`, version 1 into two files. They are read once.
    """
    limits = [limit for folder in group_folders("cpu", root) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _limit(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{key}_us").read_text() for key in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):  # no such files, or "max" for no limit
        return None
