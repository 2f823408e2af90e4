"""Quantiles and histograms from integer counts."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import on_accelerator

from simkit.ensemble.reducers.float_bins import ALL_BINS, LAST_BIN, NO_BIN, ROUNDING, bin_of, lower_edges
from simkit.ensemble.reducers.pairwise import extremes
from simkit.ensemble.reducers.reducer import (
    AbstractReducer,
    Array,
    Label,
    Rows,
    as_rows,
    by_name,
    stacked,
    statistic,
)

PICTURE_BINS = 100
PICTURE_TAIL = 0.001
CHANCE = 4e-3  # that values which lie anywhere are taken for those of a lattice
MOST_OF_LATTICE = 1024  # points between the extremes
FEW_BINS = 16  # that hold a distribution which they are too wide to show
CLOSE = 1.5
WIDTHS = (
    2.01  # of bins from point to point at least; at two, bins would hold points on the edges between them
)


class Binned(NamedTuple):
    """Bin numbers `(rows, leaves, length)`, the extremes `(rows, leaves)`, and where all are whole `(rows,)`.

    That is found out for the last row of each quantity alone, which is the one in pictures.
    """

    bins: Array
    low: Array
    high: Array
    whole: Array


class Counted(NamedTuple):
    """How often each bin occurs `(rows, bins)`, from `NO_BIN` on, and the rest of `Binned`."""

    counts: Array
    low: Array
    high: Array
    whole: Array


class Counts(NamedTuple):
    """One row's counts, of which the first belongs to bin `first`, its extremes, and if all are whole."""

    first: int
    counts: np.ndarray
    low: float
    high: float
    whole: bool = True


@statistic
class Histogram(AbstractReducer):
    """Quantiles of every row and a histogram of the last one, from counts on bins of leading bits.

    Counts add up to the same whatever the order; there is no sort and no pilot run. `quantiles` are levels
    between 0 and 1, interpolated linearly between order statistics as NumPy does by default; each comes with
    a bound on how far the binning may have moved it, and with its standard error. Only the range of bins that
    occurs is stored.

    `finish` returns for each quantity `<name>_quantile`, `<name>_quantile_stderr` and
    `<name>_quantile_bin_error`, `(rows, levels)`, and `<name>_histogram`, `(100,)`, with
    `<name>_histogram_edge`, `(101,)`: the last row on equal bins over all but its outermost thousandths. A
    fine bin that lies across an edge is split in proportion. Bins of whole numbers, or of others on a lattice
    that shows, such as times on fixed steps, hold as many of these each, and the last of them may be empty.
    """

    name = "histogram"
    labels: ClassVar = {
        "quantile": Label("quantile of {}", dims=("quantile",)),
        "quantile_stderr": Label("standard error of the quantile of {}", dims=("quantile",)),
        "quantile_bin_error": Label("bound on the quantile's bin error: {}", dims=("quantile",)),
    }
    rows: Rows = eqx.field(converter=as_rows, static=True)
    quantiles: tuple[float, ...] = eqx.field(converter=tuple, static=True)

    def __check_init__(self):
        for level in self.quantiles:
            if not 0 <= level <= 1:
                raise ValueError(f"quantiles: must lie between 0 and 1, got {level:g}")

    def update(self, values, valid):
        x = stacked(values, self.rows)
        bins, ends = bin_of(x, valid), extremes(x, valid)
        pictured = np.cumsum([rows for _, rows in self.rows]) - 1
        final = x[pictured]
        are_whole = jnp.all(~valid | (final == jnp.rint(final)), (-2, -1))
        whole = jnp.zeros(len(x), bool).at[pictured].set(are_whole)
        if on_accelerator() and valid.size > ALL_BINS:  # there fewer bytes leave the device
            return Counted(jax.lax.map(how_often, bins), *ends, whole)
        return Binned(bins, *ends, whole)

    def init(self, leaf: int = 0) -> tuple[Counts, ...]:
        return tuple(
            Counts(0, np.zeros(0, np.int64), np.inf, -np.inf) for _, n in self.rows for _ in range(n)
        )

    def merge(self, state: tuple[Counts, ...], partial: Binned | Counted) -> tuple[Counts, ...]:
        # On a processor counted here rather than in the compiled program: `bincount` takes 1.3 ns a value on
        # one core, XLA's scatter-add 3.3 (jax 0.10.1) to 5.0 (0.12).
        new = counted if isinstance(partial, Binned) else trimmed
        result = zip(*map(np.asarray, partial), strict=True)
        return tuple(
            add_counts(seen, *new(row), low, high, whole)
            for seen, (row, low, high, whole) in zip(state, result, strict=True)
        )

    def join(self, state: tuple[Counts, ...], later: tuple[Counts, ...]) -> tuple[Counts, ...]:
        return tuple(add_counts(seen, *more) for seen, more in zip(state, later, strict=True))

    def finish(self, state: tuple[Counts, ...]) -> dict[str, np.ndarray]:
        pairs = np.array([quantiles_of(row, self.quantiles) for row in state], np.float64)
        values, errors, stderrs = (by_name(pairs[:, i], self.rows) for i in range(3))
        result = {}
        end = 0
        for name, rows in self.rows:
            end += rows
            result[f"{name}_quantile"] = values[name]
            result[f"{name}_quantile_bin_error"] = errors[name]
            result[f"{name}_quantile_stderr"] = stderrs[name]
            result[f"{name}_histogram"], result[f"{name}_histogram_edge"] = coarsened(state[end - 1])
        return result


def how_often(bins: jax.Array) -> jax.Array:
    """How often each bin occurs among all numbers of a row, from `NO_BIN` on."""
    return jnp.zeros(ALL_BINS, jnp.int32).at[bins.reshape(-1) - NO_BIN].add(1, mode="promise_in_bounds")


def trimmed(counts: np.ndarray) -> tuple[int, np.ndarray]:
    """The first bin of those that occur, and how often each does from there on."""
    there = np.flatnonzero(counts[1:])  # all but `NO_BIN`
    if not len(there):
        return 0, counts[:0]
    return NO_BIN + 1 + int(there[0]), counts[1 + there[0] : 2 + there[-1]]


def counted(bins: np.ndarray) -> tuple[int, np.ndarray]:
    """What `trimmed` gives, from the number of each value's bin."""
    numbers = bins.reshape(-1)
    if numbers.min(initial=0) == NO_BIN:
        numbers = numbers[numbers != NO_BIN]
    if not len(numbers):
        return 0, numbers
    first = int(numbers.min())
    return first, np.bincount(numbers - first)


def add_counts(
    seen: Counts, first: int, new: np.ndarray, low: np.ndarray | float, high: np.ndarray | float, whole: Any
) -> Counts:
    """The counts with those of further numbers added."""
    if not len(new):
        return seen
    start = min(first, seen.first) if len(seen.counts) else first
    stop = max(first + len(new), seen.first + len(seen.counts)) if len(seen.counts) else first + len(new)
    counts = np.zeros(stop - start, np.int64)
    counts[seen.first - start :][: len(seen.counts)] = seen.counts
    counts[first - start :][: len(new)] += new
    # Adding 0.0 turns -0.0 into 0.0: which of the two an extreme is depends on the order.
    ends = min(seen.low, float(np.min(low)) + 0.0), max(seen.high, float(np.max(high)) + 0.0)
    return Counts(start, counts, *ends, seen.whole and bool(whole))


def fine_edges(row: Counts) -> np.ndarray:
    """The edges of the row's bins, drawn in to the extremes of the sample; one more than there are bins."""
    return np.clip(lower_edges(row.first + np.arange(len(row.counts) + 1)), row.low, row.high)


def quantiles_of(row: Counts, levels: tuple[float, ...]) -> tuple[list[float], list[float], list[float]]:
    """The quantiles at `levels`, bounds on their distance from those of the values, and standard errors."""
    up_to = np.cumsum(row.counts)
    total = int(up_to[-1]) if len(up_to) else 0
    if not total:
        nothing = [np.nan] * len(levels)
        return nothing, nothing, nothing
    values, errors = [], []
    for level in levels:
        rank = level * (total - 1)
        below = min(int(rank), total - 1)
        part = rank - below
        a, a_error = order_statistic(row, up_to, below)
        b, b_error = order_statistic(row, up_to, min(below + 1, total - 1))
        values.append(a if a == b else (1 - part) * a + part * b)
        errors.append((1 - part) * a_error + part * b_error)
    stderrs = [quantile_error(row, up_to, level) for level in levels]
    if is_narrow(row):
        stderrs = [float(np.hypot(*each)) for each in zip(stderrs, errors, strict=True)]
    return values, errors, stderrs


def quantile_error(row: Counts, up_to: np.ndarray, level: float) -> float:
    r"""The standard error of a quantile: how it rises over $\sqrt{n p (1 - p)}$ ranks to either side.

    That is the standard deviation of the number of values below it. NaN where these ranks are not all there.
    """
    total = int(up_to[-1])
    rank, away = level * (total - 1), (total * level * (1 - level)) ** 0.5
    low, high = int(np.floor(rank - away)), int(np.ceil(rank + away))
    if not away or low < 0 or high >= total:
        return np.nan
    ends = [order_statistic(row, up_to, place)[0] for place in (low, high)]
    return away * (ends[1] - ends[0]) / (high - low)


def order_statistic(row: Counts, up_to: np.ndarray, index: int) -> tuple[float, float]:
    """The value at position `index` of the sorted sample, evenly spread in its bin; a bound on its error.

    What lies in bin 0, many equal zeros more often than numbers below any normal float32, counts as 0.
    """
    if index == 0:
        return row.low, 0.0
    if index == up_to[-1] - 1:
        return row.high, 0.0
    k = int(np.searchsorted(up_to, index, side="right"))
    edges = lower_edges(row.first + k + np.arange(2)) if row.first + k else np.zeros(2)
    low, high = np.clip(edges + np.array([-ROUNDING, ROUNDING]) * np.abs(edges), row.low, row.high)
    inside = (index - (up_to[k] - row.counts[k]) + 0.5) / row.counts[k]
    value = low + (high - low) * inside
    return float(value), float(max(value - low, high - value))


def central(row: Counts) -> tuple[int, int]:
    """The places of the first and the last count of all but the outermost thousandths."""
    up_to = np.cumsum(row.counts)
    first = int(np.searchsorted(up_to, PICTURE_TAIL * up_to[-1], side="right"))
    return first, int(np.searchsorted(up_to, (1 - PICTURE_TAIL) * up_to[-1], side="left"))


def is_narrow(row: Counts) -> bool:
    """Whether the values lie in so few adjacent bins that these do not show how they are distributed.

    Whole numbers that have a bin each do not, nor do few values that are apart.
    """
    first, last = central(row)
    edges = fine_edges(row)
    known = row.whole and edges[-1] - edges[-2] <= 1
    return (
        not known
        and row.low < row.high
        and last - first < FEW_BINS
        and bool(row.counts[first : last + 1].all())
    )


def whole_edges(row: Counts) -> np.ndarray:
    """The edges of the bins of whole numbers, each moved to halfway between the two on either side of it."""
    edges = lower_edges(row.first + np.arange(len(row.counts) + 1))
    return np.clip(np.copysign(np.ceil(np.abs(edges)) - 0.5, edges), row.low - 0.5, row.high + 0.5)


def lattice_of(row: Counts) -> float:
    """The distance of values that lie on a lattice, such as times on fixed steps; 0 where none shows.

    The lattice goes through both extremes. Each bin that occurs must hold a point of it, and be at most half
    as wide as the points are apart; bins of other values lie side by side, or wherever values happen to be.
    The fewer there are, the more likely they hold points of a lattice by chance, and of one with many points.
    """
    there = np.flatnonzero(row.counts)
    if len(there) < 3:
        return 0.0
    edges, length = fine_edges(row), row.high - row.low
    widths, middles = np.diff(edges)[there], (edges[there] + edges[there + 1]) / 2
    near = np.median(np.diff(middles))  # up to the width of a bin
    most = min(CLOSE * length / near, length / (WIDTHS * widths[1:-1].max()), MOST_OF_LATTICE)
    for number in range(max(int(length / near / CLOSE), 1), int(most) + 1):
        places = (middles - row.low) * number / length
        if number * np.prod(np.minimum(widths[1:-1] * number / length, 1.0)) > CHANCE:
            return 0.0
        off = np.abs(places - np.rint(places)) * length / number
        if (off <= widths / 2 + ROUNDING * np.abs(middles)).all():
            return length / number
    return 0.0


def coarsened(row: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Counts on equal bins for a picture, and their edges; NaN edges where there is no sample."""
    total = int(row.counts.sum())
    if not total:
        return np.zeros(PICTURE_BINS, np.int64), np.full(PICTURE_BINS + 1, np.nan)
    up_to = np.concatenate([[0], np.cumsum(row.counts)])
    first, last = central(row)
    whole = row.whole and np.count_nonzero(row.counts) > 2  # two are a condition that holds or does not
    fine = (whole_edges if whole else fine_edges)(row)[first : last + 2]
    up_to = up_to[first : last + 2]
    low, high = fine[0], fine[-1]
    if not low < high:
        margin = 0.005 * abs(low) or 0.5
        edges = np.linspace(low - margin, low + margin, PICTURE_BINS + 1)
        return np.histogram([low], edges)[0] * (up_to[-1] - up_to[0]), edges
    apart = 1.0 if whole else lattice_of(row)
    own = row.first + first + np.arange(PICTURE_BINS + 1)
    if is_narrow(row) and not whole and own[-1] <= LAST_BIN:
        edges = lower_edges(own)
    elif apart:
        if not whole:
            places = np.rint((np.array([low, high]) - row.low) / apart) + np.array([-0.5, 0.5])
            low, high = row.low + apart * places
        edges = low + np.arange(PICTURE_BINS + 1) * apart * np.ceil(
            np.rint((high - low) / apart) / PICTURE_BINS
        )
    else:
        edges = np.linspace(low, high, PICTURE_BINS + 1)
    passed = np.rint(np.interp(edges, fine, up_to)).astype(np.int64)
    # Where many equal values sit on the rim of the picture, they belong to it.
    passed[0], passed[-1] = up_to[0], up_to[-1]
    return np.diff(passed), edges
