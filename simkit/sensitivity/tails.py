r"""Whether the standard error of an estimator can be believed, from its values on paths.

Contributions to the variance are squared deviations $d_i^2$. Their effective number $(\sum d^2)^2 / \sum d^4$
is a third of the paths for normal values, and a few where a few paths make all of the variance: its own
relative error is one over the root of that number. Hill's estimate of the tail index,
$\alpha^{-1} = \operatorname{mean} \log(|d_i| / |d_{k+1}|)$ over the k largest, says whether more paths
would help: below 2 the variance is infinite.
Reference: Hill (1975), A simple general approach to inference about the tail of a distribution,
doi:10.1214/aos/1176343247.
"""

import dataclasses
from typing import Literal

import numpy as np

FEWEST = 200  # paths of which a tail can be told
IN_TAIL = 20, 1000  # the tail: at least so many, or one in so many of the paths
SURELY = 1.64  # standard errors of the tail index
INFINITE = 2.0
FEW = 20.0  # contributions that decide the variance
ONE = 0.5  # of the variance that one path makes
NOT_ALL = 0.25  # of the largest deviations, which need not grow
GROWS = 1.05  # the tail, from a step to half of it

Verdict = Literal["settled", "heavy", "grows"]
FLAGS: dict[Verdict, str] = {"settled": "", "heavy": "heavy tail", "grows": "no result"}


@dataclasses.dataclass(frozen=True)
class Tail:
    """The tail index of a sample, by so many of its paths, how many in effect make its variance, and what
    part of it the largest makes.
    """

    index: float
    count: int
    effective: float
    largest: float

    @property
    def is_heavy(self) -> bool:
        """Whether the standard error is not to be believed."""
        infinite = self.index * (1 + SURELY / self.count**0.5) < INFINITE
        return self.largest > ONE or (infinite and self.effective < FEW)


def tail_of(values: np.ndarray) -> Tail | None:
    """The tail of the values of an estimator, one for each path; None of too few, or of equal ones."""
    sizes = _deviations(values)
    if len(sizes) < FEWEST or sizes[0] == 0:
        return None
    count = in_tail(len(sizes))
    with np.errstate(divide="ignore"):
        logs = np.log(sizes[:count] / sizes[count]) if sizes[count] else np.full(count, np.inf)
        index = float(1 / np.mean(logs)) if np.mean(logs) else np.inf
    parts = (sizes / sizes[0]) ** 2  # of the largest, or large numbers would overflow
    total = parts.sum()
    return Tail(index, count, float(total**2 / np.sum(parts**2)), float(1 / total))


def in_tail(paths: int) -> int:
    """How many of so many paths count as the tail."""
    return max(IN_TAIL[0], paths // IN_TAIL[1])


def grows(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Whether the largest deviations grow as steps become shorter, given values of the same paths.

    Nearly all of them, rank by rank: spikes of few heights may be more or fewer by chance.
    """
    both = [_deviations(values) for values in (fine, coarse)]
    count = min(round(len(fine) ** 0.5), *map(len, both))
    tails = [np.log(np.maximum(sizes[:count], np.finfo(float).tiny)) for sizes in both]
    return count > 0 and bool(np.quantile(tails[0] - tails[1], NOT_ALL) > np.log(GROWS))


def verdict(fine: np.ndarray, coarse: np.ndarray | None = None) -> Verdict:
    """Whether an estimator is settled, given its values on paths: its standard error can be believed.

    `heavy` where a few paths make its variance and more would not help; `grows` where they also become larger
    as steps become shorter: `coarse` are the values on longer steps, of the same paths. Such an estimator has
    no variance that it converges to.
    """
    tail = tail_of(fine)
    if tail is None or not tail.is_heavy:
        return "settled"
    return "grows" if coarse is not None and grows(fine, coarse) else "heavy"


def _deviations(values: np.ndarray) -> np.ndarray:
    """The sizes of the deviations from the mean, the largest first."""
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    return -np.sort(-np.abs(values - values.mean())) if len(values) else values
