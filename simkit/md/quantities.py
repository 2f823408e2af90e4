"""Quantities that observables name: sums over all particles, and what follows from them."""

import dataclasses
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float
from simkit_physics.particles.thermodynamics import pressure, pressure_tensor, temperature
from simkit_solvers import ParticleTotals, Tensor

Rows = Float[Array | np.ndarray, "paths rows"]
COMPONENTS = Tensor._fields


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
    """A quantity: its unit in generic form, what it is, and its value at each row.

    Where velocities mean nothing, one that needs them is refused, one in which they are `averaged` has their
    mean, and one in which they are `absent` is all there. One that needs a box is refused in free space.
    """

    unit: str
    description: str
    value: Callable[[Measured], Rows]
    velocities: Literal["needed", "averaged", "absent"] = "needed"
    needs_box: bool = True


def _component(name: str) -> MeasuredQuantity:
    text = f"{name} component of the pressure"
    return MeasuredQuantity("pressure", text, lambda m: m.component(name), "averaged")


QUANTITIES: dict[str, MeasuredQuantity] = {
    "temperature": MeasuredQuantity("temperature", "temperature", lambda m: m.temperature, needs_box=False),
    "pressure": MeasuredQuantity("pressure", "pressure", lambda m: m.mean_pressure, "averaged"),
    "potential_energy": MeasuredQuantity(
        "energy", "potential energy", lambda m: m.potential, "absent", False
    ),
    "kinetic_energy": MeasuredQuantity("energy", "kinetic energy", lambda m: m.kinetic, needs_box=False),
    "total_energy": MeasuredQuantity(
        "energy", "total energy", lambda m: m.potential + m.kinetic, needs_box=False
    ),
    "conserved_energy": MeasuredQuantity(
        "energy",
        "what the exact motion conserves: the energy, less what a thermostat has given",
        lambda m: m.totals.conserved + m.tail_energy,
        needs_box=False,
    ),
    "pressure_xx": _component("xx"),
    "pressure_yy": _component("yy"),
    "pressure_zz": _component("zz"),
    "pressure_xy": _component("xy"),
    "pressure_xz": _component("xz"),
    "pressure_yz": _component("yz"),
    "volume": MeasuredQuantity("length^3", "volume of the box", lambda m: m.constant(m.volume), "absent"),
    "density": MeasuredQuantity(
        "1/length^3", "particles per volume", lambda m: m.constant(m.atoms / m.volume), "absent"
    ),
    "atoms": MeasuredQuantity("1", "number of particles", lambda m: m.constant(m.atoms), "absent", False),
}


def named_in(names: Collection[str], which: Callable[[MeasuredQuantity], bool]) -> list[str]:
    """Those of the names that are quantities of which something holds, in alphabetical order."""
    return sorted(name for name in names if name in QUANTITIES and which(QUANTITIES[name]))
