"""The static structure factor at the wave vectors of the box, with the error at each wave number."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from pydantic import Field
from simkit_physics import AbstractBox, AbstractPeriodicBox, WaveVectors, density_squares, wave_vectors
from simkit_solvers import Particles, ParticleTotals

from simkit.config.settings.values import NumberOrExpression, Section
from simkit.md.functions.function import (
    SELDOM,
    SELDOM_TEXT,
    AbstractFunction,
    Every,
    Labelled,
    Place,
    estimated,
)
from simkit.md.observables.measurement import AbstractMeasurement
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable
from simkit.time_series import Blocks, Estimate, block_sums, no_blocks, of_blocks, with_block_sample


class StructureSettings(Section):
    """The static structure factor S(k)."""

    max: NumberOrExpression = Field(description="The largest wave number.", examples=[15.0])
    every: Every = Field(None, description=SELDOM_TEXT, examples=[100])


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


@dataclasses.dataclass(frozen=True)
class StructureFunction(AbstractFunction):
    """S(k) of all particles up to the wave number `longest`."""

    key = "structure_factor"
    settings = StructureSettings
    example: ClassVar = {"max": 15.0}

    longest: float

    @classmethod
    def planned(
        cls, place: Place, settings: StructureSettings, system: ParticleSystem
    ) -> "StructureFunction":
        longest, every = place.positive("max", settings.max), place.every(settings, system, SELDOM)
        place.in_a_box(system)
        try:
            StructureFactor.of(system.box, largest=longest, every=every)
        except ValueError as error:
            place.fail(str(error), "max")
        return cls(place.name, every, longest)

    def measurement(self, system: ParticleSystem, particles: Particles) -> StructureFactor:
        return StructureFactor.of(system.box, largest=self.longest, every=self.every)

    def labelled(self, system: ParticleSystem, result: StructureResult) -> Labelled:
        axis = f"{self.name}_k"
        unit = system.units.label("1/length")
        coordinates = {axis: variable((axis,), result.k, unit, "wave number")}
        variables = estimated(self.name, (axis,), result.factor, "1", "static structure factor")
        what = "wave vectors of that length"
        variables[f"{self.name}_vectors"] = variable((axis,), result.vectors, "1", what)
        return Labelled(variables, coordinates)
