"""What becomes of lists that are too small, and of a step that blows up."""

from typing import Any

from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.choice import MEMORY, enlarged
from simkit_physics.particles.density import Snapshot
from simkit_physics.particles.listed_forces import ListedForces
from simkit_physics.particles.overlaps import closest_overlap
from simkit_solvers import Particles
from simkit_solvers.problems.particles import AbstractForces

from simkit.config.settings.system import System
from simkit.errors import NumericalError
from simkit.machine.freed_memory import give_back_freed_memory
from simkit.machine.memory import available_memory
from simkit.md.programs import on_host


def larger_lists(forces: AbstractForces, particles: Particles, listed: Any) -> tuple[Any, Particles]:
    """Forces with lists that have room; raises `NumericalError` where half the memory there is has none."""
    give_back_freed_memory()  # what is larger does not fit where a smaller program had its arrays
    available = available_memory()
    try:
        return enlarged(forces, particles, listed, MEMORY if available is None else available / 2)
    except ValueError as error:
        raise NumericalError(str(error)) from error


def closest_pair(forces: ListedForces | AllPairs, particles: Particles, section: System) -> str:
    """Which two particles were the closest, and what may have put them there, to end a message."""
    particles = on_host(particles)
    overlap = closest_overlap(Snapshot.of(particles, forces.box), forces.box, float(forces.cutoff))
    if overlap is None:
        return ""
    pair = f"{overlap.one} and {overlap.other}"
    where = f"; before, the closest particles were {pair}, at a distance of {overlap.distance:.3g}"
    return where + _packing(section)


def _packing(section: System) -> str:
    """What may have put particles too close to each other, where that is a number of the file."""
    for key in ("lattice", "random"):
        place = getattr(section, key)
        for name, fault in (("density", "high"), ("spacing", "small")):
            given = getattr(place, name, None)
            if given is not None:
                value = given if isinstance(given, str) else f"{given:g}"
                return f"; if that is too close, system.{key}.{name}, {value}, may be too {fault}"
    return ""
