r"""How fast means and variances fall from level to level, and the step bias that follows.

With $Y_l$ the difference of level l from the one below, $E[Y_l] \approx -c\, 2^{-\alpha l}$ and
$\mathrm{Var}[Y_l] \approx v\, 2^{-\beta l}$. The step bias of the finest level L is what all further levels
would add, $E[P_L] - E[P] = -E[Y_L] / (2^\alpha - 1)$ with the weak order $\alpha$ of the solver, unless a
smaller one is measured. Reference: Giles (2015), Multilevel Monte Carlo methods,
doi:10.1017/S096249291500001X.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from simkit.derivatives.moments import Averages
from simkit.ensemble.step_bias.step_error import StepError

SEEN, SURE = 2.0, 3.0  # standard errors: of what counts, and by which a rate is another
LEAST_ALPHA, USUAL_BETA = 0.25, 1.0
OF_ORDER = 0.8  # of an order, above which a measured one may be it: the first levels are not yet powers
MOST_FALL = 2.0  # times as much as the rate says, by which a variance may fall from a level to the next
OF_RATE = 1e-3  # of a figure, below which its error does not count: levels are not yet powers


@dataclasses.dataclass(frozen=True)
class Rate:
    """The power of the step with which a figure falls, and its standard error; NaN where that is not seen."""

    rate: float
    stderr: float

    def surely_below(self, limit: float) -> bool:
        """Whether it is less, by `SURE` standard errors."""
        return self.rate + SURE * self.stderr < limit


def rate_of(sizes: np.ndarray, errors: np.ndarray) -> Rate:
    """The rate at which sizes of levels 1, 2, … fall, by those that stand out of their errors."""
    seen = np.isfinite(errors) & (sizes > SEEN * errors)
    levels = np.arange(1.0, 1.0 + len(sizes))[seen]
    if len(levels) < 2:
        return Rate(math.nan, math.nan)
    relative = np.maximum(errors[seen] / sizes[seen], OF_RATE)
    weights = (math.log(2) / relative) ** 2
    logs = np.log2(sizes[seen])
    middle = np.average(levels, weights=weights)
    spread = float(np.sum(weights * (levels - middle) ** 2))
    slope = float(np.sum(weights * (levels - middle) * logs)) / spread
    misfit = float(
        np.sum(weights * (logs - np.average(logs, weights=weights) - slope * (levels - middle)) ** 2)
    )
    excess = max(1.0, misfit / (len(levels) - 2)) if len(levels) > 2 else 1.0
    return Rate(-slope, math.sqrt(excess / spread))


@dataclasses.dataclass(frozen=True)
class QuantityLevels:
    """What the levels 0, 1, … show of a quantity whose weak order is `order`: arrays by level.

    `variance_stderr` are the errors of the variances, and `count` the paths. Of what `jumps` along paths,
    rare differences are as large as values.
    """

    order: float
    mean: np.ndarray
    variance: np.ndarray
    variance_stderr: np.ndarray
    count: np.ndarray
    jumps: bool = False

    @staticmethod
    def of(averages: Sequence[Averages], place: int, order: float, jumps: bool = False) -> "QuantityLevels":
        """Those of the quantity at a place of the moments."""
        figures = {
            key: np.array([float(each.statistics[f"{place}_{key}"][-1]) for each in averages])
            for key in ("mean", "variance", "variance_stderr")
        }
        count = np.array([int(x.statistics["n"]) for x in averages])
        return QuantityLevels(order, count=count, jumps=jumps, **figures)

    @property
    def total(self) -> float:
        """The mean on the finest of the levels."""
        return float(self.mean.sum())

    @property
    def stderr(self) -> float:
        """The standard error of that; of what jumps with what one more path could add."""
        variances = self.variances if self.jumps else self.variance
        return float(np.sqrt(np.sum(variances / self.count)))

    @functools.cached_property
    def alpha(self) -> Rate:
        """The rate of the means."""
        return rate_of(np.abs(self.mean[1:]), np.sqrt(self.variance[1:] / self.count[1:]))

    @functools.cached_property
    def beta(self) -> Rate:
        """The rate of the variances."""
        return rate_of(self.variance[1:], self.variance_stderr[1:])

    @property
    def kurtosis(self) -> np.ndarray:
        """The fourth central moment of each level over the square of its variance."""
        n = self.count
        with np.errstate(divide="ignore", invalid="ignore"):
            return n * (self.variance_stderr / self.variance) ** 2 + (n - 3) / (n - 1)

    @property
    def order_used(self) -> float:
        """The order of the solver, or a smaller one that is measured."""
        less = self.alpha.surely_below(OF_ORDER * self.order)
        return max(self.alpha.rate, LEAST_ALPHA) if less else self.order

    @functools.cached_property
    def variances(self) -> np.ndarray:
        """The variances, none of which is much less than the level below and the rate say.

        Of rare differences few paths may show none: of what jumps, one path of a level may differ unseen.
        """
        result = self.variance.copy()
        if self.jumps:
            result[1:] = np.maximum(result[1:], result[0] / self.count[1:])
        for level in range(2, len(result)):
            result[level] = max(result[level], result[level - 1] * 2**-self._fall / MOST_FALL)
        return result

    @property
    def _fall(self) -> float:
        """The rate of variances that is counted on."""
        known = math.isfinite(self.beta.rate)
        fall = max(self.beta.rate - self.beta.stderr, 0.0) if known else USUAL_BETA
        return min(fall, USUAL_BETA) if self.jumps else fall

    def variance_of(self, level: int) -> float:
        """The variance of a level, also of one beyond these."""
        last = len(self.variances) - 1
        return float(self.variances[min(level, last)]) * 2 ** -(self._fall * max(level - last, 0))

    def doubt_of(self, level: int) -> float:
        """The error of the variance of a level, as a part of it, as that of so many paths."""
        level = min(level, len(self.variance) - 1)
        variance = self.variance[level]
        return float(self.variance_stderr[level] / variance) if variance > 0 else 0.0

    @property
    def step_error(self) -> StepError:
        """The step bias of the finest of the levels."""
        bias, doubt = self.bias(len(self.mean) - 1)
        return StepError(bias, doubt, doubt, "estimate", self.order_used)

    def bias(self, level: int) -> tuple[float, float]:
        """The step bias of the finest `level`, and its error: noise, and what higher orders leave."""
        order, levels = self.order_used, np.arange(1, len(self.mean))
        sizes = self.mean[1:] * 2.0 ** (order * levels)
        noise = np.sqrt(self.variances[1:] / self.count[1:]) * 2.0 ** (order * levels)
        errors = np.hypot(noise, np.abs(sizes) * 2.0**-levels)
        if not np.all(errors > 0):
            sizes, errors = sizes[errors > 0], errors[errors > 0]
        if not len(sizes):
            return 0.0, 0.0
        weights = errors**-2.0
        size = float(np.average(sizes, weights=weights))
        misfit = float(np.sum(weights * (sizes - size) ** 2))
        error = math.sqrt(max(1.0, misfit / max(len(sizes) - 1, 1)) / float(weights.sum()))
        scale = 2.0 ** (-order * level) / (2.0**order - 1)
        return -size * scale, error * scale
