r"""Whether the variance of an estimator can be trusted, from its values on paths.

Contributions to the variance are squared deviations $d_i^2$. Their effective number $(\sum d^2)^2 / \sum d^4$
is a third of the paths for normal values, and a few where a few paths make all of the variance: its own
relative error is one over the root of that number. Hill's estimate of the tail index,
$\alpha^{-1} = \operatorname{mean} \log(|d_i| / |d_{k+1}|)$ over the k largest, says whether more paths
would help: below 2 the variance is infinite. Such a variance also grows as steps become shorter, which is
measured on the same paths on steps of another length.
Reference: Hill (1975), A simple general approach to inference about the tail of a distribution,
doi:10.1214/aos/1176343247.
"""

import dataclasses
from typing import Literal

import numpy as np

FEWEST = 200  # paths from which a tail can be estimated
PER_TAIL = 4  # unusual values for each one in the tail, at least
FEWEST_UNUSUAL = 32  # such values, with fewer of which there is no tail
SURE = 32  # paths in the tail, with fewer of which growth proves nothing: it may be chance itself
SURELY = 1.64  # standard errors of the tail index
INFINITE = 2.0
FEW = 20.0  # contributions that decide the variance
FEW_GROWING = 50.0  # contributions, where the tail also grows: each of the two says something
ONE = 0.5  # of the variance that one path makes
NOT_ALL = 0.25  # of the largest deviations, which need not grow
GROWS = 1.05  # the tail, from a step to half of it

Verdict = Literal["reliable", "heavy", "grows"]
UNMOVED = "no path changes with it"  # why a derivative is 0 with no error
FLAGS: dict[Verdict, str] = {"reliable": "", "heavy": "heavy tail", "grows": "no result"}
FAULTS: dict[Verdict, str] = {
    "reliable": "",
    "heavy": "a few paths make the variance",
    "grows": "a few paths make the variance, and it grows as steps become shorter",
}


@dataclasses.dataclass(frozen=True)
class Tail:
    """The tail index of a sample, from the `count` paths that deviate most, and how many make its variance.

    `unusual` paths have another value than the usual one, such as the 0 of an event that does not happen.
    `largest` is the part of the variance that one path makes; `grows` says whether the largest deviations
    grow as steps become shorter.
    """

    index: float
    count: int
    effective: float
    largest: float
    unusual: int
    grows: bool = False

    @property
    def verdict(self) -> Verdict:
        """Whether the standard error can be trusted: a few paths do not make the variance.

        `heavy` where they do and more paths would not help, `grows` where the variance also grows as steps
        become shorter, so that there is none to converge to.
        """
        infinite = self.unusual < FEWEST_UNUSUAL or self.index * (1 + SURELY / self.count**0.5) < INFINITE
        heavy = self.largest > ONE or (infinite and self.effective < FEW)
        doubtful = self.count >= SURE and self.index < INFINITE and self.effective < FEW_GROWING
        if self.grows and (heavy or doubtful):
            return "grows"
        return "heavy" if heavy else "reliable"

    @property
    def fault(self) -> str:
        """What is wrong with the variance; nothing where it can be trusted."""
        fault = FAULTS[self.verdict]
        return f"{fault} (tail index {self.index:.1f})" if fault and np.isfinite(self.index) else fault


def tail_of(
    values: np.ndarray, level: np.ndarray | None = None, factor: float = 1.0, largest: float = 0.0
) -> Tail | None:
    """The tail of the values of an estimator, one for each path; None of too few, or of equal ones.

    `level` are those of the first of these paths on steps `factor` times as long, and `largest` what part of
    the variance one path makes where there are more than these.
    """
    sizes = _deviations(values)
    if np.count_nonzero(np.isfinite(values)) < FEWEST or not len(sizes) or sizes[0] == 0:
        return None
    count = max(min(in_tail(len(values)), len(sizes) // PER_TAIL), 1)
    # Of the values that are not the usual one there may be one alone.
    with np.errstate(divide="ignore"):
        logs = np.log(sizes[:count] / sizes[min(count, len(sizes) - 1)])
    index = float(1 / np.mean(logs)) if np.mean(logs) else np.inf
    parts = (sizes / sizes[0]) ** 2  # of the largest, or large numbers would overflow
    total = parts.sum()
    effective, largest = float(total**2 / np.sum(parts**2)), max(float(1 / total), largest)
    growing = False
    if level is not None:
        same = values[: len(level)]
        growing = grows(same, level) if factor > 1 else grows(level, same)
    return Tail(index, count, effective, largest, len(sizes), growing)


def in_tail(paths: int) -> int:
    """The number of paths that count as the tail of a sample."""
    return round(paths**0.5)


def grows(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Whether the largest deviations grow as steps become shorter, given values of the same paths.

    Nearly all of them, rank by rank: variances of such samples are those of one or two paths, and spikes of
    few heights may be more or fewer by chance.
    """
    both = [_deviations(values) for values in (fine, coarse)]
    count = min(in_tail(len(fine)), *map(len, both))
    tails = [np.log(np.maximum(sizes[:count], np.finfo(float).tiny)) for sizes in both]
    return count > 0 and bool(np.quantile(tails[0] - tails[1], NOT_ALL) > np.log(GROWS))


def _deviations(values: np.ndarray) -> np.ndarray:
    """The sizes of the deviations from the mean, the largest first, but those of the usual value."""
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return values
    unusual = values[values != np.median(values)]
    return -np.sort(-np.abs(unusual - values.mean()))
