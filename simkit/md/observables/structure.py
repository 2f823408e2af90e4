"""The static structure factor at the wave vectors of the box, with the error at each wave number."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from simkit_physics import AbstractBox, AbstractPeriodicBox, WaveVectors, density_squares, wave_vectors
from simkit_solvers import Particles, ParticleTotals

from simkit.md.observables.measurement import AbstractMeasurement
from simkit.time_series import Blocks, Estimate, block_sums, no_blocks, of_blocks, with_block_sample


class StructureResult(NamedTuple):
    """S at each wave number, on average over the `vectors` of that length."""

    k: Float[np.ndarray, " shells"]
    vectors: Int[np.ndarray, " shells"]
    factor: Estimate


class StructureFactor(AbstractMeasurement):
    """S(k) of all particles, at every wave number of the box up to `largest`."""

    box: AbstractPeriodicBox
    vectors: WaveVectors = eqx.field(static=True)
    every: int = eqx.field(static=True)

    @classmethod
    def of(cls, box: AbstractBox, *, largest: float, every: int = 100) -> "StructureFactor":
        """`ValueError` for a free box, or one without wave vectors up to `largest`."""
        vectors = wave_vectors(box, largest)
        assert isinstance(box, AbstractPeriodicBox)
        return cls(box=box, vectors=vectors, every=every)

    def init(self, particles: Particles) -> Blocks:
        return no_blocks(jnp.zeros(self.vectors.shells, jnp.float64))

    def update(
        self, accumulator: Blocks, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> Blocks:
        squares = density_squares(self.vectors, self.box, particles)
        return with_block_sample(accumulator, squares.astype(jnp.float64))

    def result(self, accumulators: Sequence[Blocks]) -> StructureResult:
        sums = block_sums(accumulators)
        value = sums.everything / sums.samples
        factor = of_blocks(value, sums.complete / sums.length, sums.length, sums.samples)
        return StructureResult(self.vectors.wave_numbers, self.vectors.multiplicity, factor)
