r"""The mean-square displacement and the diffusion coefficient.

The first is $\langle |x(t_0 + t) - x(t_0)|^2 \rangle$, the second its slope over 6.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from simkit_physics import AbstractBox, unwrapped_paths
from simkit_solvers import Particles, ParticleTotals

from simkit.md.observables.measurement import AbstractMeasurement
from simkit.md.observables.selection import ParticleSelection, squared_distance_of
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


class DisplacementResult(NamedTuple):
    r"""The displacement at each `time`, `(times, species)`, and the diffusion coefficient of each species.

    `fit` is the range of times over which the slope was taken. There the displacement grows as
    $t^{exponent}$, and `note` says so where that is not diffusion.
    """

    time: Float[np.ndarray, " times"]
    displacement: Estimate
    diffusion: Estimate
    exponent: Estimate
    fit: tuple[float, float]
    note: str | None


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
            _note(growth, fit),
        )


def fitted_lags(longest: int, samples: int) -> int:
    """How many lags up to `longest` are fitted after this number of samples; a result needs 3."""
    return int(_between(LagTable.up_to(longest).distinct, (samples / 40, samples / 10)).sum())


def _between(time: np.ndarray, fit: tuple[float, float]) -> Bool[np.ndarray, " times"]:
    return (time >= fit[0] * (1 - 1e-9)) & (time <= fit[1] * (1 + 1e-9)) & (time > 0)


def _note(exponent: Estimate, fit: tuple[float, float]) -> str | None:
    off = np.abs(exponent.value - 1)
    if not np.any(off > np.fmax(0.1, 3 * exponent.stderr)):
        return None
    worst = exponent.value[np.argmax(off)]
    return (
        f"from t = {fit[0]:g} to {fit[1]:g} the displacement grows as t^{worst:.2f}, not as t: "
        "this slope is no diffusion coefficient; run longer, or fit later times"
    )
