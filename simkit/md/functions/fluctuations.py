"""Heat capacity and compressibility from fluctuations, by the formula of the ensemble."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from pydantic import Field
from simkit_physics import (
    AbstractBox,
    ClusterGrid,
    adiabatic_compressibility,
    block_grid,
    box_volume,
    constant_energy_heat_capacity,
    constant_volume_heat_capacity,
    hypervirial,
    isothermal_compressibility,
)
from simkit_physics.particles.potentials.truncation import TRUNCATIONS
from simkit_solvers import Particles, ParticleTotals

from simkit.config.settings.values import Section
from simkit.md.functions.function import (
    OFTEN_TEXT,
    AbstractFunction,
    Every,
    Labelled,
    Place,
    estimated,
)
from simkit.md.observables.measurement import AbstractMeasurement
from simkit.md.observables.moments import DeviationSums, MomentSums, centred, mean_and_covariance
from simkit.md.simulation import ParticleSystem, temperature_changes
from simkit.time_series import Estimate, block_sums, jackknife, no_blocks, with_block_sample

KINETIC, POTENTIAL, VIRIAL, HYPERVIRIAL = range(4)
# What fluctuates, of these four; the last, over the volume, is the pressure.
OF_KINETIC, OF_ENERGY, OF_VIRIAL, OF_PRESSURE = np.array(
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [2 / 3, 0, 1, 0]]
)
COMPRESSIBILITIES = {"NVE": "adiabatic", "NVT": "isothermal"}
RESTLESS = "at equilibrium the value is positive; equilibrate in a stage before the run, or run longer"


class FluctuationSettings(Section):
    """Heat capacity per particle, and in a box the compressibility, from fluctuations.

    The compressibility needs truncation shifted_force or switched, no tail, and a box two cutoffs wide.
    """

    every: Every = Field(None, description=OFTEN_TEXT, examples=[10])


class FluctuationResult(NamedTuple):
    r"""`heat_capacity` is $C_V$ of the whole system; the compressibility is $\kappa_T$ in NVT and $\kappa_S$
    in NVE, and `None` of a system without a box.
    """

    heat_capacity: Estimate
    compressibility: Estimate | None


class Fluctuations(AbstractMeasurement):
    """Fluctuations of the kinetic and potential energy and of the virial of a system.

    `ensemble` is that of the method: NVE or NVT; elsewhere these formulas do not hold and a `ValueError` says
    so. `freedom` are its degrees of freedom. For the compressibility, `potential` is the truncated one of
    the forces, which must be continuous at the cutoff: `ShiftedForce` or `Switched`.
    """

    ensemble: str = eqx.field(static=True)
    freedom: int = eqx.field(static=True)
    every: int = eqx.field(static=True)
    boltzmann: float = eqx.field(static=True)
    box: AbstractBox | None
    potential: Any
    grid: ClusterGrid | None = eqx.field(static=True)
    atoms: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        particles: Particles,
        *,
        ensemble: str,
        freedom: int,
        every: int = 10,
        boltzmann: float = 1.0,
        box: AbstractBox | None = None,
        potential: Any = None,
    ) -> "Fluctuations":
        """With `box` and `potential` the compressibility too; `ValueError` for a free box."""
        if ensemble not in ("NVE", "NVT"):
            raise ValueError(
                "heat capacity and compressibility from fluctuations are known at constant energy (NVE) or "
                f"temperature (NVT), and this method samples {ensemble!r}: use VelocityVerlet, BAOAB, "
                "NoseHooverChains or StochasticVelocityRescaling"
            )
        if (box is None) != (potential is None):
            raise ValueError("a compressibility needs both `box` and `potential`")
        if box is not None:
            box_volume(box)
        grid = None if box is None else block_grid(box, particles)
        return cls(
            ensemble=ensemble,
            freedom=freedom,
            every=every,
            boltzmann=boltzmann,
            box=box,
            potential=_as_arrays(potential, particles.position.x.dtype),
            grid=grid,
            atoms=particles.count,
        )

    def init(self, particles: Particles) -> DeviationSums:
        origin = jnp.zeros(4, jnp.float64)
        return DeviationSums(origin, no_blocks(MomentSums(origin, jnp.zeros((4, 4), jnp.float64))))

    def update(
        self,
        accumulator: DeviationSums,
        particles: Particles,
        totals: ParticleTotals,
        step: Int[Array, ""],
    ) -> DeviationSums:
        second = jnp.zeros(())
        if self.box is not None and self.grid is not None:
            second = hypervirial(self.grid, self.box, self.potential, particles)
        parts = totals.kinetic_energy, totals.potential, totals.virial.trace / 3, second
        sample = jnp.stack([x.astype(jnp.float64) for x in parts])
        origin = jnp.where(accumulator.moments.seen == 0, sample, accumulator.origin)
        d = sample - origin
        return DeviationSums(origin, with_block_sample(accumulator.moments, MomentSums(d, d[:, None] * d)))

    def result(self, accumulators: Sequence[DeviationSums]) -> FluctuationResult:
        """The estimates from all replicas.

        At constant energy each replica has an energy of its own, so its fluctuations are those about its own
        mean; a bath gives all replicas the same mean.
        """
        origin = np.asarray(accumulators[0].origin)
        separate = self.ensemble == "NVE"
        sums = block_sums([centred(each, origin, separate) for each in accumulators])
        centres = len(accumulators) if separate else 1

        def estimate(function, fluctuating: np.ndarray) -> Estimate:
            found = jackknife(
                sums,
                lambda m, n: function(*mean_and_covariance(m, n, origin, centres)),
                about=lambda m, n: m.moments.first @ fluctuating / n,
            )
            if found.value > 0:
                return found
            return found._replace(stderr=np.full_like(found.value, np.nan), reason=f"unknown: {RESTLESS}")

        of_energy, of_virial = (OF_KINETIC, OF_PRESSURE) if separate else (OF_ENERGY, OF_VIRIAL)
        heat_capacity = estimate(self._heat_capacity, of_energy)
        if self.box is None:
            return FluctuationResult(heat_capacity, None)
        return FluctuationResult(heat_capacity, estimate(self._compressibility, of_virial))

    def _thermal_energy(self, mean: np.ndarray) -> float:
        return 2 * mean[KINETIC] / self.freedom

    def _heat_capacity(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        if self.ensemble == "NVE":
            kinetic = mean[KINETIC], covariance[KINETIC, KINETIC]
            return constant_energy_heat_capacity(*kinetic, self.freedom, self.boltzmann)
        energy = OF_ENERGY @ covariance @ OF_ENERGY
        return constant_volume_heat_capacity(
            energy, self._thermal_energy(mean) / self.boltzmann, self.boltzmann
        )

    def _compressibility(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        assert self.box is not None
        volume, thermal = box_volume(self.box), self._thermal_energy(mean)
        if self.ensemble == "NVT":
            virial = mean[VIRIAL], covariance[VIRIAL, VIRIAL]
            return isothermal_compressibility(volume, thermal, self.atoms, *virial, mean[HYPERVIRIAL])
        of_pressure = OF_PRESSURE / volume
        pressure, variance = of_pressure @ mean, of_pressure @ covariance @ of_pressure
        return adiabatic_compressibility(volume, thermal, self.freedom, pressure, variance, mean[HYPERVIRIAL])


def _as_arrays(potential: Any, dtype: Any) -> Any:
    """The potential with its numbers as arrays, so that one program serves all values."""
    numbers, rest = eqx.partition(potential, eqx.is_inexact_array_like)
    return eqx.combine(jax.tree.map(lambda x: jnp.asarray(x, dtype), numbers), rest)


@dataclasses.dataclass(frozen=True)
class FluctuationFunctions(AbstractFunction):
    """The heat capacity per particle, and in a box the compressibility, by the formula of the ensemble.

    `missing` says why there is no compressibility in a box, and is empty where there is one.
    """

    key = "fluctuations"
    settings = FluctuationSettings
    example: ClassVar = {"every": 10}

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
