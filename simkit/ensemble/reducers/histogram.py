"""Quantiles and histograms from integer counts."""

import itertools
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import on_accelerator

from simkit.ensemble.reducers.binned_numbers import BinnedNumbers, coarsened, quantiles_of
from simkit.ensemble.reducers.float_bins import ALL_BINS, NO_BIN, bin_of
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

    def on_host(self, partial: Binned | Counted) -> tuple[Counts, ...]:
        # On a processor counted here rather than in the compiled program: `bincount` takes 1.3 ns a value on
        # one core, XLA's scatter-add 3.3 (jax 0.10.1) to 5.0 (0.12). It lets other threads run.
        new = counted if isinstance(partial, Binned) else trimmed
        rows = zip(*map(np.asarray, partial), strict=True)
        # Adding 0.0 turns -0.0 into 0.0: which of the two an extreme is depends on the order.
        return tuple(
            Counts(*new(row), float(low.min()) + 0.0, float(high.max()) + 0.0, bool(whole))
            for row, low, high, whole in rows
        )

    def merge(self, state: tuple[Counts, ...], partial: tuple[Counts, ...]) -> tuple[Counts, ...]:
        return tuple(itertools.starmap(joined, zip(state, partial, strict=True)))

    def join(self, state: tuple[Counts, ...], later: tuple[Counts, ...]) -> tuple[Counts, ...]:
        return self.merge(state, later)

    def finish(self, state: tuple[Counts, ...]) -> dict[str, np.ndarray]:
        binned = [BinnedNumbers.of(row.first, row.counts, row.low, row.high, row.whole) for row in state]
        pairs = np.array([quantiles_of(numbers, self.quantiles) for numbers in binned])
        values, errors, stderrs = (by_name(pairs[:, i], self.rows) for i in range(3))
        result = {}
        end = 0
        for name, rows in self.rows:
            end += rows
            result[f"{name}_quantile"] = values[name]
            result[f"{name}_quantile_bin_error"] = errors[name]
            result[f"{name}_quantile_stderr"] = stderrs[name]
            result[f"{name}_histogram"], result[f"{name}_histogram_edge"] = coarsened(binned[end - 1])
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


def joined(seen: Counts, more: Counts) -> Counts:
    """The counts of all numbers of two rows."""
    some = [row for row in (seen, more) if len(row.counts)]
    if len(some) < 2:
        return some[0] if some else seen
    start = min(row.first for row in some)
    counts = np.zeros(max(row.first + len(row.counts) for row in some) - start, np.int64)
    for row in some:
        counts[row.first - start :][: len(row.counts)] += row.counts
    low, high = min(seen.low, more.low), max(seen.high, more.high)
    return Counts(start, counts, low, high, seen.whole and more.whole)
