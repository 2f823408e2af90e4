"""The section `system`: which particles there are, where, and how fast."""

from typing import Annotated, Any, Literal

from pydantic import Field

from simkit.config.settings.values import (
    EXPRESSION_SCHEMA,
    ONE_OF,
    NumberOrExpression,
    Section,
    Text,
    checked,
    number,
    whole,
    whole_number,
    wrong,
)
from simkit.suggestions import shown

MAX_CELLS = 10_000
MAX_PARTICLES = 100_000_000
_THREE_NUMBERS = {"type": "array", "items": EXPRESSION_SCHEMA, "minItems": 3, "maxItems": 3}


def _cells(value: Any) -> list[int]:
    if isinstance(value, list):
        if len(value) != 3:
            raise wrong(f"must be a whole number or three of them, got {shown(value)}")
        return [whole_number(each, 1, MAX_CELLS) for each in value]
    return [whole_number(value, 1, MAX_CELLS)] * 3


def _three(value: Any) -> list[float | str]:
    if not isinstance(value, list) or len(value) != 3:
        raise wrong(f"must be three numbers such as [10, 10, 10], got {shown(value)}")
    return [number(each) for each in value]


_CELLS_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 3, "maxItems": 3},
    ]
}
Cells = Annotated[list[int], *checked(_cells, _CELLS_SCHEMA)]
Three = Annotated[list[float | str], *checked(_three, _THREE_NUMBERS)]


class Lattice(Section):
    """Particles on a lattice that fills a periodic box."""

    type: Annotated[Literal["sc", "bcc", "fcc", "diamond"], ONE_OF] = Field(
        description="Simple cubic, body-centred, face-centred or diamond: 1, 2, 4 or 8 particles a cell.",
        examples=["fcc"],
    )
    cells: Cells = Field(
        description="The number of unit cells along each side: one number, or three.",
        examples=[10, [20, 20, 20]],
    )
    density: NumberOrExpression | None = Field(
        None, description="Particles per volume. Give either density or spacing.", examples=[0.8442]
    )
    spacing: NumberOrExpression | None = Field(
        None, description="Instead of density: the side of the unit cell.", examples=[5.26]
    )


class RandomPlacement(Section):
    """Particles at random places, none nearer to another than a least distance."""

    count: Annotated[int, *whole(1, MAX_PARTICLES)] = Field(
        description="The number of particles.", examples=[1000]
    )
    least_distance: NumberOrExpression = Field(
        description="No two particles are nearer to each other than this.", examples=[0.8]
    )
    density: NumberOrExpression | None = Field(
        None, description="Particles per volume of a cubic box. Give either this, or `box`.", examples=[0.3]
    )


class Box(Section):
    """The box: periodic with these sides, or free space."""

    sides: Three | None = Field(
        None, description="The sides of a periodic box.", examples=[[10.0, 10.0, 10.0]]
    )
    tilts: Three | None = Field(
        None,
        description="The tilts xy, xz and yz of a triclinic box with the vectors (lx, 0, 0), (xy, ly, 0) and "
        "(xz, yz, lz).",
        examples=[[1.0, 0.0, 0.0]],
    )
    free: bool = Field(
        False, description="Instead of sides: free space, without a boundary.", examples=[True]
    )


class SpeciesSettings(Section):
    """One species of particles."""

    mass: NumberOrExpression | None = Field(
        None,
        description="The mass of a particle; by default 1 in Lennard-Jones units, else the file's.",
        examples=[39.948],
    )
    fraction: NumberOrExpression | None = Field(
        None,
        description="Of a lattice or random places: the fraction of the particles that are of this species. "
        "One species may leave it out and takes the rest.",
        examples=[0.8],
    )


class Velocities(Section):
    """Velocities drawn from the Maxwell–Boltzmann distribution; total momentum is zero."""

    temperature: NumberOrExpression = Field(
        description="The temperature, which the velocities have exactly.", examples=[1.44]
    )


class System(Section):
    """Particles: from a lattice, at random places or from a file; exactly one of these."""

    units: Annotated[Literal["lj", "metal", "real", "si"], ONE_OF] = Field(
        "lj",
        description="The units of all numbers in the file and in the results, as in LAMMPS: reduced, "
        "eV-Å-ps, kcal/mol-Å-fs, or SI.",
    )
    lattice: Lattice | None = Field(
        None,
        description="Particles on a lattice.",
        examples=[{"type": "fcc", "cells": 10, "density": 0.8442}],
    )
    random: RandomPlacement | None = Field(
        None,
        description="Particles at random places.",
        examples=[{"count": 1000, "density": 0.3, "least_distance": 0.8}],
    )
    file: Text | None = Field(
        None,
        description="A file of positions, relative to the folder of the experiment: extended XYZ (.xyz) or "
        "PDB (.pdb), of which the last frame is used, LAMMPS data (.data) or GRO (.gro); or the dataset of a "
        "run (.zarr, .nc), which goes on. Velocities in it are used unless `velocities` is given.",
        examples=["melt.data", "frame.xyz", "melt.zarr"],
    )
    box: Box | None = Field(
        None,
        description="The box of random places, or of a file, in place of its own: {sides: [lx, ly, lz]}, "
        "with `tilts` for a triclinic one, or {free: true}.",
        examples=[{"sides": [10.0, 10.0, 10.0]}],
    )
    species: dict[str, SpeciesSettings] = Field(
        default_factory=dict,
        description="The species by name, with mass and fraction. The default is one species, A, of mass 1.",
        examples=[{"A": {"mass": 1.0, "fraction": 0.8}, "B": {"mass": 1.0}}],
    )
    velocities: Velocities | None = Field(
        None,
        description="Initial velocities; without them those of the file, or zero.",
        examples=[{"temperature": 1.44}],
    )
