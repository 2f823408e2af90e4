r"""The integrated autocorrelation time of a series, from its autocovariances up to an automatic window.

$\tau(W) = \tfrac12 + \sum_{t=1}^{W} \rho(t)$. A short window cuts correlation off, a long one sums noise.
With $\tau_e = S / \ln\frac{2\tau + 1}{2\tau - 1}$ in the place of the exponential autocorrelation time, the
window is the first W with $e^{-W/\tau_e} < \tau_e / \sqrt{W n}$, where the sum of both errors is least; S =
1.5.

References: Wolff (2004), Monte Carlo errors with less errors, doi:10.1016/S0010-4655(03)00467-3; Madras &
Sokal (1988), doi:10.1007/BF01022990.
"""

from typing import NamedTuple

import numpy as np

S = 1.5  # Wolff's choice: the exponential time in integrated ones, at most


class Window(NamedTuple):
    """The summed autocovariances of each series, NaN where no window was found, and what they come from."""

    total: np.ndarray  # n times the variance of the mean of n samples
    variance: np.ndarray  # of a sample
    tau: np.ndarray
    tau_stderr: np.ndarray
    freedom: np.ndarray
    repels: np.ndarray  # whether neighbours differ more than independent samples would


def windowed(covariance: np.ndarray, samples: int, centres: int = 1) -> Window:
    """The window of the autocovariances `(lags, ...)` at lag 0, 1, …, about the mean of `samples` samples, or
    about those of as many equal parts as there are `centres`.

    Deviations from a sample's own mean are too small; the correction is that of Wolff's equation 49. Of a
    series whose neighbours differ more than independent samples would, tau is taken as 1/2.
    """
    zero = covariance[0]
    shape = (-1,) + (1,) * zero.ndim
    W = np.arange(1, len(covariance)).reshape(shape)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        tau = 0.5 + np.cumsum(covariance[1:] / zero, axis=0)
        correlated = tau > 0.5
        exponential = S / np.log(np.where(correlated, (2 * tau + 1) / (2 * tau - 1), np.e))
        exponential = np.where(correlated, exponential, 1e-6)
        enough = np.exp(-W / exponential) < exponential / np.sqrt(W * samples)
    has_window = np.any(enough, axis=0) if len(enough) else np.zeros(zero.shape, bool)
    width = np.where(has_window, np.argmax(enough, axis=0) + 1 if len(enough) else 0, 0)
    total = zero + 2 * np.sum(np.where(width >= W, covariance[1:], 0), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        repels = total / zero < 1 - 6 / np.sqrt(samples)  # so by three standard errors of a correlation
    total = np.maximum(total, zero)
    bias = centres * total / samples
    total, variance = total + (2 * width + 1) * bias, zero + bias
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = np.where(zero > 0, total / (2 * variance), 0.5)
    relative2 = 4 * np.maximum(width + 0.5 - tau, 0.5) / samples  # Wolff's equation 42
    has_window |= zero == 0
    unknown = np.where(has_window, 0.0, np.nan)
    return Window(
        total + unknown,
        variance,
        tau + unknown,
        tau * np.sqrt(relative2) + unknown,
        2 / relative2 + unknown,
        repels,
    )


def autocovariances(series: np.ndarray, lags: int) -> np.ndarray:
    """The autocovariances `(lags, ...)` of `(replicas, samples, ...)` about the mean of all of them."""
    replicas, samples = series.shape[:2]
    deviation = series - series.mean((0, 1))
    return np.stack(
        [
            (deviation[:, : samples - t] * deviation[:, t:]).sum((0, 1)) / (replicas * (samples - t))
            for t in range(min(lags, samples))
        ]
    )
