"""Statistics of a series that is at hand as an array: the same sums as in one pass, by NumPy."""

import numpy as np
from jaxtyping import Float

from simkit.time_series.blocks import MOST, BlockSums
from simkit.time_series.estimate import Estimate
from simkit.time_series.levels import LAGS, Levels, estimated_mean


def of_series(series: Float[np.ndarray, "replicas samples series"], separate: bool = False) -> Estimate:
    """Means, standard errors and autocorrelation times, as `estimated_mean` gives them of a stream."""
    return estimated_mean(levels_of(np.asarray(series, float)), separate)


def levels_of(series: Float[np.ndarray, "replicas samples series"]) -> Levels:
    """The sums over blocks, with an axis of replicas in front. What only further samples need is left out."""
    replicas, samples, count = series.shape
    origin = series[:, 0]
    depth = max(samples.bit_length(), 1)
    sums = np.zeros((4, replicas, depth, LAGS, count))
    blocks = series - origin[:, None]
    for level in range(depth):
        for t in range(min(LAGS, blocks.shape[1])):
            later, earlier = blocks[:, t:], blocks[:, : blocks.shape[1] - t]
            sums[1:, :, level, t] = (later * earlier).sum(1), later.sum(1), earlier.sum(1)
        even = blocks.shape[1] // 2 * 2
        blocks = 0.5 * (blocks[:, 0:even:2] + blocks[:, 1:even:2])
    return Levels(np.full(replicas, samples), origin, sums[2, :, :, 0], *sums)  # pyright: ignore


def blocks_of(series: Float[np.ndarray, "replicas samples ..."], most: int = MOST) -> BlockSums:
    """The sums over blocks, in the lengths that a stream would have them."""
    samples = series.shape[1]
    length = 1
    while samples > most * length:
        length *= 2
    whole = samples // length
    cut = series[:, : whole * length].reshape(len(series), whole, length, *series.shape[2:])
    return BlockSums(length, series.shape[0] * samples, cut.sum(2), series.sum((0, 1)))
