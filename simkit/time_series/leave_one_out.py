r"""Errors of functions of averages, by leaving out one block after another.

With $\theta$ from all B blocks and $\theta_b$ from all but block b, the pseudo-values $B \theta - (B - 1)
\theta_b$ behave like a series whose mean is the estimate: its bias is of second order in $1/B$, and its
standard error follows from the pseudo-values with the correlation between neighbouring blocks, up to an
automatic window.

Reference: Künsch (1989), The jackknife and the bootstrap for general stationary observations,
doi:10.1214/aos/1176347265.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from simkit.time_series.blocks import Blocks, BlockSums, block_sums
from simkit.time_series.estimate import MANY, Estimate, honest, of_replicas
from simkit.time_series.window import autocovariances, windowed


def jackknife(
    sums: BlockSums | Blocks | Sequence[Blocks],
    function: Callable[[Any, int], Any],
    about: Callable[[Any, int], Any] | None = None,
) -> Estimate:
    """The estimate of `function(sums, samples)`, where the sums are those of that many samples.

    The function is one of averages: it gives the same for twice the sums of twice the samples. It may return
    an array. That of fluctuations has an unknown error as long as the averages `about` which they are have
    one: squares decorrelate faster than what is squared, and in a short series, whose variance is too small,
    they seem to do so faster still.
    """
    if about is not None:
        known, found = jackknife(sums, about), jackknife(sums, function)
        if np.all(np.isfinite(known.stderr)) or not np.all(np.isfinite(found.stderr)):
            return found
        return found._replace(stderr=np.full_like(found.value, np.nan), reason=known.reason)
    sums = sums if isinstance(sums, BlockSums) else block_sums(sums)
    value = np.asarray(function(sums.everything, sums.samples), float)
    count = sums.replicas * sums.blocks
    if count < 2:
        unknown = np.full(value.shape, np.nan)
        return honest(value, unknown, unknown, unknown, unknown, sums.samples)
    whole = jax.tree.map(lambda a: a.sum((0, 1)), sums.complete)
    of_all = np.asarray(function(whole, count * sums.length), float)

    def without(replica: int, block: int) -> np.ndarray:
        rest = jax.tree.map(lambda total, a: total - a[replica, block], whole, sums.complete)
        return np.asarray(function(rest, (count - 1) * sums.length), float)

    left = [[without(r, b) for b in range(sums.blocks)] for r in range(sums.replicas)]
    pseudo = count * of_all - (count - 1) * np.asarray(left)
    correction = pseudo.mean((0, 1)) - of_all
    return of_blocks(value + correction, pseudo, sums.length, sums.samples)


def of_blocks(value: np.ndarray, series: np.ndarray, length: int, samples: int) -> Estimate:
    """The estimate of a mean over the blocks `(replicas, blocks, ...)` of a series.

    It has the spread of replicas as its error if they are 16 or more, or have one block each
    (`in_one_block`).
    """
    replicas, blocks = series.shape[:2]
    window = windowed(autocovariances(series, max(2, blocks // 2)), replicas * blocks)
    if replicas >= MANY or (blocks == 1 and replicas > 1):
        times = window.tau * length, window.tau_stderr * length
        return of_replicas(value, series.mean(1), *times, samples)
    return honest(
        value,
        window.total / (replicas * blocks),
        window.tau * length,
        window.tau_stderr * length,
        window.freedom,
        samples,
    )
