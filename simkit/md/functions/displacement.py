r"""The mean-square displacement and the diffusion coefficient.

The first is $\langle |x(t_0 + t) - x(t_0)|^2 \rangle$, the second its slope over 6.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from pydantic import Field
from simkit_physics import AbstractBox, unwrapped_paths
from simkit_solvers import Particles, ParticleTotals

from simkit.config.settings.values import NumberOrExpression, Section
from simkit.md.functions.function import (
    OFTEN_TEXT,
    AbstractFunction,
    Every,
    Labelled,
    Place,
    estimated,
    species_axis,
)
from simkit.md.number_notes import joined_notes
from simkit.md.observables.measurement import AbstractMeasurement
from simkit.md.observables.selection import ParticleSelection, squared_distance_of
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable
from simkit.time_series import (
    Correlator,
    Estimate,
    LagTable,
    averages,
    block_sums,
    jackknife,
    no_correlator,
    with_correlator_sample,
)

FITTED = 3  # lags, at least: two would be a line through two points
LEAST = 40  # measurements: of fewer, no three lags lie between a fortieth and a tenth of the run


class DisplacementSettings(Section):
    """The mean-square displacement by species, and the diffusion coefficient."""

    longest: NumberOrExpression | None = Field(
        None,
        description="The longest time that is needed; by default a tenth of the run. Lags are 0 to 15 "
        "intervals, then every fourth up to 60, every 16th up to 240 and so on, to the first of these ends "
        "that is no shorter.",
        examples=[10.0],
    )
    every: Every = Field(None, description=OFTEN_TEXT, examples=[10])


class DisplacementResult(NamedTuple):
    r"""The displacement at each `time`, `(times, species)`, and the diffusion coefficient of each species.

    `fit` is the range of times over which the slope was taken. There the displacement goes as
    $t^{exponent}$, and the note of a species says so where that is not diffusion.
    """

    time: Float[np.ndarray, " times"]
    displacement: Estimate
    diffusion: Estimate
    exponent: Estimate
    fit: tuple[float, float]
    notes: tuple[str | None, ...]


class MeanSquareDisplacement(AbstractMeasurement):
    """The mean-square displacement of each species over many lags and time origins.

    Positions are unwrapped and relative to the centre of mass. At most about `most` particles are followed.
    `interval` is the time between two measurements.
    """

    box: AbstractBox
    selection: ParticleSelection
    lags: LagTable = eqx.field(static=True)
    every: int = eqx.field(static=True)
    interval: float = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        box: AbstractBox,
        particles: Particles,
        *,
        longest: int,
        every: int,
        interval: float = 1.0,
        most: int = 20_000,
    ) -> "MeanSquareDisplacement":
        """For lags of up to `longest` measurements; a tenth of the run is a good choice."""
        selection, lags = ParticleSelection.of(particles, most), LagTable.up_to(longest)
        return cls(box=box, selection=selection, lags=lags, every=every, interval=interval)

    def init(self, particles: Particles) -> Correlator:
        return no_correlator(self.lags, squared_distance_of(self.selection), self._sample(particles))

    def update(
        self, accumulator: Correlator, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> Correlator:
        relation = squared_distance_of(self.selection)
        return with_correlator_sample(accumulator, self.lags, relation, self._sample(particles))

    def _sample(self, particles: Particles) -> Float[Array, "3 selected"]:
        return self.selection.take(unwrapped_paths(self.box, particles))

    def result(
        self, accumulators: Sequence[Correlator], fit: tuple[float, float] | None = None
    ) -> DisplacementResult:
        """The estimates. Without `fit`, times from a fortieth to a tenth of the run are fitted.

        Raises `ValueError` if fewer than three lags are in the range.
        """
        sums = block_sums([each.sums for each in accumulators])
        time = self.interval * self.lags.distinct
        length = self.interval * int(accumulators[0].seen)
        fit = (length / 40, min(length / 10, time[-1])) if fit is None else fit
        inside = _between(time, fit)
        if inside.sum() < FITTED:
            raise ValueError(
                f"the diffusion coefficient is fitted to lags from {fit[0]:g} to {fit[1]:g}, of which there "
                f"are {inside.sum()}, at least {FITTED} are needed: run longer or measure more often"
            )

        def displacement(sums, samples):
            return averages(self.lags, sums)

        def diffusion(sums, samples):
            return np.polyfit(time[inside], averages(self.lags, sums)[inside], 1)[0] / 6

        def exponent(sums, samples):
            return np.polyfit(np.log(time[inside]), np.log(averages(self.lags, sums)[inside]), 1)[0]

        growth = jackknife(sums, exponent)
        return DisplacementResult(
            time,
            jackknife(sums, displacement),
            jackknife(sums, diffusion),
            growth,
            fit,
            tuple(_notes(growth, fit)),
        )


def fitted_lags(longest: int, samples: int) -> int:
    """How many lags up to `longest` are fitted after this number of samples; a result needs 3."""
    return int(_between(LagTable.up_to(longest).distinct, (samples / 40, samples / 10)).sum())


def _between(time: np.ndarray, fit: tuple[float, float]) -> Bool[np.ndarray, " times"]:
    return (time >= fit[0] * (1 - 1e-9)) & (time <= fit[1] * (1 + 1e-9)) & (time > 0)


def _notes(exponent: Estimate, fit: tuple[float, float]) -> Iterator[str | None]:
    """Of each species, where its slope is no diffusion coefficient."""
    doubted = np.abs(exponent.value - 1) > np.fmax(0.1, 3 * exponent.stderr)
    for power, doubt in zip(np.round(exponent.value, 2) + 0.0, doubted, strict=True):
        how = "grows as t^{:.2f}, not as t" if power > 0 else "does not grow (it goes as t^{:.2f})"
        note = (
            f"from t = {fit[0]:g} to {fit[1]:g} the displacement {how.format(power)}: "
            "this slope is no diffusion coefficient; run longer, or fit later times"
        )
        yield note if doubt else None


@dataclasses.dataclass(frozen=True)
class Displacement(AbstractFunction):
    """The displacement of each species up to `lags` measurements later."""

    key = "msd"
    settings = DisplacementSettings
    example: ClassVar = {"longest": 10.0}

    lags: int
    interval: float

    @classmethod
    def planned(cls, place: Place, settings: DisplacementSettings, system: ParticleSystem) -> "Displacement":
        every = place.every(settings, system)
        interval, measured = every * system.run.dt, system.run.steps // every
        if system.ensemble == "none":
            place.fail(f"needs motion, and {type(system.run.method).__name__} minimises")
        if measured < LEAST:
            place.fail(f"needs {LEAST} measurements, got {measured}; take more steps, or a smaller every")
        lags = measured // 10
        if settings.longest is not None:
            longest = place.positive("longest", settings.longest)
            lags = round(longest / interval)
            if not 4 <= lags <= measured:
                text = f"must be from {4 * interval:g} to {measured * interval:g}, got {longest:g}"
                place.fail(text, "longest")
            samples = measured + 1
            if fitted_lags(lags, samples) < FITTED:
                least = next(n for n in range(lags, measured) if fitted_lags(n, samples) >= FITTED)
                text = (
                    f"must be at least {least * interval:g} for a diffusion coefficient, which is fitted "
                    f"from a fortieth to a tenth of the run, got {longest:g}"
                )
                place.fail(text, "longest")
        return cls(place.name, every, lags, interval)

    def measurement(self, system: ParticleSystem, particles: Particles) -> MeanSquareDisplacement:
        return MeanSquareDisplacement.of(
            system.box, particles, longest=self.lags, every=self.every, interval=self.interval
        )

    def labelled(self, system: ParticleSystem, result: DisplacementResult) -> Labelled:
        name, units, axis = self.name, system.units, f"{self.name}_lag"
        species, kinds = species_axis(system)
        coordinates = {axis: variable((axis,), result.time, units.label("time"), "lag"), species: kinds}
        square = units.label("length^2")
        text = "mean-square displacement"
        variables = estimated(name, (axis, species), result.displacement, square, text)
        number = f"{name}_diffusion"
        rate = units.label("length^2/time")
        text = "diffusion coefficient"
        variables |= estimated(number, (species,), result.diffusion, rate, text)
        variables[number][2]["fitted_from"], variables[number][2]["fitted_to"] = map(float, result.fit)
        if note := joined_notes(system.names, result.notes):
            variables[number][2]["note"] = note
        text = "power of time as which the displacement goes in the fitted range"
        variables |= estimated(f"{name}_exponent", (species,), result.exponent, "1", text)
        return Labelled(variables, coordinates, (number,))
