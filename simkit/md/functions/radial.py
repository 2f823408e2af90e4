"""The radial distribution function in the section `observe`."""

import dataclasses

import numpy as np
from simkit_solvers import Particles

from simkit.config.settings.particle_observe import RadialSettings
from simkit.md.functions.function import SELDOM, AbstractFunction, Labelled, Place, estimated
from simkit.md.observables import RadialDistribution, RadialResult
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable


@dataclasses.dataclass(frozen=True)
class RadialFunction(AbstractFunction):
    """g(r) by pairs of species, in `bins` bins up to `longest`."""

    bins: int
    longest: float

    @classmethod
    def planned(cls, place: Place, settings: RadialSettings, system: ParticleSystem) -> "RadialFunction":
        longest, widths = place.positive("max", settings.max), place.in_a_box(system)
        if longest > min(widths) / 2:
            half = f"{min(widths) / 2:.6g}, half the least width of the box"
            place.fail(f"must be at most {half}, got {longest:g}", "max")
        return cls(place.name, place.every(settings, system, SELDOM), settings.bins, longest)

    def measurement(self, system: ParticleSystem, particles: Particles) -> RadialDistribution:
        return RadialDistribution.of(
            system.box, particles, largest=self.longest, bins=self.bins, every=self.every
        )

    def labelled(self, system: ParticleSystem, result: RadialResult) -> Labelled:
        names, name = system.names, self.name
        pairs = np.array([f"{names[a]}-{names[b]}" for a, b in result.pairs], object)
        pair, middle, edge = f"{name}_pair", f"{name}_r", f"{name}_edge"
        length = system.units.label("length")
        coordinates = {
            pair: variable((pair,), pairs, "1", "pair of species"),
            middle: variable((middle,), result.r, length, "distance in the middle of a bin"),
            edge: variable((edge,), result.edges[1:], length, "distance at the outer end of a bin"),
        }
        variables = estimated(name, (pair, middle), result.g, "1", "radial distribution function")
        text = "mean number of the second species within that distance of one of the first"
        variables |= estimated(f"{name}_coordination", (pair, edge), result.coordination, "1", text)
        return Labelled(variables, coordinates)
