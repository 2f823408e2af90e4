"""Means and covariances of several numbers: sums of their deviations from an origin, and of the products."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from simkit.time_series import Blocks


class MomentSums(NamedTuple):
    """Sums of deviations from an origin, and of their products."""

    first: Float[Array | np.ndarray, "... n"]
    second: Float[Array | np.ndarray, "... n n"]


class DeviationSums(NamedTuple):
    """Moments of the blocks of a replica about its first sample, the `origin`."""

    origin: Float[Array, " n"]
    moments: Blocks


class Centred(NamedTuple):
    """Sums of deviations from an origin that all replicas share, and moments about a centre."""

    total: np.ndarray
    moments: MomentSums


def centred(sums: DeviationSums, origin: np.ndarray, separate: bool) -> Blocks:
    """The sums of a replica about the origin, and about its own mean if it is kept `separate` from others."""
    about_origin = _moved(sums, origin)
    own = about_origin.first.sum(0) / int(sums.moments.seen)
    moments = _moved(sums, origin + own) if separate else about_origin
    return sums.moments._replace(sums=Centred(np.asarray(about_origin.first), moments))


def _moved(sums: DeviationSums, origin: np.ndarray) -> MomentSums:
    """The moments about another origin, so that those of replicas can be added."""
    shift = np.asarray(sums.origin) - origin
    moments, seen, length = sums.moments.sums, int(sums.moments.seen), int(sums.moments.length)
    first, second = np.asarray(moments.first), np.asarray(moments.second)
    counts = np.clip(seen - length * np.arange(len(first)), 0, length)[:, None]
    cross = first[:, :, None] * shift + shift[:, None] * first[:, None, :]
    return MomentSums(first + counts * shift, second + cross + counts[..., None] * (shift[:, None] * shift))


def mean_and_covariance(
    sums: Centred, samples: int, origin: np.ndarray, centres: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of all, and the covariance about as many centres.

    The first moments about a replica's own mean add up to 0; where a block is left out they are those of its
    replica, which has the samples of all over `centres`.
    """
    first = np.asarray(sums.moments.first) / samples
    covariance = np.asarray(sums.moments.second) / samples - centres * first[:, None] * first
    return origin + sums.total / samples, covariance
