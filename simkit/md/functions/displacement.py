"""The mean-square displacement and the diffusion coefficient in the section `observe`."""

import dataclasses

from simkit_solvers import Particles

from simkit.config.settings.particle_observe import DisplacementSettings
from simkit.md.functions.function import AbstractFunction, Labelled, Place, estimated, species_axis
from simkit.md.observables import FITTED, DisplacementResult, MeanSquareDisplacement, fitted_lags
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable

LEAST = 40  # measurements: of fewer, no three lags lie between a fortieth and a tenth of the run


@dataclasses.dataclass(frozen=True)
class Displacement(AbstractFunction):
    """The displacement of each species up to `lags` measurements later."""

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
        if result.note:
            variables[number][2]["note"] = result.note
        text = "power of time with which the displacement grows in the fitted range"
        variables |= estimated(f"{name}_exponent", (species,), result.exponent, "1", text)
        return Labelled(variables, coordinates, (number,))
