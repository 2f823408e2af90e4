r"""What a series still does of its start: a transient by which its mean is wrong.

An approach $a\,e^{-t/\theta}$ is fitted to the mean over replicas, for $\theta$ from half a batch to a third
of the series, each twice the last. With $w = e^{-t/\theta}$, the best fit has the largest size
$a \sqrt{\sum_t (w_t - \bar w)^2}$. Noise is what the series less the fit has. As correlation in time makes it
larger, it is taken from the standard error s of the mean of n samples: $s \sqrt n$.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from simkit.time_series.estimate import FEWEST_REPLICAS
from simkit.time_series.series import of_series

BATCHES = 500  # means over which an approach is fitted
CLEAR = 3.5  # sizes in noise of a fit that is no fluctuation
SHARED = 3.0  # standard errors, from the spread of replicas, of what they have of a fit
LEFT = 0.2  # of a standard error: what the beginning may leave of its bias
UNSETTLED = 0.5  # of a standard error: as much is left after half of the series where it has not settled
FAR = 8.0  # standard deviations from the rest: a stationary series begins there once in 300 at most
FEWEST = 20  # samples whose standard deviation is one


class Transient(NamedTuple):
    """The samples of a series that still depend on its start, and the mean of the others with its error.

    The error is NaN where the second half of the series still approaches.
    """

    samples: int
    mean: float
    stderr: float


class _Approach(NamedTuple):
    """A fit to batches: its value at each, and its bias in the mean of those from each batch on."""

    value: Float[np.ndarray, " batches"]
    bias: Float[np.ndarray, " batches"]
    size: float  # before it is divided by the noise of a batch


def transient_of(series: Float[np.ndarray, "replicas samples"], separate: bool = False) -> Transient | None:
    """The transient of a series; None where there is none, or none that matters.

    It matters where it changes the mean by more than the standard error, and is more than a fluctuation;
    where that error is unknown nothing is said, nor of rare events that all come early. It ends where the fit
    leaves a fifth of the error of the rest, in the first half. The cut hangs on the beginning alone, so that
    the rest keeps its error. If the rest is constant, the cut is where its variance over the square of its
    length is least: White (1997), An effective truncation heuristic for bias reduction in simulation output,
    doi:10.1177/003754979706900601.
    Replicas that are `separate` have means of their own.
    """
    samples = series.shape[1]
    size = -(-samples // BATCHES)
    count = samples // size
    if count < 4 or not np.ptp(series, axis=1).any():
        return None
    whole = series[:, : count * size]
    batches = whole.mean(0).reshape(count, size).mean(1)
    fit = _approach(batches)
    rest = whole - np.repeat(fit.value, size)
    noise = _error(rest, separate)[1]
    about_own_means = _error(rest - rest.mean(1, keepdims=True), False)[1] if separate else noise
    if not (fit.bias[0] > noise and fit.size > CLEAR * about_own_means * count**0.5):
        return None
    if not _is_shared(whole.reshape(len(whole), count, size).mean(2), fit):
        return None
    longest = count // 2
    if np.ptp(series[:, longest * size :], axis=1).max() == 0:
        if _had_rested(series):
            return None
        start = _least_variance(batches) * size
        return Transient(start, *_error(series[:, start:], separate))
    settled = fit.bias <= LEFT * noise * np.sqrt(count / (count - np.arange(count)))
    batch = int(np.argmax(settled)) if settled[:longest].any() else longest
    mean, stderr = _error(series[:, batch * size :], separate)
    if np.isnan(stderr):
        return None
    return Transient(batch * size, mean, np.nan if fit.bias[batch] > UNSETTLED * stderr else stderr)


def _error(series: Float[np.ndarray, "replicas samples"], separate: bool) -> tuple[float, float]:
    """The mean of a series and its standard error."""
    estimate = of_series(series[:, :, None], separate)
    return float(estimate.value[0]), float(estimate.stderr[0])


def _approach(batches: Float[np.ndarray, " batches"]) -> _Approach:
    """The best fit of an approach to the means of batches."""
    count = len(batches)
    times = 0.5 * 2.0 ** np.arange(np.log2(2 * count / 3))
    weights = np.exp(-np.arange(count) / times[:, None])
    contrasts = weights - weights.mean(1, keepdims=True)
    lengths = np.linalg.norm(contrasts, axis=1)
    sizes = contrasts @ batches / lengths
    best = int(np.argmax(np.abs(sizes)))
    value = sizes[best] / lengths[best] * weights[best]
    rest = np.cumsum(value[::-1])[::-1] / (count - np.arange(count))
    return _Approach(value, np.abs(rest), abs(float(sizes[best])))


def _is_shared(batches: Float[np.ndarray, "replicas batches"], fit: _Approach) -> bool:
    """Whether replicas approach together: what oscillates has another phase in each, and a mean of its own.

    With few replicas there is no telling.
    """
    count = len(batches)
    contrast = fit.value - fit.value.mean()
    sizes = batches @ contrast
    spread = sizes.std(ddof=1) / count**0.5 if count >= FEWEST_REPLICAS else 0.0
    return abs(sizes.mean()) > SHARED * spread


def _had_rested(series: Float[np.ndarray, "replicas samples"]) -> bool:
    """Whether a series left, from its start, the value at which it ends: by events, and no approach."""
    resting = series == series[:, -1:]
    return bool(np.any(resting[:, 0] & ~resting.all(1)))


def _least_variance(batches: Float[np.ndarray, " batches"]) -> int:
    """The first batch of those whose mean has the least squared error, if batches were independent."""
    batches = batches - batches.mean()
    left = len(batches) - np.arange(len(batches) // 2 + 1)
    tails, squares = (np.cumsum(part[::-1])[::-1][: len(left)] for part in (batches, batches**2))
    return int(np.argmin((squares - tails**2 / left) / left**2))


def begins_away(series: Float[np.ndarray, "replicas samples"]) -> float | None:
    """How many standard deviations of the rest a series begins from its mean, if no noise begins there.

    The beginning is the first sample of each replica, the rest all after a quarter. For series that are too
    short for a standard error, of which `transient_of` says nothing.
    """
    rest = series[:, series.shape[1] // 4 :]
    spread = float(rest.std())
    away = abs(float(series[:, 0].mean()) - float(rest.mean()))
    if series.shape[1] < FEWEST or not away > FAR * spread or not spread:
        return None
    return away / spread
