"""The velocity autocorrelation and its spectrum in the section `observe`."""

import dataclasses

from simkit_solvers import Particles

from simkit.config.settings.particle_observe import VelocitySettings
from simkit.md.functions.function import AbstractFunction, Labelled, Place, estimated, species_axis
from simkit.md.observables import VelocityAutocorrelation, VelocityResult
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable

LAGS = 200


@dataclasses.dataclass(frozen=True)
class VelocityFunction(AbstractFunction):
    """C(t) at `lags` lags."""

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
        if result.note:
            variables[number][2]["note"] = result.note
        return Labelled(variables, coordinates, (number,))
