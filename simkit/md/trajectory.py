"""Files of positions along a run and at its end: complete when it ends, absent if it fails."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
from simkit_physics.particles.units import LJ
from simkit_solvers import Particles

from simkit.config.settings.values import MAX_STEPS
from simkit.errors import OutputError
from simkit.md.files.dcd import AKMA, dcd_frames
from simkit.md.files.frame import Frame
from simkit.md.files.frame_store import FrameStore, frame_store
from simkit.md.files.lammps_data import lammps_data
from simkit.md.files.library import ANGSTROM
from simkit.md.files.xyz import write_frame
from simkit.md.simulation import ParticleSimulation
from simkit.records.incomplete import incomplete
from simkit.records.recording import Recording, current
from simkit.results.storage import FRAMES, check_folder_of, check_output
from simkit.results.variables import Variables, variable

FORMAT = 1
STORE = ".zarr"  # one for all replicas
Write = Callable[[Frame, int], None]  # a frame, and its number from 0


def of_replica(file: Path, replica: int) -> Path:
    """The file of a replica: that of the first has the name that was given."""
    return file if replica == 0 else file.with_name(f"{file.stem}.{replica}{file.suffix}")


def files_of(simulation: ParticleSimulation) -> list[Path]:
    """The files of positions that a run writes, by the names that were given."""
    files = [simulation.end] if simulation.end else []
    return files + ([simulation.trajectory.file] if simulation.trajectory else [])


def check_trajectory(
    simulation: ParticleSimulation, overwrite: bool, target: str | os.PathLike | None
) -> None:
    """Raise `OutputError` where files of positions exist, or cannot be made; `target` is the dataset's."""
    for file in files_of(simulation):
        if target is not None and os.path.realpath(file) == os.path.realpath(target):
            raise OutputError(f"{file}: is the dataset too; give the trajectory a name of its own")
        if file.suffix == STORE:
            check_output(file, overwrite)
            continue
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
    frame = frame_of(simulation, particles)
    with whole_file(of_replica(simulation.end, replica)) as path, path.open("w", encoding="utf-8") as file:
        if simulation.end.suffix == ".xyz":
            write_frame(file, frame, step=simulation.run.steps)
        else:
            file.write(lammps_data(frame, simulation.system.units.name))


@contextlib.contextmanager
def whole_file(path: Path, record: Recording | None = None) -> Iterator[Path]:
    """The name of a file to write, which has its own when it is complete.

    With a `record`, it stays where the run stops. Raises `OutputError` where it cannot be written.
    """
    named = incomplete(path) if record is None else contextlib.nullcontext(record.partial(path))
    try:
        with named as temporary:
            yield temporary
            os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written: {error.strerror or error}") from error


def frame_of(simulation: ParticleSimulation, particles: Particles) -> Frame:
    """The particles in the order of their numbers, in the box, with velocities if those mean something."""
    own, system = particles.by_identity(), simulation.system
    position, turns = system.box.wrapped(own.position)
    velocities = None
    if simulation.run.method.degrees_of_freedom(own.count):
        velocities = np.asarray(own.momentum.rows()) / np.asarray(own.mass)[:, None]
    return Frame(
        np.asarray(position.rows()),
        np.asarray(own.species),
        system.names,
        system.cell,
        velocities,
        dict(zip(system.names, system.masses, strict=True)),
        np.asarray(own.image.rows()) + np.asarray(turns.rows()),
    )


class Frames:
    """The frames of a run that are wanted: none."""

    def until_next(self, step: int) -> int:
        """The steps to the next frame."""
        return MAX_STEPS

    def add(self, particles: Particles, step: int) -> None:
        """Keep a frame, if this step has one."""

    def end(self) -> int:
        """Where the file ends that has all frames so far, which is on the disk then."""
        return 0


class _Written(Frames):
    """A frame every few steps, as a format writes it into a file."""

    def __init__(self, simulation: ParticleSimulation, write: Write, flushed: Callable[[], int] = int):
        assert simulation.trajectory is not None
        self.simulation, self.write, self.every = simulation, write, simulation.trajectory.every
        self.flushed = flushed

    def end(self) -> int:
        return self.flushed()

    def until_next(self, step: int) -> int:
        return self.every - step % self.every

    def add(self, particles: Particles, step: int) -> None:
        if step % self.every == 0:
            self.write(frame_of(self.simulation, particles), step // self.every)


# The frames of a replica, and where its file ended in the process that it goes on from.
OfReplica = Callable[[int, int | None], contextlib.AbstractContextManager[Frames]]


@contextlib.contextmanager
def trajectory_of(simulation: ParticleSimulation, resumed: bool) -> Iterator[OfReplica]:
    """What opens the frames of a replica, in files that have their names when they are complete.

    Where a run is `resumed`, there are some already. Raises `OutputError` where they cannot be written, or
    those that there were are gone.
    """
    record = current()
    if simulation.trajectory is None:
        yield lambda replica, end: contextlib.nullcontext(Frames())
    elif simulation.trajectory.file.suffix == STORE:
        with _store(simulation, record, resumed) as store:
            yield lambda replica, end: contextlib.nullcontext(_in_store(simulation, store, replica))
    else:
        yield lambda replica, end: _in_own_file(simulation, replica, record, end)


@contextlib.contextmanager
def _in_own_file(
    simulation: ParticleSimulation, replica: int, record: Recording | None, end: int | None
) -> Iterator[Frames]:
    planned = simulation.trajectory
    assert planned is not None
    file = of_replica(planned.file, replica)
    if planned.file.suffix == ".dcd":
        with whole_file(file) as path, _dcd(simulation, path) as write:
            yield _Written(simulation, write)
    elif record is not None and end is not None and not record.partial(file).exists() and file.exists():
        yield Frames()  # it was complete when the process ended
    else:
        with whole_file(file, record) as path, _xyz(path, end) as text:
            every, dt = planned.every, simulation.run.dt

            yield _Written(
                simulation,
                lambda frame, i: write_frame(text, frame, step=i * every, time=i * every * dt),
                lambda: _end_of(text),
            )


def _end_of(text: TextIO) -> int:
    """Where a file ends, which is on the disk then."""
    text.flush()
    os.fsync(text.fileno())
    return text.tell()


@contextlib.contextmanager
def _xyz(path: Path, end: int | None) -> Iterator[TextIO]:
    """A new file, or one that is there up to its `end`."""
    if end is None:
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    if not path.exists() or path.stat().st_size < end:
        raise OutputError(f"{path}: has fewer frames than were recorded; to start anew use --overwrite")
    with path.open("r+", encoding="utf-8") as file:
        file.truncate(end)
        file.seek(end)
        yield file


@contextlib.contextmanager
def _dcd(simulation: ParticleSimulation, path: Path) -> Iterator[Write]:
    """In Å and the format's unit of time; reduced units stay as they are."""
    system, run, planned = simulation.system, simulation.run, simulation.trajectory
    assert planned is not None
    units, length, time = system.units, 1.0, 1.0
    if units != LJ:
        length, time = units.size("length") / ANGSTROM, units.size("time") / AKMA
    title = f"simkit, units {units.name}: lengths in {'sigma' if units == LJ else 'angstrom'}"
    periodic = system.cell is not None
    with dcd_frames(path, system.count, planned.every, run.dt * time, periodic, title) as write:
        yield lambda frame, i: write(frame.scaled(length, 1.0))


def _in_store(simulation: ParticleSimulation, store: FrameStore, replica: int) -> Frames:
    def flushed() -> int:
        store.flush(replica)
        return 0

    return _Written(simulation, lambda frame, i: store.write(replica, i, frame), flushed)


def _store(
    simulation: ParticleSimulation, record: Recording | None, resumed: bool
) -> contextlib.AbstractContextManager[FrameStore]:
    """The dataset of the frames of all replicas."""
    system, run, planned = simulation.system, simulation.run, simulation.trajectory
    assert planned is not None
    steps = np.arange(0, run.steps + 1, planned.every)
    label = system.units.label
    variables = (
        particle_variables(simulation)
        | axis_coordinate()
        | {
            "path": variable(("path",), np.arange(simulation.paths), "1", "replica"),
            "time": variable(("time",), steps * run.dt, label("time"), "time"),
            "step": variable(("time",), steps, "1", "steps since the start of the run"),
        }
    )
    units = {"position": label("length"), "image": "1", "velocity": label("length/time")}
    if not run.method.degrees_of_freedom(system.count):
        del units["velocity"]
    dtype = np.dtype(np.float32 if simulation.precision == "float32" else np.float64)
    attributes = {
        "simkit_format": FORMAT,
        "simkit_kind": FRAMES,
        "units": system.units.name,
        "species": " ".join(system.names),
    }
    return frame_store(planned.file, variables, units, dtype, attributes, record, resumed)


def axis_coordinate() -> Variables:
    """The names of the axes."""
    return {"axis": variable(("axis",), np.array(["x", "y", "z"], object), "1", "axis")}


def particle_variables(simulation: ParticleSimulation) -> Variables:
    """What a dataset says of each particle that does not change, and of the box."""
    system, label = simulation.system, simulation.system.units.label
    own = system.particles
    variables = {
        "particle": variable(("particle",), np.arange(system.count), "1", "number of the particle"),
        "particle_species": variable(("particle",), np.asarray(own.species), "1", "species, by number"),
        "particle_mass": variable(("particle",), np.asarray(own.mass), label("mass"), "mass"),
    }
    if system.cell is not None:
        vectors = variable(("vector", "axis"), system.cell.vectors, label("length"), "box vectors, as rows")
        variables |= {"box_vectors": vectors}
    return variables
