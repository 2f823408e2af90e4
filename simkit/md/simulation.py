"""A simulation of particles, ready to run: what the sections of an experiment mean together."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np
from jaxtyping import Float
from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.listed_forces import Precision
from simkit_physics.particles.potentials.truncation import AbstractTruncation
from simkit_physics.particles.units import UnitSystem
from simkit_solvers import AbstractParticleMethod, AbstractTimeFunction, Particles, Vector

from simkit.config.settings import ParticleExperiment
from simkit.experiments.constants import Constants
from simkit.expressions import Expression
from simkit.md.files.frame import Cell
from simkit.md.particle_names import FROM_ZERO, ParticleNames
from simkit.md.saved_state import SavedState

if TYPE_CHECKING:
    from simkit.md.functions import AbstractFunction


def temperature_changes(method: AbstractParticleMethod) -> bool:
    """Whether the temperature of a method changes with time."""
    return isinstance(getattr(method, "temperature", None), AbstractTimeFunction)


def conserves(method: AbstractParticleMethod) -> bool:
    """Whether exact motion would keep the conserved energy of a method."""
    along = method.conserves_along_a_curve or not temperature_changes(method)
    return along and method.ensemble in ("NVE", "NVT")


def clock_of(step: int, intervals: Iterable[int]) -> int:
    """The first number from `step` on that is a multiple of all intervals."""
    interval = math.lcm(*intervals)
    return -(-step // interval) * interval


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """Steps of one method. The last stage is the run that is measured."""

    name: str
    method: AbstractParticleMethod
    dt: float
    steps: int


def draws_energies(stages: Sequence[PlannedStage], continues: bool) -> bool:
    """Whether replicas keep energies that were drawn before the run which is measured.

    A heat bath draws them, in a stage or in the run that this one `continues`. From positions of a file or a
    lattice and velocities at exactly a temperature all replicas have the same energy.
    """
    baths = [stage for stage in stages[:-1] if stage.steps and stage.method.ensemble not in ("NVE", "none")]
    return stages[-1].method.ensemble == "NVE" and (continues or bool(baths))


@dataclasses.dataclass(frozen=True)
class EarlierRun:
    """What a run goes on from: the particles of each replica at the end of another, and its last step.

    `states` have what is needed to go on exactly; there are none where something is changed, and then
    `changed` says what. `momentum_is_conserved` is about the method of that run.
    """

    particles: tuple[Particles, ...]
    states: tuple[SavedState, ...]
    clock: int
    momentum_is_conserved: bool
    changed: str = ""

    def of_replica(self, replica: int) -> int:
        """The replica that one goes on from: the only one for all of them, or that of the same number."""
        return replica % len(self.particles)


@dataclasses.dataclass(frozen=True)
class ParticleSystem:
    """Particles and how they interact and move in the run that is measured, every `every` steps.

    `particles` are at their initial positions, with velocities where a file gives them; `temperature` is
    that of velocities to be drawn. `cell` is the box as files know it, and `None` in free space; `names` and
    `masses` are by species. `earlier` is the run that this one goes on from, and `drift` the speed of the
    whole system that was removed at the start. `tail` is the correction for pairs beyond the cutoff:
    energy, and pressure in energy per volume. `called` is what messages call particles.
    """

    particles: Particles
    box: AbstractBox
    cell: Cell | None
    names: tuple[str, ...]
    masses: tuple[float, ...]
    temperature: float | None
    units: UnitSystem
    earlier: EarlierRun | None
    drift: float
    called: ParticleNames
    potential: AbstractTruncation
    tail: tuple[float, float]
    run: PlannedStage
    every: int

    @property
    def widths(self) -> tuple[float, float, float] | None:
        """The distances between opposite faces of the box; `None` in free space."""
        x, y, z = self.box.widths
        return None if self.cell is None else (float(x), float(y), float(z))

    @property
    def volume(self) -> float:
        """The volume of the box; infinite in free space."""
        return float(jax.tree.map(np.asarray, self.box).volume)

    @property
    def count(self) -> int:
        """The number of particles."""
        return self.particles.count

    @property
    def ensemble(self) -> str:
        """What the method samples: NVE, NVT, configurations or none."""
        return self.run.method.ensemble

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the velocities."""
        return self.run.method.degrees_of_freedom(self.count)

    @property
    def interval(self) -> float:
        """The time from one measurement to the next."""
        return self.every * self.run.dt


@dataclasses.dataclass(frozen=True)
class ScalarObservable:
    """An expression of quantities and constants, with its unit where that is known."""

    expression: Expression
    unit: str


@dataclasses.dataclass(frozen=True)
class PlannedTrajectory:
    """A file of frames, one every `every` steps."""

    file: Path
    every: int


@dataclasses.dataclass(frozen=True)
class ParticleSimulation:
    """An experiment of molecular dynamics, read and checked. `stages` end with the run that is measured."""

    experiment: ParticleExperiment
    system: ParticleSystem
    stages: tuple[PlannedStage, ...]
    scalars: Mapping[str, ScalarObservable]
    functions: Mapping[str, "AbstractFunction"]
    constants: Constants
    paths: int
    seed: int
    threads: int | None
    precision: Precision
    trajectory: PlannedTrajectory | None
    end: Path | None

    @property
    def file(self) -> str:
        """The name of the file of the experiment, without its folder; empty where there is none."""
        name = self.experiment.document.name
        return Path(name).name if name and not name.startswith("<") else ""

    @property
    def run(self) -> PlannedStage:
        """The stage that is measured."""
        return self.stages[-1]

    @property
    def energies_are_drawn(self) -> bool:
        """Whether each replica keeps an energy that was drawn before the run."""
        return draws_energies(self.stages, self.system.earlier is not None)

    @property
    def all_steps(self) -> int:
        """The steps of all stages and replicas."""
        return self.paths * sum(stage.steps for stage in self.stages)


def without_steps(simulation: ParticleSimulation) -> ParticleSimulation:
    """One replica of the same system with no step, no observables and no trajectory: a single point."""
    run = dataclasses.replace(simulation.run, steps=0)
    system = dataclasses.replace(simulation.system, run=run, every=1, earlier=None)
    return dataclasses.replace(
        simulation, system=system, stages=(run,), scalars={}, functions={}, paths=1, trajectory=None, end=None
    )


def at_positions(
    simulation: ParticleSimulation, rows: Float[np.ndarray, "particles 3"]
) -> ParticleSimulation:
    """The simulation with its particles at these positions."""
    with jax.enable_x64(True):
        particles = simulation.system.particles.moved(Vector.of(np.asarray(rows, np.float64)))
    system = dataclasses.replace(simulation.system, particles=particles, called=FROM_ZERO)
    return dataclasses.replace(simulation, system=system)
