"""Quantities that observables name: sums over all particles, and what follows from them."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from simkit_physics.particles.thermodynamics import pressure, pressure_tensor, temperature
from simkit_solvers import ParticleTotals, Tensor

Rows = Float[Array | np.ndarray, "paths rows"]
COMPONENTS = Tensor._fields
OF_VELOCITIES = frozenset({"temperature", "kinetic_energy", "total_energy", "conserved_energy"})
IN_A_BOX = frozenset({"pressure", "volume", "density", *(f"pressure_{ab}" for ab in COMPONENTS)})


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a run sums up, and the numbers of the system that turn sums into quantities.

    Where velocities mean nothing, `degrees` is 0 and the kinetic part of `totals` is its mean at the
    temperature of the bath: only the pressure is made of it.
    `pressure` is the pressure of one unit of energy per volume. Tail corrections are constants:
    `tail_energy`, and `tail_pressure` in energy per volume. `volume` is infinite in free space.
    """

    totals: ParticleTotals
    atoms: int
    volume: float
    degrees: int
    boltzmann: float
    pressure: float = 1.0
    tail_energy: float = 0.0
    tail_pressure: float = 0.0

    @property
    def potential(self) -> Rows:
        return self.totals.potential + self.tail_energy

    @property
    def kinetic(self) -> Rows:
        return self.totals.kinetic_energy

    @property
    def temperature(self) -> Rows:
        if not self.degrees:
            return self.constant(np.nan)
        return temperature(self.totals, self.degrees, self.boltzmann)

    def component(self, name: str) -> Rows:
        """One component of the pressure."""
        tail = self.tail_pressure if name in ("xx", "yy", "zz") else 0.0
        return self.pressure * (getattr(pressure_tensor(self.totals, self.volume), name) + tail)

    @property
    def mean_pressure(self) -> Rows:
        return self.pressure * (pressure(self.totals, self.volume) + self.tail_pressure)

    def constant(self, value: float) -> Rows:
        return np.full(np.shape(self.totals.potential), float(value))


class MeasuredQuantity(NamedTuple):
    """A quantity: its unit in generic form, what it is, and its value at each row."""

    unit: str
    description: str
    value: Callable[[Measured], Rows]


QUANTITIES: dict[str, MeasuredQuantity] = {
    "temperature": MeasuredQuantity("temperature", "temperature", lambda m: m.temperature),
    "pressure": MeasuredQuantity("pressure", "pressure", lambda m: m.mean_pressure),
    "potential_energy": MeasuredQuantity("energy", "potential energy", lambda m: m.potential),
    "kinetic_energy": MeasuredQuantity("energy", "kinetic energy", lambda m: m.kinetic),
    "total_energy": MeasuredQuantity("energy", "total energy", lambda m: m.potential + m.kinetic),
    "conserved_energy": MeasuredQuantity(
        "energy",
        "what the exact motion keeps: the energy, less what a thermostat has given",
        lambda m: m.totals.conserved + m.tail_energy,
    ),
    "pressure_xx": MeasuredQuantity("pressure", "xx component of the pressure", lambda m: m.component("xx")),
    "pressure_yy": MeasuredQuantity("pressure", "yy component of the pressure", lambda m: m.component("yy")),
    "pressure_zz": MeasuredQuantity("pressure", "zz component of the pressure", lambda m: m.component("zz")),
    "pressure_xy": MeasuredQuantity("pressure", "xy component of the pressure", lambda m: m.component("xy")),
    "pressure_xz": MeasuredQuantity("pressure", "xz component of the pressure", lambda m: m.component("xz")),
    "pressure_yz": MeasuredQuantity("pressure", "yz component of the pressure", lambda m: m.component("yz")),
    "volume": MeasuredQuantity("length^3", "volume of the box", lambda m: m.constant(m.volume)),
    "density": MeasuredQuantity(
        "1/length^3", "particles per volume", lambda m: m.constant(m.atoms / m.volume)
    ),
    "atoms": MeasuredQuantity("1", "number of particles", lambda m: m.constant(m.atoms)),
}
