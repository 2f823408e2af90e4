"""What a series still does of its start: a transient by which its mean is wrong."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simkit.time_series.series import of_series

BATCHES = 500  # means over which the end of a transient is looked for
CLEAR = 5.0  # standard errors by which a start differs from what follows, if it is no fluctuation


class Transient(NamedTuple):
    """The samples of a series that still depend on its start, and the mean of the others with its error."""

    samples: int
    mean: float
    stderr: float


def transient_of(series: Float[np.ndarray, "replicas samples"], separate: bool = False) -> Transient | None:
    """The transient of a series; None where there is none, or none that matters.

    Without its first d of n samples, the mean of a series with variance $s_d^2$ has the squared error
    $s_d^2/(n-d)$, up to correlation; the transient ends where this is least, in the first half if at all. It
    matters where it changes the mean by more than the standard error of the rest, and is more than a
    fluctuation; where that error is unknown nothing is said. Reference: White (1997), An effective truncation
    heuristic for bias reduction in simulation output, Simulation 69, 323, doi:10.1177/003754979706900601.
    """
    samples = series.shape[1]
    size = -(-samples // BATCHES)
    count = samples // size
    if count < 4:
        return None
    batches = series[:, : count * size].mean(0).reshape(count, size).mean(1)
    batches = batches - batches.mean()
    left = count - np.arange(count // 2 + 1)
    tails, squares = (np.cumsum(part[::-1])[::-1][: len(left)] for part in (batches, batches**2))
    batch = int(np.argmin((squares - tails**2 / left) / left**2))
    first, rest = np.split(series, [batch * size], axis=1)
    if not batch:
        return None
    estimate = of_series(rest[:, :, None], separate)
    mean, stderr = float(estimate.value[0]), float(estimate.stderr[0])
    bias = abs(float(series.mean()) - mean)
    off = abs(float(first.mean()) - mean)
    fluctuation = stderr * (samples / first.shape[1]) ** 0.5
    if bias > stderr and off > CLEAR * fluctuation:
        return Transient(batch * size, mean, stderr)
    return None
