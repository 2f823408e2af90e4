"""Heat capacity and compressibility from fluctuations in the section `observe`."""

import dataclasses

from simkit_solvers import Particles

from simkit.config.settings.particles import FluctuationSettings
from simkit.md.functions.function import AbstractFunction, Labelled, Place, estimated
from simkit.md.observables import FluctuationResult, Fluctuations
from simkit.md.simulation import ParticleSystem
from simkit.time_series import Estimate

COMPRESSIBILITIES = {"NVE": "adiabatic", "NVT": "isothermal"}


@dataclasses.dataclass(frozen=True)
class FluctuationFunctions(AbstractFunction):
    """The heat capacity per particle, and in a box the compressibility, by the formula of the ensemble."""

    @classmethod
    def planned(
        cls, place: Place, settings: FluctuationSettings, system: ParticleSystem
    ) -> "FluctuationFunctions":
        if system.ensemble not in COMPRESSIBILITIES:
            place.fail(
                "is known at constant energy or temperature; take VelocityVerlet, BAOAB, NoseHooverChains or "
                f"StochasticVelocityRescaling, not {type(system.run.method).__name__}"
            )
        return cls(place.name, place.every(settings, system))

    def measurement(self, system: ParticleSystem, particles: Particles) -> Fluctuations:
        in_box = {} if system.widths is None else {"box": system.box, "potential": system.potential}
        return Fluctuations.of(
            particles,
            ensemble=system.ensemble,
            freedom=system.freedom,
            every=self.every,
            boltzmann=system.units.boltzmann,
            **in_box,
        )

    def labelled(self, system: ParticleSystem, result: FluctuationResult) -> Labelled:
        count, units = system.particles.count, system.units
        number = f"{self.name}_heat_capacity"
        of_each = _scaled(result.heat_capacity, 1 / count)
        unit = units.label("energy/temperature")
        variables = estimated(number, (), of_each, unit, "heat capacity at constant volume per particle")
        if result.compressibility is None:
            return Labelled(variables, {}, (number,))
        second = f"{self.name}_compressibility"
        text = f"{COMPRESSIBILITIES[system.ensemble]} compressibility"
        value = _scaled(result.compressibility, 1 / units.pressure)
        variables |= estimated(second, (), value, units.label("1/pressure"), text)
        return Labelled(variables, {}, (number, second))


def _scaled(found: Estimate, factor: float) -> Estimate:
    return found._replace(value=found.value * factor, stderr=found.stderr * factor)
