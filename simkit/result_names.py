"""The names of results: a quantity's own and what is known of it, as `S_mean`."""

import itertools
from collections.abc import Iterable

# fmt: off
SUFFIXES = (
    "mean", "stderr", "variance", "min", "max", "quantile", "quantile_bin_error", "histogram",
    "histogram_edge", "bin", "edge", "path", "bias", "bias_stderr", "exact", "exact_variance", "z",
)
# fmt: on


def clash(names: Iterable[str]) -> tuple[str, str] | None:
    """A quantity and the result of another that it would share a variable with, as `S_bias` and `S` do."""
    taken: dict[str, str] = {}
    for name, suffix in itertools.product(names, SUFFIXES):
        result = f"{name}_{suffix}"
        if taken.setdefault(result, name) != name:
            return name, result
    return None
