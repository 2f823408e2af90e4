"""A run with a step bias, and the table of a result as text."""

import io

from simkit.results.table import print_table

GROWTH = {
    "model": {"type": "GBM", "mu": 0.5, "sigma": 0.3},
    "initial": {"S": 1.0},
    "time": {"t1": 1.0, "steps": 16},
    "ensemble": {"paths": 500, "devices": 1},
}


def table(dataset) -> str:
    """What a run prints of its result."""
    file = io.StringIO()
    print_table(dataset, file)
    return file.getvalue()
