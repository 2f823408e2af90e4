"""An experiment of molecular dynamics: all sections together.

A file with the key `system` is one.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr

from simkit.config.documents import Document
from simkit.config.settings.potential import Potential
from simkit.config.settings.schedule import CurveSettings
from simkit.config.settings.sensitivity import ParticleSensitivity
from simkit.config.settings.sweep import Sweep
from simkit.config.settings.system import System
from simkit.config.settings.values import (
    MAX_STEPS,
    MAX_THREADS,
    PRECISION,
    DatasetName,
    NumberOrExpression,
    Section,
    Shorthand,
    TypeName,
    VariantSettings,
    checked,
    text,
    whole,
    wrong,
)
from simkit.suggestions import shown

POTENTIAL, SYSTEM = "potential", "system"
MAX_REPLICAS = 2**20
TRAJECTORIES = (".xyz", ".dcd", ".zarr")
CONFIGURATIONS = (".xyz", ".data")


def _ending_in(endings: tuple[str, ...]) -> list:
    """Annotates the name of a file that ends in one of these."""

    *rest, last = endings
    listed = f"{', '.join(rest)} or {last}"

    def check(value: Any) -> str:
        name = text(value)
        if not name.endswith(endings):
            raise wrong(f"must end in {listed}, got {shown(name)}")
        return name

    pattern = "|".join(ending.removeprefix(".") for ending in endings)
    return checked(check, {"type": "string", "pattern": f"\\.({pattern})$"})


class Integrator(Section):
    """A method of molecular dynamics by its class name, with its options."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any]

    type: TypeName = Field(
        description="Name of the method; `simkit list` shows all.", examples=["VelocityVerlet"]
    )


class ParticleTime(Section):
    """The step and the number of steps."""

    dt: NumberOrExpression | None = Field(
        None, description="The length of a step; may be an expression of constants.", examples=[0.005]
    )
    steps: Annotated[int, *whole(0, MAX_STEPS)] = Field(
        description="The number of steps. With 0, energy, pressure and forces of the initial positions are "
        "computed.",
        examples=[10000],
    )


class Replicas(Section):
    """How many independent systems are simulated."""

    paths: Annotated[int, *whole(1, MAX_REPLICAS)] = Field(
        1,
        description="The number of replicas, each with its own velocities and noise; statistics are over "
        "all of them. Several need velocities that are drawn, or a method with noise.",
        examples=[64],
    )
    seed: Annotated[int, *whole(0, 2**64 - 1)] = Field(
        0, description="The same seed gives the same results; 0 is a seed like any other.", examples=[87287]
    )
    threads: Annotated[int, *whole(1, MAX_THREADS)] | None = Field(
        None,
        description="The largest number of threads: of replicas at a time, or of those that share one large "
        "system; by default one for each core. Replicas do not depend on it, one system by round-off only.",
        examples=[2],
    )


class Trajectory(Section):
    """Positions along a run, and velocities where the format has them, in a file."""

    file: Annotated[str, *_ending_in(TRAJECTORIES)] = Field(
        description="The file: extended XYZ (.xyz) or DCD (.dcd), where replica i > 0 has a file of its own, "
        "with i in its name; or a Zarr dataset of its own (.zarr), which holds all replicas.",
        examples=["melt.xyz", "melt.dcd", "melt_frames.zarr"],
    )
    every: Annotated[int, *whole(1)] = Field(
        description="The steps from one frame to the next; a multiple of save.every.", examples=[100]
    )


class ParticleSave(Section):
    """What is saved."""

    every: Annotated[int, *whole(1)] | None = Field(
        None,
        description="The steps from one measurement to the next; must divide the number of steps. The "
        "default is the largest divisor of the steps that is at most 10.",
        examples=[20],
    )
    trajectory: Trajectory | None = Field(
        None,
        description="Positions along the run.",
        examples=[{"file": "melt.xyz", "every": 100}],
    )
    end: Annotated[str, *_ending_in(CONFIGURATIONS)] | None = Field(
        None,
        description="A file of positions and velocities at the end, extended XYZ (.xyz) or LAMMPS data "
        "(.data), from which another run can start by `system: {file: …}`. Replica i > 0 has i in its name.",
        examples=["end.data"],
    )


class Stage(Section):
    """What happens before the run that is measured."""

    solver: Annotated[Integrator, Shorthand("type")] | None = Field(
        None, description="The method of this stage; by default that of the run.", examples=["FIRE"]
    )
    dt: NumberOrExpression | None = Field(
        None, description="The length of a step; by default that of the run.", examples=[0.002]
    )
    steps: Annotated[int, *whole(1, MAX_STEPS)] = Field(description="The number of steps.", examples=[2000])


class ParticleObservable(Section):
    """What is measured; exactly one key."""

    value: NumberOrExpression | None = Field(
        None,
        description="An expression of temperature, pressure, potential_energy, kinetic_energy, total_energy, "
        "conserved_energy, volume, density, atoms, pressure_xx, …, pressure_yz, and constants.",
        examples=["potential_energy/atoms"],
    )


class ParticleExperiment(Section):
    """Everything about a run of molecular dynamics."""

    constants: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Names for use anywhere below: numbers, or expressions of earlier constants.",
        examples=[{"T": 1.44}],
    )
    curves: dict[str, CurveSettings] = Field(
        default_factory=dict,
        description="Temperatures that change with time, by name, for the temperature of a method. The time "
        "is that since the start of its stage.",
        examples=[{"cooling": {"times": [0, 100], "values": [2.0, 0.8]}}],
    )
    system: System = Field(
        description="The particles: units, positions, box, species and velocities.",
        examples=[{"lattice": {"type": "fcc", "cells": 10, "density": 0.8442}}],
    )
    potential: Potential = Field(
        description="The energy of a pair of particles: a potential by name, or an expression of r.",
        examples=[{"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": 2.5}],
    )
    solver: Annotated[Integrator, Shorthand("type")] = Field(
        default_factory=lambda: Integrator(type="VelocityVerlet"),
        description="Name of the method, or {type: name, option: …}. The default is VelocityVerlet, at "
        "constant energy.",
        examples=["VelocityVerlet", {"type": "BAOAB", "temperature": 0.8, "friction": 1.0}],
    )
    time: ParticleTime = Field(
        description="Length and number of the steps, such as {dt: 0.005, steps: 10000}.",
        examples=[{"dt": 0.005, "steps": 10000}],
    )
    stages: dict[str, Stage] = Field(
        default_factory=dict,
        description="What happens before the run, in this order, and is not measured: by name, each with its "
        "own method and number of steps.",
        examples=[{"minimise": {"solver": "FIRE", "steps": 500}, "equilibrate": {"steps": 5000}}],
    )
    ensemble: Replicas = Field(
        default_factory=lambda: Replicas(),
        description="The number of replicas, and the seed.",
        examples=[{"paths": 1, "seed": 87287}],
    )
    precision: Annotated[Literal["float32", "mixed", "float64"], PRECISION] = Field(
        "float64",
        description="Arithmetic of the simulation; `mixed` has forces of pairs in float32, and their sums, "
        "energies and the motion in float64. SI units need float64.",
    )
    save: ParticleSave = Field(
        default_factory=lambda: ParticleSave(),
        description="When quantities are measured, and the trajectory.",
        examples=[{"every": 20}],
    )
    # With a key for each function such as g(r), which `md/experiment_section.py` adds.
    observe: dict[str, Annotated[ParticleObservable, Shorthand("value")]] = Field(
        default_factory=dict,
        description="Observables by name: an expression, or {rdf: …}. The default is temperature, pressure, "
        "potential and total energy per particle.",
        examples=[{"T": "temperature", "U": "potential_energy/atoms", "g": {"rdf": {"max": 3.0}}}],
    )
    output: DatasetName | None = Field(
        None,
        description="The dataset to write, .zarr or .nc, or .csv for a table of the statistics alone; a "
        "picture is written in the same folder. Without it only the table is printed.",
        examples=["melt.zarr"],
    )
    sensitivity: ParticleSensitivity | None = Field(
        None,
        description="What `simkit sensitivity` differentiates.",
        examples=[{"wrt": ["epsilon", "temperature"]}],
    )
    sweep: Sweep | None = Field(
        None,
        description="What `simkit sweep` varies; `simkit run` ignores it.",
        examples=[{"over": {"solver.temperature": "0.8:1.2:5"}}],
    )
    variants: VariantSettings | None = Field(
        None,
        description="Several experiments in one file, by name: each is the file with these settings "
        "changed. Keys are dotted as in --set, or sections; null removes a key.",
        examples=[{"cold": {"solver.temperature": 0.8}, "hot": {"solver.temperature": 1.2}}],
    )

    _document: Document | None = PrivateAttr(None)

    @property
    def document(self) -> Document:
        """Where the keys stand in the file, for messages."""
        return self._document or Document({})

    def resolved(self) -> dict[str, Any]:
        """The experiment as plain data, every default filled in. Loading it gives the same simulation."""
        return self.model_dump(mode="json", exclude_none=True)
