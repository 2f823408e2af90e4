"""Quoted errors against the spread of repetitions."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr


def assert_errors_are_as_wide_as_the_spread(
    run: Callable[[int], xr.Dataset], keys: Sequence[str], repetitions: int = 100
) -> None:
    """Run with each seed: the variance of each figure at the end is that which its errors say.

    The variance of 100 repetitions is known to 14 %; a factor of two would show.
    """
    seen: dict[str, list] = {key: [] for key in keys}
    for seed in range(repetitions):
        dataset = run(seed)
        for key in keys:
            error = f"{key.removesuffix('_mean').removesuffix('_value')}_stderr"
            seen[key].append((dataset[key].values[-1], dataset[error].values[-1]))
    for key, pairs in seen.items():
        values, errors = np.array(pairs).T
        # An extrapolated bias has an error for what it leaves out as well.
        most = 3.0 if key.endswith("_bias") else 1.6
        assert values.var(ddof=1) < 1.6 * np.mean(errors**2), key
        assert most * values.var(ddof=1) > np.mean(errors**2), key
