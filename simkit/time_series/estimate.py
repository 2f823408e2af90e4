"""A mean of correlated data with its standard error, or the reason why that is not known."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, stdtrit

LEAST = 50  # autocorrelation times of data below which no standard error is given
MANY = 16  # replicas from which the spread of their means is the error
FEWEST_REPLICAS = 4  # whose spread says how far replicas differ that have means of their own


class Estimate(NamedTuple):
    """Numbers with their standard errors: arrays of one shape.

    `stderr` is NaN where it is unknown, and `reason` then says why. `tau` is the integrated autocorrelation
    time $1/2 + \\sum_{t>0} \\rho(t)$ in samples, so that the squared standard error of a mean of n samples is
    $2 \\tau / n$ times their variance. `freedom` are the degrees of freedom of the standard error: the
    difference from the true value divided by `stderr` follows Student's t with that many. They are infinite
    where `stderr` is already as wide as Student's t makes it.
    """

    value: np.ndarray
    stderr: np.ndarray
    tau: np.ndarray
    tau_stderr: np.ndarray
    freedom: np.ndarray
    samples: int
    reason: str | None = None


def honest(
    value: np.ndarray,
    variance: np.ndarray,
    tau: np.ndarray,
    tau_stderr: np.ndarray,
    freedom: np.ndarray,
    samples: int,
    or_else: str = "",
) -> Estimate:
    """The estimate, whose standard error is unknown where the data are too few.

    They are too few where there are not 50 autocorrelation times of them, each as long as its estimate and
    one standard error of that; the remedy is to run longer, `or_else` what it says. `variance` is that of the
    value, NaN where no autocorrelation time was found.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        times = samples / (tau + tau_stderr)  # an estimate of tau that is too small must not pass
    constant = variance == 0
    finite = np.isfinite(value)
    known = np.isfinite(variance) & finite
    enough = known & (constant | (times >= LEAST))
    error = np.where(enough, np.sqrt(np.where(enough, variance, 0)), np.nan)
    reason = None
    if not np.all(finite):
        reason = "unknown: not a finite number, or no data"
    elif not np.all(known):
        reason = f"unknown: {samples} samples are correlated from the first to the last; run longer{or_else}"
    elif not np.all(enough):
        least = float(np.min(times[~enough]))
        reason = (
            f"unknown: {least:.0f} autocorrelation times of data, at least {LEAST} are needed; "
            f"run {_factor(LEAST / least)} times as long{or_else}"
        )
    return Estimate(value, error, tau, tau_stderr, freedom, samples, reason)


def of_replicas(
    value: np.ndarray,
    means: Float[np.ndarray, "replicas ..."],
    tau: np.ndarray,
    tau_stderr: np.ndarray,
    samples: int,
) -> Estimate:
    r"""The estimate whose error is the spread of independent replicas, however they are correlated in time.

    It is $t\,s/\sqrt R$ with the standard deviation s of the means of R replicas and the quantile t of
    Student's distribution with R - 1 degrees of freedom: 68 % of such intervals hold the true value.
    """
    count = len(means)
    stderr = stdtrit(count - 1, ndtr(1.0)) * means.std(0, ddof=1) / np.sqrt(count)
    reason = None if np.all(np.isfinite(stderr)) else "unknown: not a finite number, or no data"
    return Estimate(value, stderr, tau, tau_stderr, np.full(value.shape, np.inf), samples, reason)


def _factor(ratio: float) -> str:
    return f"{np.ceil(ratio * 10) / 10:.1f}" if ratio < 10 else f"{np.ceil(ratio):.0f}"
