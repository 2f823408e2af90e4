r"""The step error of a mean, from values of the same paths at three lengths of step.

With steps of length h the mean is $E[X_h] \approx E[X_0] + c h^p$, where p is the weak order. Two
differences, $D_1 = E[X_{2h} - X_h]$ and $D_2 = E[X_{4h} - X_{2h}]$, give the bias of the run,
$D_1 / (2^p - 1)$, and the order itself, since $D_2 / D_1 = 2^p$. What the expansion leaves out shows as the
difference between the bias by $D_1$ and that by $D_2$. Where surely another order was measured than p, the
bias follows from the lower of the two, which makes it larger, and its error reaches to that of the higher:
most such steps are too long for the expansion, and few methods do better than they claim. Where no order
fits, there is no estimate, and what was seen is a bound. Other lengths than h, 2h and 4h do as well.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

CHANCE = 3e-5  # that noise counts as a difference: 4 standard errors where there are many paths
ROUNDINGS = 4.0  # the same of a single path, whose noise is rounding
LEAST_ORDER = 0.5  # slower convergence has no order that three lengths of step could show
NEAR = 0.2  # of an order, to count as it
OF_TOLERANCES = 0.5  # of an order, by which the error of an ordinary equation may follow its tolerances less
MOST_ORDER = 16.0
DOUBT = 0.25  # of a bias


@dataclasses.dataclass(frozen=True)
class StepError:
    """How far a mean is from that of infinitely short steps.

    `stderr` is the error of `bias`: its `noise`, which is less with more paths, and what the extrapolation
    leaves out. `order` is the one extrapolated with. With the claim `at least` there is no estimate: steps
    are too long for any order, and `bias` is the largest difference to shorter steps, or where the run's own
    are the shortest, what it would be if the order were there.
    `unseen` says that other grids change none of the paths, or few, and noise is what one more could be.
    """

    bias: float
    stderr: float
    noise: float
    claim: Literal["estimate", "at least"]
    order: float
    unseen: bool = False

    @property
    def left_out(self) -> float:
        """What the extrapolation leaves out."""
        return _leg(self.stderr, self.noise)

    def says_little(self, matters: float) -> bool:
        """Whether there is no estimate, or one whose error is larger than itself and than what `matters`."""
        return self.claim == "at least" or self.left_out > max(abs(self.bias), matters)


def step_error(
    values: np.ndarray,
    factors: Sequence[float],
    order: float,
    rounding: float = 0.0,
    unsure: float = 0.0,
    random: bool = False,
) -> StepError | None:
    """The step error of a mean over paths, given `values` `(paths, 1 + levels)` of the same paths.

    Column 0 is the run itself, the others have steps `factors` times as long: one of them, which shows no
    order, or two. `order` is the weak order of what is averaged, and may be less by `unsure`; `rounding` is
    the absolute rounding error of a mean. Paths with a value that is not finite are left out; None where none
    is left. A single path that is not `random` is one of an ordinary equation: it has no noise but rounding.
    On a random one differences follow no order, and there is no estimate unless they are rounding.
    """
    lengths = np.asarray([1.0, *factors])
    places = np.argsort(lengths)
    values = np.asarray(values, np.float64)
    finite = np.isfinite(values)
    columns = np.ascontiguousarray(values.T if finite.all() else values[finite.all(1)].T)
    if not columns.size:
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        run, by_length = columns[0], columns[places]
        differences = (run - by_length[0], *np.diff(by_length, axis=0))
        return _Expansion(lengths[places], run, differences, rounding, unsure, random).error(order)


def student_quantile(freedom: int, chance: float) -> float:
    """The quantile of Student's distribution, from 1000 degrees of freedom on that of the normal one.

    There they differ by less than half a percent, and SciPy takes a third of a second to import.
    """
    if freedom >= 1000:
        return NormalDist().inv_cdf(chance)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, chance))


def fisher_quantile(freedom: int, chance: float) -> float:
    """The quantile of the ratio of two variances, each of so many degrees of freedom."""
    from scipy.special import fdtri

    return float(fdtri(freedom, freedom, chance))


@dataclasses.dataclass(frozen=True)
class _Expansion:
    """The run of each path; its difference to the finest level, and those of neighbours, fine to coarse."""

    lengths: np.ndarray
    run: np.ndarray
    differences: tuple[np.ndarray, ...]
    rounding: float
    unsure: float
    random: bool

    def error(self, order: float) -> StepError:
        shows_none = self.random and len(self.run) == 1 and any(map(self.beyond_chance, self.differences))
        if len(self.lengths) == 2 and not shows_none:
            return self.estimate(order, [])
        if shows_none or self.side(LEAST_ORDER) < 0:
            bounds = map(self.mean, self.to_finer() or [self.bias(order)])
            bias, noise = max(bounds, key=lambda bound: abs(bound[0]))
            return StepError(bias, noise, noise, "at least", order)
        measured = order
        if self.side(order):
            measured = self.measured_order()
            measured = order if abs(measured - order) <= NEAR else measured
        low, high = min(order, measured), max(order, measured)
        return self.estimate(low, [self.bias_by_coarse(low), self.bias(high)])

    def estimate(self, order: float, others: list[np.ndarray]) -> StepError:
        """The bias by the fine difference and an order; `others` are what else it could be."""
        if self.unsure:
            others = [*others, self.bias(order - self.unsure)]
        of_paths = self.bias(order)
        bias, noise = self.mean(of_paths)
        left_out = max((self.beyond_noise(other - of_paths) for other in others), default=0.0)
        left_out = max(left_out, self.doubt() * abs(bias))
        return StepError(bias, float(np.hypot(noise, left_out)), noise, "estimate", order)

    def doubt(self) -> float:
        """What the next power of the expansion may be of the first, however well two differences agree.

        As the coarsest difference is to the value or its spread, or the fine one where noise hides that: at
        most `DOUBT`.
        """
        size = max(abs(float(self.run.mean())), float(self.run.std()))
        whole = np.sum(self.differences[1:], axis=0)
        change = max(abs(each) for each in (self.fine_beyond_chance, self.beyond_chance(whole)))
        return min(change / size, DOUBT) if size > 0 else DOUBT

    def mean(self, each: np.ndarray) -> tuple[float, float]:
        """The mean of a number of each path, and its standard error."""
        n = len(each)
        error = float(each.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
        return float(each.mean()), max(error, self.rounding)

    def beyond_noise(self, each: np.ndarray) -> float:
        """The size of a mean, less what noise adds to it."""
        value, noise = self.mean(each)
        return _leg(abs(value), noise)

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

    @functools.cached_property
    def fine_beyond_chance(self) -> float:
        """The mean of the fine difference, or 0 where noise could have made it."""
        return self.beyond_chance(self.differences[1])

    def side(self, order: float) -> int:
        """Whether the order of what was seen is surely less, -1, or more, 1; 0 where neither is sure.

        It is less where the coarse difference is smaller than would follow.
        """
        if not self.fine_beyond_chance:
            return 0
        _, fine, coarse = self.differences
        by_fine, by_coarse = self.rise(order)
        rest = self.beyond_chance(coarse - by_coarse / by_fine * fine)
        return ((rest > 0) - (rest < 0)) * (1 if self.fine_beyond_chance > 0 else -1)

    def measured_order(self) -> float:
        """The order whose expansion has both differences, by bisection."""
        wanted = self.differences[2].mean() / self.differences[1].mean()
        low, high = LEAST_ORDER, MOST_ORDER
        for _ in range(60):
            middle = (low + high) / 2
            fine, coarse = self.rise(middle)
            low, high = (middle, high) if coarse / fine < wanted else (low, middle)
        return (low + high) / 2

    def to_finer(self) -> list[np.ndarray]:
        """The differences to the levels with shorter steps than the run's."""
        to_finest, fine, *_ = self.differences
        return [to_finest, to_finest - fine][: int(np.sum(self.lengths < 1))]

    def bias(self, order: float) -> np.ndarray:
        """The bias by the fine difference, to which a power of the length is fitted."""
        to_finest, fine, *_ = self.differences
        return to_finest + fine * self.lengths[0] ** order / np.diff(self.lengths**order)[0]

    def bias_by_coarse(self, order: float) -> np.ndarray:
        to_finest, _, coarse = self.differences
        return to_finest + coarse * self.lengths[0] ** order / self.rise(order)[1]


def _leg(whole: float, noise: float) -> float:
    """The other leg of a right triangle, also of numbers whose squares are too large."""
    return math.sqrt(whole - noise) * math.sqrt(whole + noise) if whole > noise else 0.0
