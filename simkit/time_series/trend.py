r"""The slope of a series with its standard error: what drifts, and what only fluctuates.

The least-squares line through the means of blocks, $\hat b = \sum_b (t_b - \bar t)\,\bar x_b / \sum_b (t_b -
\bar t)^2$; its error is that of the residuals, with the correlation between neighbouring blocks.
"""

from collections.abc import Sequence

import numpy as np

from simkit.time_series.blocks import Blocks, BlockSums, block_sums
from simkit.time_series.estimate import Estimate, honest
from simkit.time_series.window import autocovariances, windowed


def slope(sums: BlockSums | Blocks | Sequence[Blocks], interval: float = 1.0) -> Estimate:
    """The slope per unit of time of each series, whose samples are `interval` apart; over replicas, the mean.

    The sums are those of an array `(series,)`. `tau` is that of the residuals, in samples.
    """
    sums = sums if isinstance(sums, BlockSums) else block_sums(sums)
    means = np.asarray(sums.complete, float) / sums.length
    replicas, blocks = means.shape[:2]
    if blocks < 3:
        unknown = np.full(means.shape[2:], np.nan)
        return honest(unknown, unknown, unknown, unknown, unknown, sums.samples)
    length = interval * sums.length
    time = length * (np.arange(blocks) - (blocks - 1) / 2)
    spread = replicas * np.sum(time**2)
    means = means - means.mean((0, 1))
    value = np.einsum("b,rb...->...", time, means) / spread
    line = time.reshape(-1, *(1,) * value.ndim) * value
    residual = means - means.mean(1, keepdims=True) - line
    count = replicas * blocks
    window = windowed(autocovariances(residual, max(2, blocks // 2)), count)
    fitted = replicas + 1  # a level for each replica, and the slope
    variance = window.total * count / max(count - fitted, 1) / spread
    tau = window.tau * sums.length
    return honest(value, variance, tau, window.tau_stderr * sums.length, window.freedom, sums.samples)
