r"""Temperature and pressure of a system, from its totals.

The pressure tensor is $P_{ab} V = \sum_i m_i v_{i,a} v_{i,b} + \sum_{i<j} r_{ij,a} f_{ij,b}$: positive where
the system pushes outwards. The stress tensor is $-P_{ab}$, and the pressure $P$ a third of the trace. The
kinetic part is that of the momenta at that moment, so that its mean is $f k_B T / 3V$ with f degrees of
freedom.

Reference: Allen & Tildesley (2017), Computer Simulation of Liquids, sections 2.4 and 2.5,
doi:10.1093/oso/9780198803195.001.0001.
"""

import math

from jax.typing import ArrayLike
from jaxtyping import Array, Float
from simkit_solvers import ParticleTotals, Tensor

from simkit_physics.particles.boxes import AbstractBox


def temperature(totals: ParticleTotals, freedom: int, boltzmann: ArrayLike = 1.0) -> Float[Array, "..."]:
    r"""$T = 2K / f k_B$ with `freedom` f, the degrees of freedom of the method."""
    return totals.kinetic.trace / (freedom * boltzmann)


def pressure_tensor(totals: ParticleTotals, volume: ArrayLike) -> Tensor:
    """The pressure tensor, in energy per volume; `volume` is finite, `box_volume` of the box."""
    return Tensor(*((k + w) / volume for k, w in zip(totals.kinetic, totals.virial, strict=True)))


def pressure(totals: ParticleTotals, volume: ArrayLike) -> Float[Array, "..."]:
    """A third of the trace of the pressure tensor, in energy per volume."""
    return (totals.kinetic.trace + totals.virial.trace) / (3 * volume)


def box_volume(box: AbstractBox) -> float:
    """The volume of a periodic box; `ValueError` for a free one, which has no pressure."""
    volume = float(box.volume)
    if not math.isfinite(volume):
        raise ValueError("free space has no volume, so no pressure and no density: use a periodic box")
    return volume
