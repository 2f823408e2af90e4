"""The names of results: a quantity and a statistic, as in `S_mean`."""

import itertools
from collections.abc import Iterable

from simkit.ensemble.reducers import STATISTICS

# fmt: off
OTHERS = (
    "histogram", "histogram_edge", "bin", "edge", "path", "events", "path_events",
    "bias", "bias_stderr", "bias_order", "bias_bound",
    "variance_bias", "variance_bias_stderr", "variance_bias_bound",
    "lower", "upper", "censored", "censored_stderr", "exact", "exact_variance", "z",
    "in_sample", "in_sample_stderr", "date", "exercise_fraction", "exercise_low", "exercise_high",
    "upper_bound", "upper_bound_stderr",
    "difference", "difference_stderr", "difference_bias", "difference_bias_stderr",
)
# fmt: on


def suffixes() -> tuple[str, ...]:
    """What may follow a quantity's name: the figures of all statistics, and the others."""
    return (*(label for kind in STATISTICS.values() for label in kind.labels), *OTHERS)


def clash(names: Iterable[str], new: str) -> tuple[str, str] | None:
    """A quantity with which a new one would share a result, and that result: `S` and `S_bias_stderr`, say."""
    known = suffixes()
    results = {f"{new}_{suffix}" for suffix in known}
    for name, suffix in itertools.product(names, known):
        if f"{name}_{suffix}" in results:
            return name, f"{name}_{suffix}"
    return None
