"""From the section `system` to particles in their box."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from simkit_physics.particles import configurations
from simkit_physics.particles.boxes import AbstractBox, FreeBox, OrthorhombicBox, TriclinicBox
from simkit_physics.particles.random_positions import random_positions
from simkit_physics.particles.units import UNITS, UnitSystem
from simkit_solvers import Particles, Vector, seed_key

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.system import Box, System
from simkit.errors import SimkitError
from simkit.experiments.constants import Constants
from simkit.expressions import check_spelling
from simkit.md.files.frame import Cell, Frame
from simkit.md.files.lammps_data import read_lammps_data
from simkit.md.files.xyz import read_xyz
from simkit.suggestions import did_you_mean, shown

SOURCES = ("lattice", "random", "file")
READERS = {".xyz": read_xyz, ".data": read_lammps_data}
ROUNDING = 1e-9  # of a side: coordinates that are out of the box by less were rounded
ONLY = "A"  # what particles of one species are called


@dataclasses.dataclass(frozen=True)
class SystemPlan:
    """Particles in their box, at rest unless a file says how fast they are.

    `names` and `masses` are by species; `temperature` is that of velocities to be drawn.
    """

    particles: Particles
    box: AbstractBox
    cell: Cell | None
    names: tuple[str, ...]
    masses: tuple[float, ...]
    units: UnitSystem
    temperature: float | None

    @property
    def counts(self) -> list[int]:
        """The number of particles of each species."""
        return np.bincount(np.asarray(self.particles.species), minlength=len(self.names)).tolist()


def plan_system(section: System | None, seed: int, constants: Constants) -> SystemPlan | None:
    """The particles; raises `SettingError`, or adds what is wrong to the diagnostics and gives `None`."""
    if section is None:
        return None
    given = [key for key in SOURCES if getattr(section, key) is not None]
    written = [key for key in SOURCES if key in constants.diagnostics.written("system")]
    if len(given) != 1:
        if given or not written:
            message = f"needs one of {', '.join(SOURCES)}, got {' and '.join(given) or 'none'}"
            raise SettingError(("system",), message, at_key=True)
        return None
    return _System(section, seed, constants).plan()


class _System:
    """A section that has one of lattice, random and file."""

    def __init__(self, section: System, seed: int, constants: Constants):
        self.section, self.constants, self.diagnostics = section, constants, constants.diagnostics
        self.key, self.units = seed_key(seed), UNITS[section.units]

    def plan(self) -> SystemPlan | None:
        section, before = self.section, len(self.diagnostics.entries)
        temperature = self._temperature()
        cell = self._given_cell()
        if section.file is not None:
            frame = self._read(section.file)
            cell = self._cell_of(frame, cell)
            names, masses = self._species_of(frame)
            counts = None
        else:
            names, fractions = self._mixture()
            masses = [self._mass(name, {}) for name in names]
            frame, counts = None, fractions
        if len(self.diagnostics.entries) > before:
            return None
        if frame is None:
            particles, cell = self._lattice() if section.lattice else self._random(cell)
            particles = self._mixed(particles, counts or [1.0], masses)
        else:
            particles = _of_frame(frame, masses)
            self._refuse_outside(frame, cell)
        if particles.count < 2:
            raise SettingError(("system",), "needs two or more particles, got one", at_key=True)
        return SystemPlan(particles, _box(cell), cell, tuple(names), tuple(masses), self.units, temperature)

    def _number(self, path: KeyPath, value: float | str, above: float | None = 0.0) -> float:
        result = self.constants.number(path, value)
        if result is None:
            return np.nan
        if above is not None and result[1] <= above:
            self.diagnostics.add(path, f"must be > {above:g}, got {result[1]:g}")
        return result[1]

    def _temperature(self) -> float | None:
        if self.section.velocities is None:
            return None
        path = ("system", "velocities", "temperature")
        return self._number(path, self.section.velocities.temperature)

    def _given_cell(self) -> Cell | None:
        """The box under `box`, where there is one."""
        box: Box | None = self.section.box
        if box is None:
            return None
        path = ("system", "box")
        if self.section.lattice is not None:
            message = "a lattice fills a box of its own; leave box out"
            raise SettingError(path, message, at_key=True)
        if box.free == (box.sides is not None):
            raise SettingError(path, "needs either sides or free: true", at_key=True)
        if box.sides is None:
            if box.tilts is not None:
                raise SettingError((*path, "tilts"), "are those of a periodic box, which needs sides")
            return None
        lx, ly, lz = (self._number((*path, "sides", i), x) for i, x in enumerate(box.sides))
        if box.tilts is None:
            return Cell((lx, ly, lz))
        xy, xz, yz = (self._number((*path, "tilts", i), x, None) for i, x in enumerate(box.tilts))
        return Cell((lx, ly, lz), (xy, xz, yz))

    def _is_free(self) -> bool:
        return self.section.box is not None and self.section.box.free

    def _lattice(self) -> tuple[Particles, Cell]:
        section, path = self.section.lattice, ("system", "lattice")
        assert section is not None
        if (section.density is None) == (section.spacing is None):
            raise SettingError(path, "needs either density or spacing", at_key=True)
        key = "density" if section.spacing is None else "spacing"
        number = self._number((*path, key), getattr(section, key))
        if not number > 0:
            raise SettingError((*path, key), f"must be > 0, got {number:g}")
        particles, box = configurations.lattice(section.type, section.cells, **{key: number})
        x, y, z = (float(side) for side in box.sides)
        return particles, Cell((x, y, z))

    def _random(self, cell: Cell | None) -> tuple[Particles, Cell]:
        section, path = self.section.random, ("system", "random")
        assert section is not None
        if self._is_free():
            raise SettingError(("system", "box"), "random places need a periodic box with sides", at_key=True)
        if (section.density is None) == (cell is None):
            given = "neither" if cell is None else "both"
            message = f"needs either density, of a cubic box, or system.box with sides, got {given}"
            raise SettingError(path, message, at_key=True)
        least = self._number((*path, "least_distance"), section.least_distance, None)
        if section.density is not None:
            density = self._number((*path, "density"), section.density)
            if not density > 0:
                raise SettingError((*path, "density"), f"must be > 0, got {density:g}")
            cell = Cell(((section.count / density) ** (1 / 3),) * 3)
        assert cell is not None
        try:
            return random_positions(section.count, _box(cell), least, self.key), cell
        except ValueError as error:
            raise SettingError((*path, "least_distance"), str(error).removeprefix("random: ")) from error

    def _mixture(self) -> tuple[list[str], list[float]]:
        """The species of a lattice or of random places, and their fractions."""
        species = self.section.species
        if not species:
            return [ONLY], [1.0]
        names, fractions = list(species), []
        for name in names:
            path = ("system", "species", name)
            if reason := check_spelling(name):
                self.diagnostics.add(path, reason, at_key=True)
            given = species[name].fraction
            fractions.append(None if given is None else self._number((*path, "fraction"), given))
        missing = [name for name, each in zip(names, fractions, strict=True) if each is None]
        total = sum(each for each in fractions if each is not None)
        if len(missing) > 1:
            message = f"have no fraction: {', '.join(missing)}; one species may leave it out"
            raise SettingError(("system", "species"), message, at_key=True)
        rest = 1 - total
        if (missing and rest <= 0) or (not missing and abs(rest) > 1e-9):
            message = f"the fractions must add up to 1, got {total:g}"
            raise SettingError(("system", "species"), message, at_key=True)
        return names, [rest if each is None else each for each in fractions]

    def _mixed(self, particles: Particles, fractions: list[float], masses: list[float]) -> Particles:
        """The particles with species in random order, as many of each as its fraction says."""
        ends = np.rint(np.cumsum(fractions) / sum(fractions) * particles.count).astype(int)
        counts = np.diff(ends, prepend=0).tolist()
        if min(counts) == 0:
            message = f"{particles.count} particles are too few for these fractions"
            raise SettingError(("system", "species"), message, at_key=True)
        return configurations.with_species(particles, counts, masses, self.key)

    def _mass(self, name: str, of_file: dict[str, float]) -> float:
        given = self.section.species.get(name)
        path = ("system", "species", name)
        if given is not None and given.mass is not None:
            return self._number((*path, "mass"), given.mass)
        if name in of_file:
            return of_file[name]
        if self.units.sizes is None:
            return 1.0
        unit = self.units.label("mass")
        self.diagnostics.add_missing(
            path if given else ("system", "species"),
            f"has no mass for {name}; give species: {{{name}: {{mass: …}}}} in {unit}",
        )
        return np.nan

    def _read(self, name: str) -> Frame:
        path = self.diagnostics.document.folder / name
        reader = READERS.get(Path(name).suffix)
        if reader is None:
            message = f"must end in {' or '.join(READERS)}, got {shown(name)}"
            raise SettingError(("system", "file"), message)
        try:
            return reader(path)
        except SimkitError as error:
            raise SettingError(("system", "file"), str(error)) from error

    def _cell_of(self, frame: Frame, given: Cell | None) -> Cell | None:
        """The box of a file that has one, else the one given."""
        if self.section.box is not None:
            if frame.cell is not None:
                sides = ", ".join(f"{x:.6g}" for x in frame.cell.sides)
                message = f"the file has a box, with the sides {sides}; leave one of the two boxes out"
                raise SettingError(("system", "box"), message, at_key=True)
            return given
        if frame.cell is None:
            message = "has no box; give system.box: {sides: [lx, ly, lz]}, or {free: true}"
            raise SettingError(("system", "file"), message)
        return frame.cell

    def _species_of(self, frame: Frame) -> tuple[list[str], list[float]]:
        for name, settings in self.section.species.items():
            path = ("system", "species", name)
            if name not in frame.names:
                hint = did_you_mean(name, frame.names)
                self.diagnostics.add(path, f"the file has no such species{hint}", at_key=True)
            if settings.fraction is not None:
                message = "is for lattices and random places; the file says which species particles have"
                self.diagnostics.add((*path, "fraction"), message, at_key=True)
        names = list(frame.names)
        return names, [self._mass(name, frame.masses) for name in names]

    def _refuse_outside(self, frame: Frame, cell: Cell | None) -> None:
        if cell is None:
            return
        fractions = np.linalg.solve(cell.vectors.T, frame.positions.T).T
        outside = np.flatnonzero(np.any((fractions < -ROUNDING) | (fractions > 1 + ROUNDING), axis=1))
        if len(outside):
            i = int(outside[0])
            place = ", ".join(f"{x:.6g}" for x in frame.positions[i])
            raise SettingError(
                ("system", "file"),
                f"particle {i} at ({place}) is outside the box with the sides "
                f"{', '.join(f'{x:.6g}' for x in cell.sides)}, as are {len(outside)} in all; "
                "wrap the positions, or correct the box",
            )


def _of_frame(frame: Frame, masses: list[float]) -> Particles:
    mass = np.asarray(masses)[frame.species]
    particles = configurations.particles_at_rest(jnp.asarray(frame.positions), mass, frame.species)
    if frame.velocities is None:
        return particles
    return particles.pushed(Vector.of(mass[:, None] * frame.velocities))


def _box(cell: Cell | None) -> AbstractBox:
    if cell is None:
        return FreeBox()
    sides = Vector(*map(jnp.asarray, cell.sides))
    return (
        TriclinicBox(sides, Vector(*map(jnp.asarray, cell.tilts)))
        if any(cell.tilts)
        else OrthorhombicBox(sides)
    )
