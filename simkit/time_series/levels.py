r"""The mean of a correlated series, its standard error and its autocorrelation time, in one pass.

Level l holds means over blocks of $2^l$ samples: how many there were, their sum, and their products with each
of the last few blocks. Blocks of 2 become one of the next level, so that n samples need $\log_2 n$ levels of
fixed size, and the cost of a sample is that of two.

Of the sums of a level follow the autocovariances $C_l(t)$ between blocks, and $n_l \operatorname{Var}\bar x =
C_l(0) + 2 \sum_{t=1}^{W} C_l(t)$ with the window of `window.py`.

The block length is chosen thus: the shortest blocks whose window ends before the lags do, which do not repel
each other, and whose variance of the mean no longer blocks exceed by more than three of their standard errors
(as a slow motion of small amplitude would make them).

References: Flyvbjerg & Petersen (1989), doi:10.1063/1.457480; Wolff (2004),
doi:10.1016/S0010-4655(03)00467-3.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from simkit.time_series.estimate import FEWEST_REPLICAS, MANY, Estimate, honest, of_replicas
from simkit.time_series.window import windowed

LAGS = 16  # of the products between blocks of a level, with lag 0
LEVELS = 40  # enough for 10^12 samples
FEWEST_BLOCKS = 25  # of a level that is used: the variance of fewer may be small by chance
TOLERANCE = 3.0


class Levels(NamedTuple):
    """The sums over blocks of 1, 2, 4, … samples of several series; deviations from the first sample."""

    seen: Int[Array | np.ndarray, ""]
    origin: Float[Array | np.ndarray, " series"]
    total: Float[Array | np.ndarray, "levels series"]
    recent: Float[Array | np.ndarray, "levels lags series"]
    product: Float[Array | np.ndarray, "levels lags series"]  # of a block with that t blocks ago
    later: Float[Array | np.ndarray, "levels lags series"]  # sums of the first factor
    earlier: Float[Array | np.ndarray, "levels lags series"]  # and of the second


def no_levels(series: int, levels: int = LEVELS) -> Levels:
    """The state that has seen nothing of `series` series. Needs 64-bit types (`jax.enable_x64`)."""
    if not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise ValueError(
            "statistics of a series sum in float64: run them inside `with jax.enable_x64(True):`"
        )
    shape = (levels, LAGS, series)
    zeros = jnp.zeros(shape)
    return Levels(
        jnp.zeros((), jnp.int64), jnp.zeros(series), jnp.zeros((levels, series)), zeros, zeros, zeros, zeros
    )


def with_level_sample(levels: Levels, sample: Float[Array, " series"]) -> Levels:
    """The state after one more sample."""
    sample = sample.astype(jnp.float64)
    seen = levels.seen + 1
    origin = jnp.where(seen == 1, sample, levels.origin)
    depth = levels.total.shape[0]
    ago = jnp.arange(LAGS, dtype=jnp.int64)

    def ends_block(carry):
        level = carry[0]
        return (level < depth) & (seen & ((jnp.int64(1) << level) - 1) == 0)

    def book(carry):
        level, block, (total, recent, product, later, earlier) = carry
        number = (seen >> level) - 1
        recent = recent.at[level, number % LAGS].set(block)
        past = recent[level, (number - ago) % LAGS]
        there = (ago <= number)[:, None]
        past = jnp.where(there, past, 0)
        total = total.at[level].add(block)
        product = product.at[level].add(block * past)
        later = later.at[level].add(jnp.where(there, block, 0))
        earlier = earlier.at[level].add(past)
        return level + 1, 0.5 * (past[1] + block), (total, recent, product, later, earlier)

    start = (jnp.zeros((), jnp.int64), sample - origin, levels[2:])
    _, _, sums = lax.while_loop(ends_block, book, start)
    return Levels(seen, origin, *sums)


def with_level_samples(levels: Levels, samples: Float[Array, "samples series"]) -> Levels:
    """The state after the rows of an array, one by one: the same bits however a series is cut."""
    return lax.fori_loop(0, samples.shape[0], lambda i, state: with_level_sample(state, samples[i]), levels)


class BlockErrors(NamedTuple):
    """The standard error of the mean from blocks of 1, 2, 4, … samples, as if blocks were independent.

    With their length it rises to a plateau, the standard error. The rows are block lengths.
    """

    length: np.ndarray
    blocks: np.ndarray
    stderr: np.ndarray
    stderr_error: np.ndarray


def estimated_mean(replicas: Levels | Sequence[Levels], separate: bool = False) -> Estimate:
    """Means, standard errors and autocorrelation times of the series, over one state or those of replicas.

    Replicas have equally many samples. Below 16 their autocovariances are pooled, about the common mean, so
    that replicas which differ have a larger error; from 16 on the error is that of their independent means.

    Replicas that are `separate` have means of their own, as at the energies that they keep. Their error is
    the spread of these means from 4 replicas on, and no less than that of the fluctuations. Of fewer it is
    that of the fluctuations about them, as if no other means could have been drawn.
    """
    sums = _Pooled.of(replicas)
    centres = sums.count if separate else 1
    mean, samples = sums.mean, sums.samples
    or_else = "" if sums.count == 1 else f", or take at least {MANY} replicas"
    levels = [level for level in range(sums.levels) if sums.blocks(level) >= FEWEST_BLOCKS]
    windows = [windowed(sums.covariances(level, separate), sums.blocks(level), centres) for level in levels]
    by_spread = sums.count >= (FEWEST_REPLICAS if separate else MANY)
    if not windows:
        unknown = np.full(mean.shape, np.nan)
        if by_spread:
            return of_replicas(mean, sums.means, unknown, unknown, samples)
        return honest(mean, unknown, unknown, unknown, unknown, samples, or_else)
    length = 2.0 ** np.arange(len(windows))
    variance = np.stack([np.where(w.repels, np.nan, w.total) for w in windows]) * length[:, None] / samples
    relative = np.sqrt(2 / np.stack([w.freedom for w in windows]))
    at = _shortest_blocks(variance, relative, np.array([sums.blocks(level) for level in levels]))
    has_window = np.isfinite(np.take_along_axis(variance, at, 0)[0])

    def there(rows: np.ndarray) -> np.ndarray:
        return np.where(has_window, np.take_along_axis(rows, at, 0)[0], np.nan)

    of_one = windows[0].variance
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = np.where(of_one > 0, there(variance) * samples / (2 * of_one), 0.5)
    tau = np.where(has_window, tau, np.nan)
    freedom = there(2 / relative**2)
    variance, tau_stderr = there(variance), tau * there(relative)
    if by_spread:
        spread = of_replicas(mean, sums.means, tau, tau_stderr, samples)
        return spread._replace(stderr=np.fmax(spread.stderr, np.sqrt(variance))) if separate else spread
    return honest(mean, variance, tau, tau_stderr, freedom, samples, or_else)


def block_errors(replicas: Levels | Sequence[Levels]) -> BlockErrors:
    """What Flyvbjerg and Petersen plot: the standard error against the block length, with its own error."""
    sums = _Pooled.of(replicas)
    levels = [level for level in range(sums.levels) if sums.blocks(level) > 1]
    blocks = np.array([sums.blocks(level) for level in levels])
    stderr = np.stack([np.sqrt(sums.covariances(level)[0] / (sums.blocks(level) - 1)) for level in levels])
    return BlockErrors(2 ** np.array(levels), blocks, stderr, stderr / np.sqrt(2 * (blocks - 1))[:, None])


def _shortest_blocks(variance: np.ndarray, relative: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """The level of the shortest blocks that do, of each series; with no window at any level, level 0."""
    judges = np.isfinite(variance) & (blocks >= 2 * FEWEST_BLOCKS)[:, None]
    least = np.where(judges, variance / (1 + TOLERANCE * relative), -np.inf)
    most_of_longer = np.maximum.accumulate(least[::-1])[::-1]
    fits = variance >= most_of_longer  # false where the variance is NaN
    return np.argmax(fits, axis=0)[None]


class _Pooled(NamedTuple):
    """The sums of replicas in NumPy, each array with an axis of replicas in front."""

    sums: Levels

    @classmethod
    def of(cls, replicas: Levels | Sequence[Levels]) -> "_Pooled":
        if isinstance(replicas, Levels):
            one = [replicas] if np.ndim(replicas.seen) == 0 else None
        else:
            one = list(replicas)
        if one is None:
            stacked = Levels(*map(np.asarray, replicas))
        else:
            stacked = Levels(
                *(np.stack([np.asarray(a) for a in arrays]) for arrays in zip(*one, strict=True))
            )
        counts = np.unique(stacked.seen)
        if len(counts) > 1:
            raise ValueError(f"replicas must have equally many samples, got {', '.join(map(str, counts))}")
        return cls(stacked)

    @property
    def count(self) -> int:
        return len(self.sums.seen)

    @property
    def levels(self) -> int:
        return self.sums.total.shape[1]

    @property
    def samples(self) -> int:
        return int(self.sums.seen.sum())

    def blocks(self, level: int) -> int:
        """The number of blocks of all replicas."""
        return int((self.sums.seen >> level).sum())

    @property
    def means(self) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.sums.origin + self.sums.total[:, 0] / self.sums.seen[:, None])

    @property
    def mean(self) -> np.ndarray:
        return self.means.mean(0)

    def covariances(self, level: int, separate: bool = False) -> np.ndarray:
        """The autocovariances `(lags, series)` between the blocks of a level, about their mean or, where
        replicas are `separate`, about that of each.
        """
        own = int(self.sums.seen[0] >> level)
        lags = min(LAGS, own)
        pairs = (own - np.arange(lags))[:, None]
        level_means = self.sums.origin + self.sums.total[:, level] / own
        centre = level_means if separate else level_means.mean(0)
        shift = (centre - self.sums.origin)[:, None]  # replica, 1, series
        products = self.sums.product[:, level, :lags]
        linear = self.sums.later[:, level, :lags] + self.sums.earlier[:, level, :lags]
        summed = products - shift * linear + pairs * shift**2
        return np.asarray(summed.sum(0) / (pairs * self.count))
