r"""How many levels a total error takes, and how many paths each, by what a pilot has seen of them.

Of a total error $\varepsilon$ the step bias of the finest level L takes a part, with its doubt, and the
paths have the rest $\varepsilon_s$. Levels of variance $V_l$, with $C_l$ steps a path, take least work with

$$N_l = \lambda \sqrt{V_l / C_l}, \qquad \lambda = \varepsilon_s^{-2} \sum_l \sqrt{V_l C_l},$$

times what two samples of such variances may differ by, so that the error of 95 in 100 runs is as wanted. Of
several quantities each level has the paths of the one that takes most. The number of levels is the one of
least work. Reference: Giles (2008), Multilevel Monte Carlo path simulation, doi:10.1287/opre.1070.0496.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from simkit.multilevel.level_rates import QuantityLevels

SURE = NormalDist().inv_cdf(0.95)
ROOM = 0.9  # of a total error that the step bias may take
FEWEST = 256  # paths of a level: fewer do not know their own error
LEAST = 2  # the finest level at least: of one difference nothing follows for the next


@dataclasses.dataclass(frozen=True)
class Allocation:
    """The paths of each level, their path-steps, and the largest doubt about a variance of a mean."""

    paths: tuple[int, ...]
    work: float
    doubt: float


def allocated(
    levels: Mapping[str, QuantityLevels], wanted: Mapping[str, float], costs: Sequence[float]
) -> Allocation | None:
    """The paths that leave each quantity the error `wanted` for least work; None where none do.

    `costs` are the steps of a path of each level that there may be.
    """
    each = [_with_finest(levels, wanted, costs[: L + 1]) for L in range(LEAST, len(costs))]
    return min((one for one in each if one is not None), key=lambda one: one.work, default=None)


def _with_finest(
    levels: Mapping[str, QuantityLevels], wanted: Mapping[str, float], costs: Sequence[float]
) -> Allocation | None:
    """The paths of levels as many as there are costs."""
    counts, doubts = [np.full(len(costs), FEWEST)], []
    for name, error in wanted.items():
        bias = math.fsum(map(abs, levels[name].bias(len(costs) - 1)))
        if bias > ROOM * error:
            return None
        count, doubt = _paths_for(levels[name], error**2 - bias**2, np.asarray(costs, float))
        counts.append(count)
        doubts.append(doubt)
    paths = np.max(counts, axis=0)
    return Allocation(tuple(map(int, paths)), float(np.dot(paths, costs)), max(doubts))


def _paths_for(levels: QuantityLevels, variance: float, costs: np.ndarray) -> tuple[np.ndarray, float]:
    """The paths with which the variance of a mean is as wanted, and the doubt of the pilot about it."""
    variances = np.array([levels.variance_of(level) for level in range(len(costs))])
    paths = np.sqrt(variances / costs) * np.sum(np.sqrt(variances * costs)) / variance
    parts = np.sqrt(variances * costs) / max(np.sum(np.sqrt(variances * costs)), np.finfo(float).tiny)
    doubts = parts * np.array([levels.doubt_of(level) for level in range(len(costs))])
    seen = levels.count[np.minimum(np.arange(len(costs)), len(levels.count) - 1)]
    doubt, count = float(np.linalg.norm(doubts)), paths
    for _ in range(20):
        own = np.sqrt(1 + seen / np.maximum(count, FEWEST))
        count = paths * (1 + SURE * float(np.linalg.norm(doubts * own)))
    return np.ceil(np.maximum(count, FEWEST)).astype(np.int64), doubt


def balanced(
    paths: Sequence[int], others: Sequence[QuantityLevels], costs: Sequence[float]
) -> tuple[int, ...]:
    """These paths or more, so that further quantities have the least error for their work.

    They have as many on each level as follow from those on level 0, but on none so many that these take
    more work than all of `paths`: variances may grow from level to level.
    """
    own, cost = np.asarray(paths, float), np.asarray(costs, float)
    counts = [own]
    for each in others:
        variances = np.array([each.variance_of(level) for level in range(len(paths))])
        if variances[0] > 0:
            counts.append(paths[0] * np.sqrt(variances / variances[0] * cost[0] / cost))
    most = np.maximum(own, np.dot(own, cost) / cost)
    return tuple(map(int, np.ceil(np.minimum(np.max(counts, axis=0), most))))


def plain_work(levels: QuantityLevels, variance: float, error: float, steps: Sequence[int]) -> float:
    """The path-steps of paths on one grid with such an error, on that of the levels that takes fewest."""
    biases = [math.fsum(map(abs, levels.bias(level))) for level in range(len(steps))]
    pairs = [(bias, n) for bias, n in zip(biases, steps, strict=True) if bias < ROOM * error]
    return min((variance / (error**2 - bias**2) * n for bias, n in pairs), default=math.inf)
