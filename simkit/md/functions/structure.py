"""The static structure factor in the section `observe`."""

import dataclasses

from simkit_solvers import Particles

from simkit.config.settings.particle_observe import StructureSettings
from simkit.md.functions.function import SELDOM, AbstractFunction, Labelled, Place, estimated
from simkit.md.observables import StructureFactor, StructureResult
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable


@dataclasses.dataclass(frozen=True)
class StructureFunction(AbstractFunction):
    """S(k) of all particles up to the wave number `longest`."""

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
