"""A simulation of particles, ready to run: what the sections of an experiment mean together."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float
from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.potentials.truncation import AbstractTruncation
from simkit_physics.particles.units import UnitSystem
from simkit_solvers import AbstractParticleMethod, Particles, Vector

from simkit.config.settings import ParticleExperiment
from simkit.expressions import Expression
from simkit.md.files.frame import Cell


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """Steps of one method. The last stage is the run that is measured, every `every` steps."""

    name: str
    method: AbstractParticleMethod
    dt: float
    steps: int


@dataclasses.dataclass(frozen=True)
class ScalarObservable:
    """An expression of quantities and constants, with its unit where that is known."""

    name: str
    expression: Expression
    unit: str


@dataclasses.dataclass(frozen=True)
class RadialObservable:
    """The radial distribution function, in `bins` bins up to `longest`."""

    name: str
    bins: int
    longest: float


Observable = ScalarObservable | RadialObservable


@dataclasses.dataclass(frozen=True)
class PlannedTrajectory:
    """A file of frames, one every `every` steps."""

    file: Path
    every: int


@dataclasses.dataclass(frozen=True)
class ParticleSimulation:
    """An experiment of molecular dynamics, read and checked.

    `particles` are at their initial positions, with velocities where a file gives them; `temperature` is
    that of velocities to be drawn. `cell` is the box as files know it, and `None` in free space; `names` and
    `masses` are by species. `tail` is the correction for pairs beyond the cutoff: energy, and pressure in
    energy per volume.
    """

    experiment: ParticleExperiment
    particles: Particles
    box: AbstractBox
    cell: Cell | None
    names: tuple[str, ...]
    masses: tuple[float, ...]
    temperature: float | None
    units: UnitSystem
    potential: AbstractTruncation
    tail: tuple[float, float]
    stages: tuple[PlannedStage, ...]
    every: int
    observables: Mapping[str, Observable]
    constants: Mapping[str, float]
    paths: int
    seed: int
    threads: int | None
    precision: str
    trajectory: PlannedTrajectory | None

    @property
    def production(self) -> PlannedStage:
        """The stage that is measured."""
        return self.stages[-1]

    @property
    def volume(self) -> float:
        """The volume of the box; infinite in free space."""
        return float(self.box.volume)


def still(simulation: ParticleSimulation) -> ParticleSimulation:
    """One replica of the same system with no step, no observables and no trajectory: a single point."""
    production = dataclasses.replace(simulation.production, steps=0)
    return dataclasses.replace(
        simulation, stages=(production,), paths=1, observables={}, trajectory=None, every=1
    )


def at_positions(
    simulation: ParticleSimulation, rows: Float[np.ndarray, "particles 3"]
) -> ParticleSimulation:
    """The same system with its particles at these positions."""
    with jax.enable_x64(True):
        position = Vector.of(np.asarray(rows, np.float64))
        return dataclasses.replace(simulation, particles=simulation.particles.moved(position))
