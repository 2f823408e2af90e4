"""Heat capacity and compressibility from fluctuations in the section `observe`."""

import dataclasses

from simkit_physics.particles.potentials.truncation import TRUNCATIONS
from simkit_solvers import Particles

from simkit.config.settings.particle_observe import FluctuationSettings
from simkit.md.functions.function import AbstractFunction, Labelled, Place, estimated
from simkit.md.observables import FluctuationResult, Fluctuations
from simkit.md.simulation import ParticleSystem, temperature_changes
from simkit.time_series import Estimate

COMPRESSIBILITIES = {"NVE": "adiabatic", "NVT": "isothermal"}


@dataclasses.dataclass(frozen=True)
class FluctuationFunctions(AbstractFunction):
    """The heat capacity per particle, and in a box the compressibility, by the formula of the ensemble.

    `missing` says why there is no compressibility in a box, and is empty where there is one.
    """

    missing: str

    @classmethod
    def planned(
        cls, place: Place, settings: FluctuationSettings, system: ParticleSystem
    ) -> "FluctuationFunctions":
        if system.ensemble not in COMPRESSIBILITIES:
            place.fail(
                "is known at constant energy or temperature; take VelocityVerlet, BAOAB, NoseHooverChains or "
                f"StochasticVelocityRescaling, not {type(system.run.method).__name__}"
            )
        if temperature_changes(system.run.method):
            place.fail(
                "needs a constant temperature, and that of the solver follows a curve; let a stage follow "
                "it, and give the run the temperature at its end"
            )
        return cls(place.name, place.every(settings, system), _missing(system))

    def measurement(self, system: ParticleSystem, particles: Particles) -> Fluctuations:
        with_pressure = system.widths is not None and not self.missing
        in_box = {"box": system.box, "potential": system.potential} if with_pressure else {}
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
            if self.missing:
                variables[number][2]["note"] = self.missing
            return Labelled(variables, {}, (number,))
        second = f"{self.name}_compressibility"
        text = f"{COMPRESSIBILITIES[system.ensemble]} compressibility"
        value = _scaled(result.compressibility, 1 / units.pressure)
        variables |= estimated(second, (), value, units.label("1/pressure"), text)
        return Labelled(variables, {}, (number, second))


def _missing(system: ParticleSystem) -> str:
    """Why the fluctuations of this system's pressure give no compressibility; empty where they do.

    A jump of the force at the cutoff adds a term with g(r) there to the hypervirial, and a tail twice its
    pressure to the inverse; both would be left out.
    """
    if system.widths is None:
        return ""
    half, cutoff = min(system.widths) / 2, float(system.potential.cutoff)
    reason = ""
    if system.potential.force_jumps:
        name = {kind: name for name, kind in TRUNCATIONS.items()}[type(system.potential)]
        reason = f"with truncation: {name} the force jumps at the cutoff; take shifted_force or switched"
    elif any(system.tail):
        reason = "it would lack what lies beyond the cutoff; take tail: false"
    elif cutoff > half:
        reason = (
            f"the cutoff {cutoff:g} is more than {half:.6g}, half the least width of the box; "
            "take a larger box, or a smaller cutoff"
        )
    return f"no compressibility: {reason}" if reason else ""


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return estimate._replace(value=estimate.value * factor, stderr=estimate.stderr * factor)
