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
    r"""$T = 2K / f k_B$ with `freedom` f, the degrees of freedom of the method.

    All numbers are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import temperature
    >>> from simkit_solvers import ParticleTotals, Tensor
    >>> kinetic = Tensor(xx=100.0, yy=100.0, zz=100.0, xy=0.0, xz=0.0, yz=0.0)
    >>> totals = ParticleTotals(potential=-500.0, virial=kinetic, kinetic=kinetic, conserved=-350.0)
    >>> float(temperature(totals, freedom=300))
    1.0
    """
    return totals.kinetic.trace / (freedom * boltzmann)


def pressure_tensor(totals: ParticleTotals, volume: ArrayLike) -> Tensor:
    """The pressure tensor, in energy per volume; `volume` is finite, `box_volume` of the box.

    All numbers are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import pressure_tensor
    >>> from simkit_solvers import ParticleTotals, Tensor
    >>> kinetic = Tensor(xx=100.0, yy=100.0, zz=100.0, xy=0.0, xz=0.0, yz=0.0)
    >>> virial = Tensor(xx=-50.0, yy=-20.0, zz=-50.0, xy=0.0, xz=0.0, yz=0.0)
    >>> totals = ParticleTotals(potential=-500.0, virial=virial, kinetic=kinetic, conserved=-350.0)
    >>> float(pressure_tensor(totals, volume=100.0).yy)
    0.8
    """
    return Tensor(*((k + w) / volume for k, w in zip(totals.kinetic, totals.virial, strict=True)))


def pressure(totals: ParticleTotals, volume: ArrayLike) -> Float[Array, "..."]:
    """A third of the trace of the pressure tensor, in energy per volume.

    All numbers are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import pressure
    >>> from simkit_solvers import ParticleTotals, Tensor
    >>> kinetic = Tensor(xx=100.0, yy=100.0, zz=100.0, xy=0.0, xz=0.0, yz=0.0)
    >>> virial = Tensor(xx=-50.0, yy=-50.0, zz=-50.0, xy=0.0, xz=0.0, yz=0.0)
    >>> totals = ParticleTotals(potential=-500.0, virial=virial, kinetic=kinetic, conserved=-350.0)
    >>> float(pressure(totals, volume=100.0))
    0.5
    """
    return (totals.kinetic.trace + totals.virial.trace) / (3 * volume)


def box_volume(box: AbstractBox) -> float:
    """The volume of a periodic box; `ValueError` for a free one, which has no pressure.

    >>> from simkit_physics import OrthorhombicBox, box_volume
    >>> from simkit_solvers import Vector
    >>> box_volume(OrthorhombicBox(Vector(2.0, 3.0, 4.0)))
    24.0
    """
    volume = float(box.volume)
    if not math.isfinite(volume):
        raise ValueError("free space has no volume, so no pressure and no density: use a periodic box")
    return volume
