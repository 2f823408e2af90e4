"""AR(1) processes, whose autocorrelation time is known, and how often errors cover the truth."""

import numpy as np
from scipy import signal, stats

from simkit.time_series import Estimate

ONE_SIGMA = 0.6826894921370859


def autoregressive(a: float, samples: int, count: int, seed: int = 0) -> np.ndarray:
    """x_n = a x_{n-1} + e_n, stationary with mean 0 and variance 1, `(1, samples, count)`."""
    noise = np.random.default_rng(seed).standard_normal((samples, count))
    noise[1:] *= np.sqrt(1 - a * a)
    return signal.lfilter([1.0], [1.0, -a], noise, axis=0)[None]


def time_of(a: float) -> float:
    """Its integrated autocorrelation time."""
    return 0.5 * (1 + a) / (1 - a)


def coverage(estimate: Estimate, true: float = 0.0) -> float:
    """How many of the intervals of one standard error, by Student's t, hold the true value."""
    wide = stats.t.ppf(0.5 + ONE_SIGMA / 2, estimate.freedom) * estimate.stderr
    return float(np.mean(np.abs(estimate.value - true) < wide))


def binomial_z(fraction: float, expected: float, count: int) -> float:
    return (fraction - expected) / np.sqrt(expected * (1 - expected) / count)
