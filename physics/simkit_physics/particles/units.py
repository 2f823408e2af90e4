r"""Systems of units: what each unit is, and the constants that arithmetic in them needs.

Calculations stay in the units of a system. Its units of mass, length and time need not give its unit of
energy: with momenta $p = mv$ the kinetic energy is `kinetic` $\cdot\,p^2/2m$, forces change momenta at the
rate $F/$`kinetic`, and a pressure is `pressure` times an energy per volume. LAMMPS calls the two mvv2e and
nktv2p, and its `units` of the same names are these, up to the digits of the constants.

Constants of nature are those of CODATA 2022; $k_B$, $e$ and $N_A$ are exact.
Reference: Mohr, Newell, Taylor & Tiesinga (2025), CODATA recommended values of the fundamental physical
constants: 2022, doi:10.1103/RevModPhys.97.025002.
"""

import ast
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from simkit_solvers import MotionUnits

BOLTZMANN = 1.380649e-23  # J/K
ELEMENTARY_CHARGE = 1.602176634e-19  # C
AVOGADRO = 6.02214076e23  # 1/mol
ELECTRIC_CONSTANT = 8.8541878188e-12  # F/m
CALORIE = 4.184  # J, the thermochemical one
ATMOSPHERE = 101325.0  # Pa
BAR = 1e5  # Pa
ANGSTROM = 1e-10  # m


class UnitSizes(NamedTuple):
    """The SI sizes of the units of a system."""

    length: float
    mass: float
    time: float
    energy: float
    temperature: float
    pressure: float
    charge: float


class UnitNames(NamedTuple):
    """What the units of a system are called."""

    length: str
    mass: str
    time: str
    energy: str
    temperature: str
    pressure: str
    charge: str


class UnitSystem(NamedTuple):
    """A system of units, with the constants that it needs; `sizes` are None in reduced units.

    >>> from simkit_physics import UNITS
    >>> UNITS["real"].label("energy"), UNITS["real"].size("time")
    ('kcal/mol', 1e-15)
    """

    name: str
    units: UnitNames
    sizes: UnitSizes | None = None

    @property
    def boltzmann(self) -> float:
        """Boltzmann's constant in energy/temperature."""
        return 1.0 if self.sizes is None else BOLTZMANN * self.sizes.temperature / self.sizes.energy

    @property
    def kinetic(self) -> float:
        """The energy of one unit of mass times velocity squared (mvv2e in LAMMPS)."""
        s = self.sizes
        return 1.0 if s is None else s.mass * (s.length / s.time) ** 2 / s.energy

    @property
    def pressure(self) -> float:
        """The pressure of one unit of energy per volume (nktv2p in LAMMPS)."""
        s = self.sizes
        return 1.0 if s is None else s.energy / s.length**3 / s.pressure

    @property
    def coulomb(self) -> float:
        """The energy of two unit charges times their distance (qqr2e in LAMMPS)."""
        s = self.sizes
        return 1.0 if s is None else s.charge**2 / (4 * math.pi * ELECTRIC_CONSTANT) / (s.length * s.energy)

    @property
    def motion(self) -> MotionUnits:
        """The constants that integrators need."""
        return MotionUnits(self.boltzmann, self.kinetic)

    def label(self, quantity: str) -> str:
        """The unit of a quantity in generic form: of `energy/length^3`, eV/Å^3.

        Where parts of units cancel, what is left: of `energy/temperature` in reduced units, k. Raises
        `ValueError` for what is not a product of powers of units.
        """
        names = self.units._asdict()
        parts: dict[str, int] = {}
        for each, power in _powers(quantity).items():
            for name, inside in _product(names[each]).items():
                parts[name] = parts.get(name, 0) + power * inside
        if not all(parts.values()):
            return _written(parts)

        def named(match: re.Match[str]) -> str:
            name = names[match[0]]
            return f"({name})" if "/" in name and match[0] != quantity else name

        return re.sub(r"[a-z]+", named, quantity)

    def size(self, quantity: str) -> float:
        """The SI size of the unit of a quantity in generic form, such as `energy*length^6` or `1/time`.

        Raises `ValueError` for reduced units, and for what is not a product of powers of units.
        """
        if self.sizes is None:
            raise ValueError(
                f"units {self.name}: have no size; reduced_units(epsilon, sigma, mass, source) gives them one"
            )
        sizes = self.sizes._asdict()
        return math.prod(sizes[name] ** power for name, power in _powers(quantity).items())


def convert_units(value: float, quantity: str, source: UnitSystem, target: UnitSystem) -> float:
    """A value in the units of another system: `convert_units(1.0, "energy", metal, real)`.

    >>> from simkit_physics import UNITS, convert_units
    >>> round(convert_units(1.0, "energy", UNITS["metal"], UNITS["real"]), 3)  # 1 eV in kcal/mol
    23.061
    """
    return value * (source.size(quantity) / target.size(quantity))


def reduced_units(epsilon: float, sigma: float, mass: float, source: UnitSystem) -> UnitSystem:
    r"""The units of a Lennard-Jones fluid from its $\varepsilon$, $\sigma$ and mass in another system.

    The unit of time is $\sigma\sqrt{m/\varepsilon}$, that of temperature $\varepsilon/k_B$, that of pressure
    $\varepsilon/\sigma^3$, that of charge $\sqrt{4\pi\epsilon_0\sigma\varepsilon}$.

    >>> from simkit_physics import UNITS, convert_units, reduced_units
    >>> argon = reduced_units(epsilon=0.0104, sigma=3.4, mass=39.95, source=UNITS["metal"])
    >>> round(convert_units(1.0, "time", argon, UNITS["metal"]), 2)  # in ps
    2.15
    """
    energy, length = epsilon * source.size("energy"), sigma * source.size("length")
    heaviness = mass * source.size("mass")
    sizes = UnitSizes(
        length=length,
        mass=heaviness,
        time=length * math.sqrt(heaviness / energy),
        energy=energy,
        temperature=energy / BOLTZMANN,
        pressure=energy / length**3,
        charge=math.sqrt(4 * math.pi * ELECTRIC_CONSTANT * length * energy),
    )
    return UnitSystem("lj", LJ.units, sizes)


def _powers(quantity: str) -> dict[str, int]:
    """The powers of the units in a product such as `length^3/(mass*time^2)`."""
    powers, known = _product(quantity), UnitSizes._fields
    for name in powers.keys() - {*known}:
        raise ValueError(f"unit {name!r}: must be a product of powers of {', '.join(known)}")
    return powers


def _product(quantity: str) -> dict[str, int]:
    """The powers of the names in a product."""
    try:
        return _powers_of(ast.parse(quantity.replace("^", "**"), mode="eval").body)
    except SyntaxError:
        raise ValueError(f"unit {quantity!r}: must be a product of powers, such as energy/length^3") from None


def _powers_of(node: ast.expr) -> dict[str, int]:
    match node:
        case ast.Constant(value=1):
            return {}
        case ast.Name(id=name):
            return {name: 1}
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))):
            return {name: each * power for name, each in _powers_of(left).items()}
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as operator, right=right):
            sign = 1 if isinstance(operator, ast.Mult) else -1
            powers = _powers_of(left)
            for name, power in _powers_of(right).items():
                powers[name] = powers.get(name, 0) + sign * power
            return powers
    known = ", ".join(UnitSizes._fields)
    raise ValueError(f"unit {ast.unparse(node)!r}: must be a product of powers of {known}")


def _written(powers: Mapping[str, int]) -> str:
    """The product of these powers, `1` where there are none."""
    over = [name if power == 1 else f"{name}^{power}" for name, power in powers.items() if power > 0]
    under = [name if power == -1 else f"{name}^{-power}" for name, power in powers.items() if power < 0]
    below = "*".join(under)
    return "/".join(["*".join(over) or "1", *([f"({below})" if len(under) > 1 else below] if under else [])])


LJ = UnitSystem("lj", UnitNames("sigma", "m", "tau", "epsilon", "epsilon/k", "epsilon/sigma^3", "q"))
METAL = UnitSystem(
    "metal",
    UnitNames("Å", "g/mol", "ps", "eV", "K", "bar", "e"),
    UnitSizes(ANGSTROM, 1e-3 / AVOGADRO, 1e-12, ELEMENTARY_CHARGE, 1.0, BAR, ELEMENTARY_CHARGE),
)
REAL = UnitSystem(
    "real",
    UnitNames("Å", "g/mol", "fs", "kcal/mol", "K", "atm", "e"),
    UnitSizes(ANGSTROM, 1e-3 / AVOGADRO, 1e-15, 1e3 * CALORIE / AVOGADRO, 1.0, ATMOSPHERE, ELEMENTARY_CHARGE),
)
SI = UnitSystem("si", UnitNames("m", "kg", "s", "J", "K", "Pa", "C"), UnitSizes(*(1.0,) * 7))
UNITS: dict[str, UnitSystem] = {system.name: system for system in (LJ, METAL, REAL, SI)}
