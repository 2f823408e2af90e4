"""How well a sample of whole numbers follows a distribution."""

import numpy as np
from scipy import stats


def chi_square(x, distribution) -> float:
    """The p-value of a sample of whole numbers under a distribution, in cells of 20 or more expected."""
    low, high = int(distribution.ppf(0.002)), int(distribution.ppf(0.998))
    edges = np.arange(low, high + 1, max(1, (high - low) // 30)) + 0.5
    expected = len(x) * np.diff(np.concatenate([[0], distribution.cdf(edges), [1]]))
    observed = np.histogram(x, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    keep = expected > 1e-9
    chi = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(chi, keep.sum() - 1))
