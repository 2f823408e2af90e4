"""Numbers of which only the bins are known: their quantiles, and equal bins for a picture of them."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from simkit.ensemble.reducers.float_bins import LAST_BIN, ROUNDING, lower_edges

PICTURE_BINS = 100
PICTURE_TAIL = 0.001
CHANCE = 4e-3  # that values which lie anywhere are taken for those of a lattice
MOST_OF_LATTICE = 1024  # points between the extremes
FEW_BINS = 16  # that hold a distribution which they are too wide to show
CLOSE = 1.5
WIDTHS = (
    2.01  # of bins from point to point at least; at two, bins would hold points on the edges between them
)


@dataclasses.dataclass(frozen=True, eq=False)
class BinnedNumbers:
    """The bins that occur, upwards, how often each does, the extremes, and if all numbers are whole.

    Between 0 and 1 there are 65 000 bins, of which most samples leave nearly all empty: these cost nothing.
    """

    bins: np.ndarray
    counts: np.ndarray
    low: float
    high: float
    whole: bool

    @staticmethod
    def of(first: int, counts: np.ndarray, low: float, high: float, whole: bool) -> "BinnedNumbers":
        """From the counts of adjacent bins, of which one is the `first`."""
        there = np.flatnonzero(counts)
        return BinnedNumbers(first + there, counts[there], low, high, whole)

    @functools.cached_property
    def up_to(self) -> np.ndarray:
        """How many numbers lie in each bin and those below it."""
        return np.cumsum(self.counts)

    @property
    def total(self) -> int:
        """How many numbers there are."""
        return int(self.up_to[-1]) if len(self.bins) else 0

    @functools.cached_property
    def edges(self) -> np.ndarray:
        """The edges of each bin `(bins, 2)`, drawn in to the extremes of the sample."""
        return np.clip(lower_edges(self.bins[:, None] + np.arange(2)), self.low, self.high)

    @functools.cached_property
    def whole_edges(self) -> np.ndarray:
        """The edges of bins of whole numbers, each moved to halfway between the two on either side of it."""
        edges = lower_edges(self.bins[:, None] + np.arange(2))
        edges = np.copysign(np.ceil(np.abs(edges)) - 0.5, edges)
        return np.clip(edges, self.low - 0.5, self.high + 0.5)

    @functools.cached_property
    def central(self) -> tuple[int, int]:
        """The places of the first and the last bin of all but the outermost thousandths."""
        first = int(np.searchsorted(self.up_to, PICTURE_TAIL * self.up_to[-1], side="right"))
        return first, int(np.searchsorted(self.up_to, (1 - PICTURE_TAIL) * self.up_to[-1], side="left"))

    @functools.cached_property
    def is_narrow(self) -> bool:
        """Whether the numbers lie in so few adjacent bins that these do not show how they are distributed.

        Whole numbers that have a bin each do not, nor do few numbers that are apart.
        """
        first, last = self.central
        length = self.bins[last] - self.bins[first]
        if self.low == self.high or length >= FEW_BINS or length > last - first:
            return False
        return not (self.whole and np.diff(self.edges[-1])[0] <= 1)


def quantiles_of(numbers: BinnedNumbers, levels: Sequence[float]) -> np.ndarray:
    r"""The quantiles at `levels`, bounds on their distance from those of the numbers, and standard errors.

    A standard error is how a quantile rises over $\sqrt{n p (1 - p)}$ ranks to either side. That is the
    standard deviation of the number of values below it. NaN where these ranks are not all there.
    """
    total = numbers.total
    if not total:
        return np.full((3, len(levels)), np.nan)
    ranks = [level * (total - 1) for level in levels]
    away = np.array([(total * level * (1 - level)) ** 0.5 for level in levels])
    below = np.array([min(int(rank), total - 1) for rank in ranks], np.int64)
    first = np.array([math.floor(rank - far) for rank, far in zip(ranks, away, strict=True)], np.int64)
    last = np.array([math.ceil(rank + far) for rank, far in zip(ranks, away, strict=True)], np.int64)
    places = np.clip([below, below + 1, first, last], 0, total - 1)
    (a, b, low, high), (a_error, b_error, *_) = order_statistics(numbers, places)
    part = ranks - below
    values = np.where(a == b, a, (1 - part) * a + part * b)
    errors = (1 - part) * a_error + part * b_error
    known = (away > 0) & (first >= 0) & (last < total)
    stderrs = np.where(known, away * (high - low) / np.maximum(last - first, 1), np.nan)
    return np.array([values, errors, np.hypot(stderrs, errors) if numbers.is_narrow else stderrs])


def order_statistics(numbers: BinnedNumbers, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values at `places` of the sorted sample, evenly spread in their bins; bounds on their errors.

    What lies in bin 0, many equal zeros more often than numbers below any normal float32, counts as 0.
    """
    k = np.searchsorted(numbers.up_to, places, side="right")
    bins, counts = numbers.bins[k], numbers.counts[k]
    edges = np.where(bins == 0, 0.0, lower_edges(np.stack([bins, bins + 1])))
    outwards = np.abs(edges) * ROUNDING
    low = np.clip(edges[0] - outwards[0], numbers.low, numbers.high)
    high = np.clip(edges[1] + outwards[1], numbers.low, numbers.high)
    inside = (places - (numbers.up_to[k] - counts) + 0.5) / counts
    values = low + (high - low) * inside
    errors = np.maximum(values - low, high - values)
    for place, extreme in ((numbers.total - 1, numbers.high), (0, numbers.low)):
        values[places == place], errors[places == place] = extreme, 0.0
    return values, errors


def lattice_of(numbers: BinnedNumbers) -> float:
    """The distance of values that lie on a lattice, such as times on fixed steps; 0 where none shows.

    The lattice goes through both extremes. Each bin that occurs must hold a point of it, and be at most half
    as wide as the points are apart; bins of other values lie side by side, or wherever values happen to be.
    The fewer there are, the more likely they hold points of a lattice by chance, and of one with many points.
    """
    if len(numbers.bins) < 3:
        return 0.0
    lower, upper = numbers.edges.T
    length, widths, middles = numbers.high - numbers.low, upper - lower, (lower + upper) / 2
    near = np.median(np.diff(middles))  # up to the width of a bin
    with np.errstate(over="ignore"):
        least = min(length / near / CLOSE, MOST_OF_LATTICE + 1)
        most = min(CLOSE * length / near, length / (WIDTHS * widths[1:-1].max()), MOST_OF_LATTICE)
    for number in range(max(int(least), 1), int(most) + 1):
        places = (middles - numbers.low) * number / length
        if number * np.prod(np.minimum(widths[1:-1] * number / length, 1.0)) > CHANCE:
            return 0.0
        off = np.abs(places - np.rint(places)) * length / number
        if (off <= widths / 2 + ROUNDING * np.abs(middles)).all():
            return length / number
    return 0.0


def coarsened(numbers: BinnedNumbers) -> tuple[np.ndarray, np.ndarray]:
    """Counts on equal bins for a picture, and their edges; NaN edges where there is no sample."""
    if not numbers.total:
        return np.zeros(PICTURE_BINS, np.int64), np.full(PICTURE_BINS + 1, np.nan)
    first, last = numbers.central
    whole = numbers.whole and len(numbers.bins) > 2  # two are a condition that holds or does not
    shown = slice(first, last + 1)
    fine = np.ravel((numbers.whole_edges if whole else numbers.edges)[shown])
    up_to = np.repeat(numbers.up_to[shown], 2)
    up_to[::2] -= numbers.counts[shown]
    low, high = fine[0], fine[-1]
    if not low < high:
        margin = 0.005 * abs(low) or 0.5
        edges = np.linspace(low - margin, low + margin, PICTURE_BINS + 1)
        return np.histogram([low], edges)[0] * (up_to[-1] - up_to[0]), edges
    apart = 1.0 if whole else lattice_of(numbers)
    own = numbers.bins[first] + np.arange(PICTURE_BINS + 1)
    if numbers.is_narrow and not whole and own[-1] <= LAST_BIN:
        edges = lower_edges(own)
    elif apart:
        if not whole:
            places = np.rint((np.array([low, high]) - numbers.low) / apart) + np.array([-0.5, 0.5])
            low, high = numbers.low + apart * places
        edges = low + np.arange(PICTURE_BINS + 1) * apart * np.ceil(
            np.rint((high - low) / apart) / PICTURE_BINS
        )
    else:
        edges = np.linspace(low, high, PICTURE_BINS + 1)
    passed = np.rint(np.interp(edges, fine, up_to)).astype(np.int64)
    # Where many equal values sit on the rim of the picture, they belong to it.
    passed[0], passed[-1] = up_to[0], up_to[-1]
    return np.diff(passed), edges
