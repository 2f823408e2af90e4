"""Files of positions along a run and at its end: complete when it ends, absent if it fails."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
from simkit_solvers import Particles

from simkit.config.settings.values import MAX_STEPS
from simkit.errors import OutputError
from simkit.md.files.frame import Frame
from simkit.md.files.lammps_data import lammps_data
from simkit.md.files.xyz import write_frame
from simkit.md.simulation import ParticleSimulation, ParticleSystem
from simkit.results.storage import check_folder_of


def of_replica(file: Path, replica: int) -> Path:
    """The file of a replica: that of the first has the name that was given."""
    return file if replica == 0 else file.with_name(f"{file.stem}.{replica}{file.suffix}")


def check_trajectory(simulation: ParticleSimulation, overwrite: bool) -> None:
    """Raise `OutputError` where files of positions exist, or cannot be made."""
    files = [simulation.end] if simulation.end else []
    files += [simulation.trajectory.file] if simulation.trajectory else []
    for file in files:
        for path in (of_replica(file, replica) for replica in range(simulation.paths)):
            if path.exists() and not overwrite:
                remedy = "to replace it use --overwrite, from Python overwrite=True"
                raise OutputError(f"{path}: exists already; {remedy}")
        if not file.parent.is_dir():
            raise OutputError(f"{file}: the directory {file.parent} does not exist; create it")
        check_folder_of(file, file.parent)


def write_end(simulation: ParticleSimulation, particles: Particles, replica: int) -> None:
    """Write the last configuration of a replica, if it is wanted: whole or not at all."""
    if simulation.end is None:
        return
    frame = frame_of(simulation.system, particles)
    with whole_file(of_replica(simulation.end, replica)) as file:
        if simulation.end.suffix == ".xyz":
            write_frame(file, frame, step=simulation.run.steps)
        else:
            file.write(lammps_data(frame, simulation.system.units.name))


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that has its name when it is complete. Raises `OutputError` where it cannot be written."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def frame_of(system: ParticleSystem, particles: Particles) -> Frame:
    """The particles in the order of their numbers, wrapped into the box."""
    own = particles.by_identity()
    position, _ = system.box.wrapped(own.position)
    velocities = np.asarray(own.momentum.rows()) / np.asarray(own.mass)[:, None]
    return Frame(
        np.asarray(position.rows()),
        np.asarray(own.species),
        system.names,
        system.cell,
        velocities,
        dict(zip(system.names, system.masses, strict=True)),
    )


class Frames:
    """The frames of a run that are wanted: none."""

    def until_next(self, step: int) -> int:
        """The steps to the next frame."""
        return MAX_STEPS

    def add(self, particles: Particles, step: int) -> None:
        """Keep a frame, if this step has one."""


class _Written(Frames):
    """Frames in a file."""

    def __init__(self, simulation: ParticleSimulation, file: TextIO):
        assert simulation.trajectory is not None
        self.simulation, self.file = simulation, file
        self.every = simulation.trajectory.every

    def until_next(self, step: int) -> int:
        return self.every - step % self.every

    def add(self, particles: Particles, step: int) -> None:
        if step % self.every:
            return
        frame, time = frame_of(self.simulation.system, particles), step * self.simulation.run.dt
        write_frame(self.file, frame, step=step, time=time)


@contextlib.contextmanager
def frames(simulation: ParticleSimulation, replica: int) -> Iterator[Frames]:
    """Frames of one replica in a file that has its name when they are complete; no file without a trajectory.

    Raises `OutputError` where it cannot be written.
    """
    if simulation.trajectory is None:
        yield Frames()
        return
    path = of_replica(simulation.trajectory.file, replica)
    with whole_file(path) as file:
        yield _Written(simulation, file)
