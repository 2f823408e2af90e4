"""Means and drifts of numbers that belong to the whole system: energies, temperature, pressure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int
from simkit_solvers import Particles, ParticleTotals

from simkit.md.observables.measurement import AbstractMeasurement
from simkit.time_series import (
    Blocks,
    Estimate,
    Levels,
    estimated_mean,
    no_blocks,
    no_levels,
    slope,
    with_block_sample,
    with_level_sample,
)


class ScalarSums(NamedTuple):
    levels: Levels
    blocks: Blocks


class ScalarResult(NamedTuple):
    """The mean of each number, and its drift per unit of time: arrays in the order of the names."""

    mean: Estimate
    drift: Estimate


class ScalarSeries(AbstractMeasurement):
    """Numbers of a system, `of(particles, totals)`, in the order of `names`; `interval` is that in time.

    For example the total energy, whose drift says how well a run at constant energy conserves it:
    `ScalarSeries(("energy",), lambda particles, totals: [totals.energy], every=10, interval=0.05)`.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    of: Callable[[Particles, ParticleTotals], Sequence[jax.Array]] = eqx.field(static=True)
    every: int = eqx.field(static=True)
    interval: float = eqx.field(static=True, default=1.0)

    def init(self, particles: Particles) -> ScalarSums:
        return ScalarSums(no_levels(len(self.names)), no_blocks(jnp.zeros(len(self.names), jnp.float64)))

    def update(
        self, accumulator: ScalarSums, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> ScalarSums:
        sample = jnp.stack([jnp.asarray(x, jnp.float64) for x in self.of(particles, totals)])
        levels = with_level_sample(accumulator.levels, sample)
        # Deviations from the first sample: a small drift of a large number keeps its digits.
        blocks = with_block_sample(accumulator.blocks, sample - levels.origin)
        return ScalarSums(levels, blocks)

    def result(self, accumulators: Sequence[ScalarSums]) -> ScalarResult:
        means = estimated_mean([each.levels for each in accumulators])
        return ScalarResult(means, slope([each.blocks for each in accumulators], self.interval))
