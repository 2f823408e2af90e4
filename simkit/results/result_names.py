"""The names of results: a quantity's own and what is known of it, as `S_mean`."""

import itertools
from collections.abc import Iterable

# fmt: off
SUFFIXES = (
    "mean", "stderr", "variance", "variance_stderr", "min", "max", "quantile", "quantile_stderr",
    "quantile_bin_error", "histogram",
    "histogram_edge", "bin", "edge", "path", "bias", "bias_stderr", "bias_order", "bias_bound",
    "variance_bias", "variance_bias_stderr", "variance_bias_bound",
    "lower", "upper", "censored", "censored_stderr", "exact", "exact_variance", "z",
    "in_sample", "in_sample_stderr", "date", "exercise_fraction", "exercise_low", "exercise_high",
    "upper_bound", "upper_bound_stderr",
    "difference", "difference_stderr",
)
# fmt: on


def clash(names: Iterable[str], new: str) -> tuple[str, str] | None:
    """A quantity with which a new one would share a result, and that result: `S` and `S_bias_stderr`, say."""
    results = {f"{new}_{suffix}" for suffix in SUFFIXES}
    for name, suffix in itertools.product(names, SUFFIXES):
        if f"{name}_{suffix}" in results:
            return name, f"{name}_{suffix}"
    return None
