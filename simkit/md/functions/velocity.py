r"""The velocity autocorrelation and its spectrum.

The autocorrelation is $C(t) = \langle v(t_0) \cdot v(t_0 + t) \rangle$. The spectrum is the density of
vibrations, $S(\nu) = 4 \int_0^\infty C(t)/C(0) \cos(2 \pi \nu t)\,dt$, whose integral over positive
frequencies is 1; and $D = \frac13 \int_0^\infty C(t)\,dt$.

Reference: Dickey & Paskin (1969), Computer simulation of the lattice dynamics of solids,
doi:10.1103/PhysRev.188.1407.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int
from pydantic import Field
from simkit_physics import peculiar_velocities
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
from simkit.md.observables.selection import ParticleSelection, product_of
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

LAGS = 200


class VelocitySettings(Section):
    """The velocity autocorrelation by species, and its spectrum."""

    longest: NumberOrExpression | None = Field(
        None, description="The longest time; by default 200 measurements.", examples=[2.0]
    )
    every: Every = Field(None, description=OFTEN_TEXT, examples=[2])


class VelocityResult(NamedTuple):
    """C at each `time` and the spectrum at each `frequency`, arrays with an axis of species behind.

    `diffusion` is the integral of C to the last time, over 3. The note of a species says so where
    its C has not decayed by then.
    """

    time: Float[np.ndarray, " times"]
    correlation: Estimate
    frequency: Float[np.ndarray, " times"]
    spectrum: Estimate
    diffusion: Estimate
    notes: tuple[str | None, ...]


class VelocityAutocorrelation(AbstractMeasurement):
    """C(t) of each species at equally spaced lags, over all time origins.

    Velocities are relative to the centre of mass. At most about `most` particles are followed: each
    measurement costs as much as `lags` scalar products of all their velocities. `interval` is the time
    between two measurements.
    """

    selection: ParticleSelection
    lags: LagTable = eqx.field(static=True)
    every: int = eqx.field(static=True)
    interval: float = eqx.field(static=True)

    @classmethod
    def of(
        cls, particles: Particles, *, lags: int = 200, every: int, interval: float = 1.0, most: int = 4096
    ) -> "VelocityAutocorrelation":
        selection = ParticleSelection.of(particles, most)
        return cls(selection=selection, lags=LagTable(1, lags), every=every, interval=interval)

    def init(self, particles: Particles) -> Correlator:
        return no_correlator(self.lags, product_of(self.selection), self._sample(particles))

    def update(
        self, accumulator: Correlator, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> Correlator:
        relation = product_of(self.selection)
        return with_correlator_sample(accumulator, self.lags, relation, self._sample(particles))

    def _sample(self, particles: Particles) -> Float[Array, "3 selected"]:
        return self.selection.take(peculiar_velocities(particles))

    def result(self, accumulators: Sequence[Correlator]) -> VelocityResult:
        sums = block_sums([each.sums for each in accumulators])

        def correlation(sums, samples):
            return averages(self.lags, sums)

        def spectrum(sums, samples):
            return cosine_spectrum(averages(self.lags, sums), self.interval)

        def diffusion(sums, samples):
            return np.trapezoid(averages(self.lags, sums), dx=self.interval, axis=0) / 3

        def second_half(sums, samples):
            return np.trapezoid(averages(self.lags, sums)[last // 2 :], dx=self.interval, axis=0) / 3

        last = self.lags.lags - 1
        integral = jackknife(sums, diffusion)
        return VelocityResult(
            self.interval * np.arange(last + 1),
            jackknife(sums, correlation),
            np.arange(last + 1) / (2 * last * self.interval),
            jackknife(sums, spectrum),
            integral,
            _notes(integral, jackknife(sums, second_half), self.interval * last),
        )


def _notes(integral: Estimate, second_half: Estimate, end: float) -> tuple[str | None, ...]:
    """Of each species, where its integral is no diffusion coefficient."""
    part = np.abs(second_half.value)
    doubted = part > np.fmax(0.05 * np.abs(integral.value), 3 * second_half.stderr)
    text = (
        f"the velocities are still correlated at the last lag, t = {end:g}: this integral is no diffusion "
        "coefficient; take a larger longest"
    )
    return tuple(text if doubt else None for doubt in doubted)


def cosine_spectrum(
    correlation: Float[np.ndarray, "times ..."], interval: float
) -> Float[np.ndarray, "times ..."]:
    r"""$S(\nu)$ at the frequencies $k / 2T$, where the last time is T.

    The end of the correlation is smoothed by Hann's window $\cos^2(\pi t / 2T)$, which makes lines 1/T wide.
    """
    count = len(correlation)
    column = (-1, *(1,) * (correlation.ndim - 1))
    window = np.cos(np.pi / 2 * np.arange(count) / (count - 1)) ** 2
    normal = correlation / correlation[0] * window.reshape(column)
    both = np.concatenate([normal, normal[-2:0:-1]])
    return 2 * interval * np.fft.rfft(both, axis=0).real


@dataclasses.dataclass(frozen=True)
class VelocityFunction(AbstractFunction):
    """C(t) at `lags` lags."""

    key = "vacf"
    settings = VelocitySettings
    example: ClassVar = {"longest": 2.0, "every": 2}

    lags: int
    interval: float

    @classmethod
    def planned(cls, place: Place, settings: VelocitySettings, system: ParticleSystem) -> "VelocityFunction":
        place.refuse_without_motion(system)
        every = place.every(settings, system)
        interval, measured = every * system.run.dt, system.run.steps // every
        lags = min(LAGS, measured // 4 + 1)
        if settings.longest is not None:
            longest = place.positive("longest", settings.longest)
            lags = round(longest / interval) + 1
            if not 3 <= lags <= measured:
                text = f"must be from {2 * interval:g} to {(measured - 1) * interval:g}, got {longest:g}"
                place.fail(text, "longest")
        if lags < 3:
            place.fail(f"needs 8 measurements, got {measured}; take more steps, or a smaller every")
        return cls(place.name, every, lags, interval)

    def measurement(self, system: ParticleSystem, particles: Particles) -> VelocityAutocorrelation:
        return VelocityAutocorrelation.of(particles, lags=self.lags, every=self.every, interval=self.interval)

    def labelled(self, system: ParticleSystem, result: VelocityResult) -> Labelled:
        name, units = self.name, system.units
        lag, frequency = f"{name}_lag", f"{name}_frequency"
        species, kinds = species_axis(system)
        time, rate = units.label("time"), units.label("1/time")
        coordinates = {
            lag: variable((lag,), result.time, time, "lag"),
            frequency: variable((frequency,), result.frequency, rate, "frequency"),
            species: kinds,
        }
        square = units.label("length^2/time^2")
        variables = estimated(name, (lag, species), result.correlation, square, "velocity autocorrelation")
        text = "spectrum of the velocity autocorrelation, whose integral is 1"
        variables |= estimated(f"{name}_spectrum", (frequency, species), result.spectrum, time, text)
        number, text = f"{name}_diffusion", "diffusion coefficient, the integral of the correlation over 3"
        variables |= estimated(number, (species,), result.diffusion, units.label("length^2/time"), text)
        if note := joined_notes(system.names, result.notes):
            variables[number][2]["note"] = note
        return Labelled(variables, coordinates, (number,))
