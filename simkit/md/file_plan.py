"""From the key `file` of the section `system` to the particles of a file, or of the end of an earlier run."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from simkit_physics.particles import configurations
from simkit_physics.particles.units import UnitSystem
from simkit_solvers import Particles, Vector

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.settings.system import System
from simkit.errors import SimkitError
from simkit.md.files.frame import Cell, Frame
from simkit.md.files.gro import read_gro
from simkit.md.files.lammps_data import read_lammps_data
from simkit.md.files.pdb import read_pdb
from simkit.md.files.run_dataset import RunEnd, read_run
from simkit.md.files.xyz import read_xyz
from simkit.md.simulation import EarlierRun
from simkit.progress import counted
from simkit.suggestions import did_you_mean, shown

READERS = {".xyz": read_xyz, ".data": read_lammps_data, ".pdb": read_pdb, ".gro": read_gro}
RUNS = (".zarr", ".nc")
ROUNDING = 1e-9  # of a side: coordinates that are out of the box by less were rounded
PLACE = ("system", "file")


@dataclasses.dataclass(frozen=True)
class FileStart:
    """What a file says, in the units of the experiment: a frame, or those of the replicas of a run."""

    frames: tuple[Frame, ...]
    end: RunEnd | None

    @property
    def frame(self) -> Frame:
        """The first frame."""
        return self.frames[0]

    def particles(self, masses: Sequence[float], cell: Cell | None) -> tuple[Particles, ...]:
        """The particles of each frame, with these masses by species."""
        frames = self.frames
        if cell != self.frame.cell:  # of which images count the vectors
            frames = [dataclasses.replace(frame, images=None) for frame in frames]
        return tuple(_particles(frame, np.asarray(masses)) for frame in frames)

    def earlier(
        self, particles: tuple[Particles, ...], masses: Sequence[float], drawn: bool
    ) -> EarlierRun | None:
        """The run to go on from, if the file is the dataset of one; `drawn` is whether velocities are new."""
        if self.end is None:
            return None
        same = all(
            self.frame.masses[name] == mass for name, mass in zip(self.frame.names, masses, strict=True)
        )
        changed = "velocities are drawn" if drawn else "" if same else "masses are changed"
        states = () if changed else self.end.states
        return EarlierRun(particles, states, self.end.clock, self.end.momentum_is_conserved, changed)


def read_start(section: System, units: UnitSystem, diagnostics: Diagnostics) -> FileStart:
    """The content of a file. Raises `SettingError` where it cannot be read or has other units."""
    name = section.file
    assert name is not None
    path, suffix = diagnostics.document.folder / name, Path(name).suffix
    if suffix not in READERS and suffix not in RUNS:
        *rest, last = (*READERS, *RUNS)
        raise SettingError(PLACE, f"must end in {', '.join(rest)} or {last}, got {shown(name)}")
    try:
        if suffix in READERS:
            frame = READERS[suffix](path)
            return FileStart((_in_units(frame, units, suffix),), None)
        end = read_run(path)
    except SimkitError as error:
        raise SettingError(PLACE, str(error)) from error
    if end.units != units.name:
        message = f"is the end of a run in the units {end.units}; write units: {end.units}, got {units.name}"
        raise SettingError(PLACE, message)
    return FileStart(end.frames, end)


def _in_units(frame: Frame, units: UnitSystem, suffix: str) -> Frame:
    """A frame of a format that has units of its own, in those of the experiment."""
    if frame.sizes is None:
        return frame
    if units.sizes is None:
        raise SettingError(
            PLACE,
            f"{suffix} files have lengths in {'Å' if suffix == '.pdb' else 'nm'}, and units: {units.name} "
            "have no size; take units: metal or real, or a .xyz file in reduced units",
        )
    length, speed = frame.sizes
    return frame.scaled(length / units.size("length"), speed / units.size("length/time"))


def cell_of(frame: Frame, section: System, given: Cell | None) -> Cell | None:
    """The box that is given, else that of the file."""
    if section.box is not None:
        return given
    if frame.cell is None:
        message = "has no box; give system.box: {sides: [lx, ly, lz]}, or {free: true}"
        raise SettingError(PLACE, message)
    return frame.cell


def check_species(frame: Frame, section: System, diagnostics: Diagnostics) -> None:
    """Complain about species that a file does not have, and about fractions."""
    for name, settings in section.species.items():
        path = ("system", "species", name)
        if name not in frame.names:
            hint = did_you_mean(name, frame.names)
            diagnostics.add(path, f"the file has no such species{hint}", at_key=True)
        if settings.fraction is not None:
            message = "is for lattices and random places; the file says which species particles have"
            diagnostics.add((*path, "fraction"), message, at_key=True)


def refuse_outside(start: FileStart, section: System, cell: Cell | None) -> None:
    """Raise `SettingError` for particles that are out of the box by more than rounding."""
    if cell is None:
        return
    sides = np.asarray(cell.sides)
    for frame in start.frames:
        fractions = np.linalg.solve(cell.vectors.T, frame.positions.T).T
        margin = ROUNDING + frame.rounding / sides
        outside = np.flatnonzero(np.any((fractions < -margin) | (fractions > 1 + margin), axis=1))
        if len(outside):
            i = int(outside[0])
            place = ", ".join(f"{x:.6g}" for x in frame.positions[i])
            others = f", like {counted(len(outside) - 1, 'other')}" if len(outside) > 1 else ""
            raise SettingError(
                PLACE if section.box is None else ("system", "box"),
                f"{frame.called.of(i)} at ({place}) is outside the box with the sides "
                f"{', '.join(f'{x:.6g}' for x in cell.sides)}{others}; "
                "wrap the positions, or correct the box",
            )


def _particles(frame: Frame, masses: np.ndarray) -> Particles:
    mass = masses[frame.species]
    particles = configurations.particles_at_rest(jnp.asarray(frame.positions), mass, frame.species)
    if frame.images is not None:
        images = Vector.of(np.asarray(frame.images, np.int32))
        particles = eqx.tree_at(lambda p: p.image, particles, images)
    if frame.velocities is None:
        return particles
    return particles.pushed(Vector.of(mass[:, None] * frame.velocities))
