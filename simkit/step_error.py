r"""The step error of a mean, from values of the same paths at three lengths of step.

With steps of length h the mean is $E[X_h] \approx E[X_0] + c h^p$, where p is the weak order. Two
differences, $D_1 = E[X_{2h} - X_h]$ and $D_2 = E[X_{4h} - X_{2h}]$, tell the bias of the run,
$D_1 / (2^p - 1)$, and the order itself, since $D_2 / D_1 = 2^p$. What the expansion leaves out shows as the
difference between the bias by $D_1$ and that by $D_2$. Where another whole order was measured, it is taken:
an integral along the path has that of its own rule. Where no order fits, steps are too long for an estimate,
and what was seen is a bound. Other lengths than h, 2h and 4h do as well.
"""

import dataclasses
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

CHANCE = 3e-5  # that noise is taken for a difference: 4 standard errors where there are many paths
ROUNDINGS = 4.0  # the same of a single path, whose noise is rounding
LEAST_ORDER = 0.5  # slower convergence has no order that three lengths of step could tell
NEAR = 0.2  # of an order, to be taken for it
MOST_ORDER = 16.0
EXPANDED = 1000  # degrees of freedom, from which on an expansion gives Student's quantiles


@dataclasses.dataclass(frozen=True)
class StepError:
    """How far a mean is from that of infinitely short steps.

    `stderr` is the error of `bias`: its `noise`, which is less with more paths, and what the extrapolation
    leaves out. `order` is the one extrapolated with. With the claim `at least` there is no estimate: steps
    are too long for any order, and `bias` is the difference to the shortest steps, or where the run's own are
    these, what it would be if the order were there.
    """

    bias: float
    stderr: float
    noise: float
    claim: Literal["estimate", "at least"]
    order: float


def step_error(
    values: np.ndarray, factors: Sequence[float], order: float, rounding: float = 0.0, unsure: float = 0.0
) -> StepError | None:
    """The step error of a mean over paths, given `values` `(paths, 1 + levels)` of the same paths.

    Column 0 is the run itself, the others have steps `factors` times as long: one of them, which tells no
    order, or two. `order` is the weak order of what is averaged, and may be less by `unsure`; `rounding` is
    the absolute rounding error of a mean. Paths with a value that is not finite are left out; None where none
    is left. A single path is one of an ordinary equation: it has no noise but rounding.
    """
    lengths = np.asarray([1.0, *factors])
    places = np.argsort(lengths)
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values).all(1)]
    if not len(values):
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        run, sorted_values = values[:, 0], values[:, places]
        differences = (run - sorted_values[:, 0], *np.diff(sorted_values).T)
        return _Expansion(lengths[places], differences, rounding, unsure).error(order)


def student_quantile(freedom: int, chance: float) -> float:
    """The quantile of Student's law; with much freedom by its expansion about the normal law, to 13 digits.

    SciPy takes a third of a second to import, which a run would wait for. Reference: Abramowitz & Stegun
    (1964), Handbook of Mathematical Functions, 26.7.5.
    """
    if freedom < EXPANDED:
        from scipy.special import stdtrit

        return float(stdtrit(freedom, chance))
    z = NormalDist().inv_cdf(chance)
    square = z * z
    terms = (
        (square + 1) / 4,
        ((5 * square + 16) * square + 3) / 96,
        (((3 * square + 19) * square + 17) * square - 15) / 384,
        ((((79 * square + 776) * square + 1482) * square - 1920) * square - 945) / 92160,
    )
    return z + sum(z * term / freedom**power for power, term in enumerate(terms, 1))


@dataclasses.dataclass(frozen=True)
class _Expansion:
    """Differences of each path: of the run to the finest level, and between neighbours, fine to coarse."""

    lengths: np.ndarray
    differences: tuple[np.ndarray, ...]
    rounding: float
    unsure: float

    def error(self, order: float) -> StepError:
        if len(self.lengths) == 2:
            return self.estimate(order, [])
        if self.surely_below(LEAST_ORDER):
            to_finest = self.differences[0]
            bias, noise = self.mean(to_finest if self.lengths[0] < 1 else self.bias(order))
            return StepError(bias, noise, noise, "at least", order)
        taken, others = order, [self.bias_by_coarse(order)]
        if self.surely_below(order) or self.surely_above(order):
            measured = self.measured_order()
            whole = max(float(np.rint(measured)), 1.0)
            if abs(measured - order) <= NEAR:
                pass
            elif not self.unsure and abs(measured - whole) <= NEAR:
                taken, others = whole, [self.bias_by_coarse(whole), self.bias_by_both(order, whole)]
            elif measured < order:
                taken, others = measured, [self.bias(order)]
            else:
                others.append(self.bias(measured))
        return self.estimate(taken, others)

    def estimate(self, order: float, others: list[np.ndarray]) -> StepError:
        """By the fine difference and an order, `others` what else the bias could be."""
        if self.unsure:
            others = [*others, self.bias(order - self.unsure)]
        bias, noise = self.mean(self.bias(order))
        left_out = max((self.beyond_noise(other - self.bias(order)) for other in others), default=0.0)
        return StepError(bias, float(np.hypot(noise, left_out)), noise, "estimate", order)

    def mean(self, each: np.ndarray) -> tuple[float, float]:
        """The mean of a number of each path, and its standard error."""
        n = len(each)
        error = float(each.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
        return float(each.mean()), max(error, self.rounding)

    def beyond_noise(self, each: np.ndarray) -> float:
        """The size of a mean, less what noise adds to it."""
        value, noise = self.mean(each)
        size = abs(value)
        return math.sqrt(size - noise) * math.sqrt(size + noise) if size > noise else 0.0

    def beyond_chance(self, each: np.ndarray) -> float:
        """The mean, or 0 where noise could have made it."""
        value, noise = self.mean(each)
        n = len(each)
        limit = student_quantile(n - 1, 1 - CHANCE) if n > 1 else ROUNDINGS
        return value if abs(value) > limit * noise else 0.0

    def rise(self, order: float) -> tuple[float, float]:
        """The fine and the coarse difference of the lengths' powers."""
        fine, coarse = np.diff(self.lengths**order)
        return float(fine), float(coarse)

    def surely_below(self, order: float) -> bool:
        """Whether the order of what was seen is less: the coarse difference is smaller than would follow."""
        return self._sides(order) < 0

    def surely_above(self, order: float) -> bool:
        return self._sides(order) > 0

    def _sides(self, order: float) -> float:
        _, fine, coarse = self.differences
        by_fine, by_coarse = self.rise(order)
        return np.sign(self.beyond_chance(fine)) * np.sign(
            self.beyond_chance(coarse - by_coarse / by_fine * fine)
        )

    def measured_order(self) -> float:
        """The order whose expansion has both differences, by bisection."""
        wanted = self.differences[2].mean() / self.differences[1].mean()
        low, high = LEAST_ORDER, MOST_ORDER
        for _ in range(60):
            middle = (low + high) / 2
            fine, coarse = self.rise(middle)
            low, high = (middle, high) if coarse / fine < wanted else (low, middle)
        return (low + high) / 2

    def bias(self, order: float) -> np.ndarray:
        """By the fine difference, to which a power of the length is fitted."""
        to_finest, fine, *_ = self.differences
        return to_finest + fine * self.lengths[0] ** order / np.diff(self.lengths**order)[0]

    def bias_by_coarse(self, order: float) -> np.ndarray:
        to_finest, _, coarse = self.differences
        return to_finest + coarse * self.lengths[0] ** order / self.rise(order)[1]

    def bias_by_both(self, order: float, other: float) -> np.ndarray:
        """By both differences, to which two powers are fitted."""
        to_finest, *differences = self.differences
        rises = np.array([self.rise(order), self.rise(other)])
        weights = np.linalg.solve(rises, self.lengths[0] ** np.array([order, other]))
        return to_finest + weights[0] * differences[0] + weights[1] * differences[1]
