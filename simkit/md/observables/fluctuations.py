"""Heat capacity and compressibility from fluctuations, by the formula of the ensemble."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
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
from simkit_solvers import Particles, ParticleTotals

from simkit.md.observables.measurement import AbstractMeasurement
from simkit.time_series import Blocks, Estimate, block_sums, jackknife, no_blocks, with_block_sample

KINETIC, POTENTIAL, VIRIAL, HYPERVIRIAL = range(4)


class MomentSums(NamedTuple):
    """Sums of deviations from the first sample, and of their products."""

    first: Float[Array | np.ndarray, "... 4"]
    second: Float[Array | np.ndarray, "... 4 4"]


class FluctuationSums(NamedTuple):
    origin: Float[Array, "4"]
    moments: Blocks


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

    def init(self, particles: Particles) -> FluctuationSums:
        origin = jnp.zeros(4, jnp.float64)
        return FluctuationSums(origin, no_blocks(MomentSums(origin, jnp.zeros((4, 4), jnp.float64))))

    def update(
        self,
        accumulator: FluctuationSums,
        particles: Particles,
        totals: ParticleTotals,
        step: Int[Array, ""],
    ) -> FluctuationSums:
        second = jnp.zeros(())
        if self.box is not None and self.grid is not None:
            second = hypervirial(self.grid, self.box, self.potential, particles)
        parts = totals.kinetic_energy, totals.potential, totals.virial.trace / 3, second
        sample = jnp.stack([x.astype(jnp.float64) for x in parts])
        origin = jnp.where(accumulator.moments.seen == 0, sample, accumulator.origin)
        d = sample - origin
        return FluctuationSums(origin, with_block_sample(accumulator.moments, MomentSums(d, d[:, None] * d)))

    def result(self, accumulators: Sequence[FluctuationSums]) -> FluctuationResult:
        """The estimates from all replicas.

        At constant energy each replica has an energy of its own, so its fluctuations are those about its own
        mean; a bath gives all replicas the same mean.
        """
        origin = np.asarray(accumulators[0].origin)
        separate = self.ensemble == "NVE"
        sums = block_sums([_centred(each, origin, separate) for each in accumulators])
        centres = len(accumulators) if separate else 1

        def estimate(function) -> Estimate:
            return jackknife(sums, lambda m, n: function(*_mean_and_covariance(m, n, origin, centres)))

        heat_capacity = estimate(self._heat_capacity)
        if self.box is None:
            return FluctuationResult(heat_capacity, None)
        return FluctuationResult(heat_capacity, estimate(self._compressibility))

    def _thermal_energy(self, mean: np.ndarray) -> float:
        return 2 * mean[KINETIC] / self.freedom

    def _heat_capacity(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        if self.ensemble == "NVE":
            kinetic = mean[KINETIC], covariance[KINETIC, KINETIC]
            return constant_energy_heat_capacity(*kinetic, self.freedom, self.boltzmann)
        energy = covariance[:2, :2].sum()
        return constant_volume_heat_capacity(
            energy, self._thermal_energy(mean) / self.boltzmann, self.boltzmann
        )

    def _compressibility(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        assert self.box is not None
        volume, thermal = box_volume(self.box), self._thermal_energy(mean)
        if self.ensemble == "NVT":
            virial = mean[VIRIAL], covariance[VIRIAL, VIRIAL]
            return isothermal_compressibility(volume, thermal, self.atoms, *virial, mean[HYPERVIRIAL])
        of_pressure = np.array([2 / 3, 0, 1, 0]) / volume
        pressure, variance = of_pressure @ mean, of_pressure @ covariance @ of_pressure
        return adiabatic_compressibility(volume, thermal, self.freedom, pressure, variance, mean[HYPERVIRIAL])


def _as_arrays(potential: Any, dtype: Any) -> Any:
    """The potential with its numbers as arrays, so that one program serves all values."""
    numbers, rest = eqx.partition(potential, eqx.is_inexact_array_like)
    return eqx.combine(jax.tree.map(lambda x: jnp.asarray(x, dtype), numbers), rest)


class _Centred(NamedTuple):
    """Sums of deviations from an origin that all replicas share, and moments about a centre."""

    total: np.ndarray
    moments: MomentSums


def _centred(sums: FluctuationSums, origin: np.ndarray, separate: bool) -> Blocks:
    """The sums of a replica about the origin, and about its own mean if it is kept `separate` from others."""
    about_origin = _moved(sums, origin)
    own = about_origin.first.sum(0) / int(sums.moments.seen)
    moments = _moved(sums, origin + own) if separate else about_origin
    return sums.moments._replace(sums=_Centred(np.asarray(about_origin.first), moments))


def _moved(sums: FluctuationSums, origin: np.ndarray) -> MomentSums:
    """The moments about another origin, so that those of replicas can be added."""
    shift = np.asarray(sums.origin) - origin
    moments, seen, length = sums.moments.sums, int(sums.moments.seen), int(sums.moments.length)
    first, second = np.asarray(moments.first), np.asarray(moments.second)
    counts = np.clip(seen - length * np.arange(len(first)), 0, length)[:, None]
    cross = first[:, :, None] * shift + shift[:, None] * first[:, None, :]
    return MomentSums(first + counts * shift, second + cross + counts[..., None] * (shift[:, None] * shift))


def _mean_and_covariance(
    sums: _Centred, samples: int, origin: np.ndarray, centres: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean of all, and the covariance about as many centres.

    The first moments about a replica's own mean add up to 0; where a block is left out they are those of its
    replica, which has the samples of all over `centres`.
    """
    first = np.asarray(sums.moments.first) / samples
    covariance = np.asarray(sums.moments.second) / samples - centres * first[:, None] * first
    return origin + sums.total / samples, covariance
