"""A mean of correlated data with its standard error, or the reason why that is not known."""

from typing import NamedTuple

import numpy as np

LEAST = 50  # autocorrelation times of data below which no standard error is given


class Estimate(NamedTuple):
    """Numbers with their standard errors: arrays of one shape.

    `stderr` is NaN where it is unknown, and `reason` then says why. `tau` is the integrated autocorrelation
    time $1/2 + \\sum_{t>0} \\rho(t)$ in samples, so that the squared standard error of a mean of n samples is
    $2 \\tau / n$ times their variance. `freedom` are the degrees of freedom of the standard error: the
    difference from the true value divided by `stderr` follows Student's t with that many.
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


def _factor(ratio: float) -> str:
    return f"{np.ceil(ratio * 10) / 10:.1f}" if ratio < 10 else f"{np.ceil(ratio):.0f}"
