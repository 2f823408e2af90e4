r"""Sums over pairs of times: correlation functions and displacements, in one pass and bounded memory.

Level l keeps every $m^l$-th sample, the last p of them, and relates each new one to them. So lags are 0, 1,
…, p - 1, then multiples of m up to m (p - 1), and so on; a lag has a relative resolution of m/p, and time
origins at least so close. Samples are kept as they are, not averaged: the value at each lag is without bias.
With one level it is the plain correlation with all time origins.

References: Ramírez, Sukumaran, Vorselaars & Likhtman (2010), doi:10.1063/1.3491098; Dubbeldam, Ford, Ellis &
Snurr (2009), A new perspective on the order-n algorithm for computing correlation functions,
doi:10.1080/08927020902818039.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from simkit.time_series import blocks
from simkit.time_series.blocks import Blocks


class LagTable(NamedTuple):
    """Which lags there are: `levels` of `lags` each, each level `factor` times as coarse as the last."""

    levels: int
    lags: int = 16
    factor: int = 4

    @classmethod
    def up_to(cls, longest: int, lags: int = 16, factor: int = 4) -> "LagTable":
        """The fewest levels that reach a lag of `longest` samples."""
        levels = 1
        while (lags - 1) * factor ** (levels - 1) < longest:
            levels += 1
        return cls(levels, lags, factor)

    @property
    def table(self) -> Int[np.ndarray, "levels lags"]:
        return np.arange(self.lags) * self.factor ** np.arange(self.levels)[:, None]

    @property
    def own(self) -> np.ndarray:
        """Where in the table a lag stands first: coarser levels repeat shorter ones."""
        first = np.arange(self.lags) >= -(-self.lags // self.factor)
        return np.vstack([np.ones((1, self.lags), bool), np.tile(first, (self.levels - 1, 1))])

    @property
    def distinct(self) -> Int[np.ndarray, " distinct"]:
        """All lags in their order, in samples."""
        return self.table[self.own]


class LagSums(NamedTuple):
    """Sums over pairs of times, and how many: of each block, axes (block, level, lag, ...)."""

    total: Array
    pairs: Int[Array, "levels lags"]


class Correlator(NamedTuple):
    """The samples that later ones are still related to, and the sums so far."""

    seen: Int[Array, ""]
    kept: Float[Array, "levels lags ..."]
    sums: Blocks


Relation = Callable[[jax.Array, jax.Array], jax.Array]


def no_correlator(lags: LagTable, relation: Relation, sample: jax.Array) -> Correlator:
    """The state that has seen nothing, for samples like this one and `relation(now, then)` of two of them."""
    shape = (lags.levels, lags.lags)
    related = jax.eval_shape(relation, sample, sample)
    total = jnp.zeros((*shape, *related.shape), jnp.float64)
    sums = blocks.no_blocks(LagSums(total, jnp.zeros(shape, jnp.int64)))
    kept = jnp.zeros((*shape, *sample.shape), sample.dtype)
    return Correlator(jnp.zeros((), jnp.int64), kept, sums)


def with_correlator_sample(
    state: Correlator, lags: LagTable, relation: Relation, sample: jax.Array
) -> Correlator:
    """The state after one more sample."""
    number, (levels, count, factor) = state.seen, lags
    ago = jnp.arange(count, dtype=jnp.int64)

    def keeps(carry):
        level, period = carry[:2]
        return (level < levels) & (number % period == 0)

    def relate(carry):
        level, period, kept, sums = carry
        own = number // period
        kept = kept.at[level, own % count].set(sample)

        def with_past(t):
            return relation(sample, kept[level, (own - t) % count]).astype(jnp.float64)

        there = ago <= own
        related = lax.map(with_past, ago)
        related = jnp.where(there.reshape(-1, *(1,) * (related.ndim - 1)), related, 0)
        sums = LagSums(sums.total.at[level].set(related), sums.pairs.at[level].set(there.astype(jnp.int64)))
        return level + 1, period * factor, kept, sums

    blank = jax.tree.map(lambda a: jnp.zeros(a.shape[1:], a.dtype), state.sums.sums)
    start = (jnp.int64(0), jnp.int64(1), state.kept, blank)
    _, _, kept, sums = lax.while_loop(keeps, relate, start)
    return Correlator(number + 1, kept, blocks.with_block_sample(state.sums, sums))


def averages(lags: LagTable, sums: LagSums) -> Float[np.ndarray, "distinct ..."]:
    """The mean of the relation at each of the distinct lags; NaN where there are no pairs."""
    total, pairs = np.asarray(sums.total)[lags.own], np.asarray(sums.pairs)[lags.own]
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / pairs.reshape(-1, *(1,) * (total.ndim - 1))
