"""From the section `system` to particles in their box."""

import dataclasses
import math

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
from simkit.experiments.constants import Constants
from simkit.expressions import check_spelling
from simkit.md.file_plan import cell_of, check_species, read_start, refuse_outside
from simkit.md.files.frame import Cell
from simkit.md.particle_memory import refuse_too_many
from simkit.md.particle_names import FROM_ZERO, ParticleNames
from simkit.md.simulation import EarlierRun

SOURCES = ("lattice", "random", "file")
ONLY = "A"  # what particles of one species are called


@dataclasses.dataclass(frozen=True)
class SystemPlan:
    """Particles in their box, at rest unless a file says how fast they are.

    `names` and `masses` are by species; `temperature` is that of velocities to be drawn. `earlier` is the run
    that this one goes on from, `drift` the speed of the whole system that was removed. `called` is what
    messages call particles.
    """

    particles: Particles
    box: AbstractBox
    cell: Cell | None
    names: tuple[str, ...]
    masses: tuple[float, ...]
    units: UnitSystem
    temperature: float | None
    earlier: EarlierRun | None
    drift: float = 0.0
    called: ParticleNames = FROM_ZERO

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
        cell, start, fractions, earlier = self._given_cell(), None, [1.0], None
        if section.file is not None:
            start = read_start(section, self.units, self.diagnostics)
            cell = cell_of(start.frame, section, cell)
            check_species(start.frame, section, self.diagnostics)
            names, of_file = list(start.frame.names), start.frame.masses
        else:
            (names, fractions), of_file = self._mixture(), {}
        masses = [self._mass(name, of_file) for name in names]
        if len(self.diagnostics.entries) > before:
            return None
        if start is None:
            particles, cell = self._lattice() if section.lattice else self._random(cell)
            particles = self._mixed(particles, fractions, masses)
        else:
            refuse_outside(start, section, cell)
            several = start.particles(masses, cell)
            particles, earlier = several[0], start.earlier(several, masses, temperature is not None)
        if particles.count < 2:
            raise SettingError(("system",), "needs two or more particles, got one", at_key=True)
        return SystemPlan(
            particles,
            _box(cell),
            cell,
            tuple(names),
            tuple(masses),
            self.units,
            temperature,
            earlier,
            called=FROM_ZERO if start is None else start.frame.called,
        )

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
        if box.free and box.sides is not None:
            message = "are those of a periodic box; remove them, or free: true"
            raise SettingError((*path, "sides"), message, at_key=True)
        if not box.free and box.sides is None:
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
        if section.density is not None and section.spacing is not None:
            message = "follows from the density; remove one of them"
            raise SettingError((*path, "spacing"), message, at_key=True)
        if section.density is None and section.spacing is None:
            raise SettingError(path, "needs either density or spacing", at_key=True)
        key = "density" if section.spacing is None else "spacing"
        number = self._number((*path, key), getattr(section, key))
        if not number > 0:
            raise SettingError((*path, key), f"must be > 0, got {number:g}")
        count = math.prod(section.cells) * len(configurations.BASES[section.type])
        refuse_too_many(count, (*path, "cells"), "take fewer cells")
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
        refuse_too_many(section.count, (*path, "count"), "take fewer")
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


def _box(cell: Cell | None) -> AbstractBox:
    if cell is None:
        return FreeBox()
    sides = Vector(*map(jnp.asarray, cell.sides))
    return (
        TriclinicBox(sides, Vector(*map(jnp.asarray, cell.tilts)))
        if any(cell.tilts)
        else OrthorhombicBox(sides)
    )
