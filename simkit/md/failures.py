"""What becomes of lists that are too small, and of a step that blows up."""

from typing import Any

import jax.numpy as jnp
from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.choice import MEMORY, enlarged
from simkit_physics.particles.density import Snapshot
from simkit_physics.particles.listed_forces import ListedForces
from simkit_physics.particles.overlaps import Overlap, closest_overlap
from simkit_solvers import Particles, UnstableStepError
from simkit_solvers.problems.particles import AbstractForces

from simkit.config.settings.system import System
from simkit.errors import NumericalError
from simkit.machine.freed_memory import give_back_freed_memory
from simkit.machine.memory import available_memory
from simkit.md.programs import on_host
from simkit.md.simulation import ParticleSimulation

HARDLY = 0.9  # of the distance where the energy of a pair is zero: nearer particles overlap


def larger_lists(forces: AbstractForces, particles: Particles, listed: Any) -> tuple[Any, Particles]:
    """Forces with lists that have room; raises `NumericalError` where half the memory there is has none."""
    give_back_freed_memory()  # what is larger does not fit where a smaller program had its arrays
    available = available_memory()
    try:
        return enlarged(forces, particles, listed, MEMORY if available is None else available / 2)
    except ValueError as error:
        raise NumericalError(str(error)) from error


def why_it_blew_up(
    error: UnstableStepError,
    dt: float,
    forces: ListedForces | AllPairs,
    before: Particles | None,
    simulation: ParticleSimulation,
) -> str:
    """Which particle went too far, and what to do.

    `before` are the particles at the start of a stage that has hardly begun: the two closest of them may have
    been too close, and then the message says what may have put them there.
    """
    called, section = simulation.system.called, simulation.experiment.system
    remedy, closest = error.remedy, ""
    pair = None if before is None else _closest(forces, on_host(before).by_identity())
    if pair is not None:
        overlap, apart = pair
        closest = f"; before, the closest were {called.of(overlap.one, overlap.other)}, at a distance of "
        closest += f"{overlap.distance:.3g}"
        if apart:
            remedy = "no particles overlap, so take a smaller time step, or check the units"
        else:
            closest += _packing(section)
    return f"{called.of(error.particle)} {error.what}; {remedy}; dt is {dt:g} here{closest}"


def _closest(forces: ListedForces | AllPairs, particles: Particles) -> tuple[Overlap, bool] | None:
    """The closest two particles, and whether they are hardly nearer than where their energy is negative."""
    overlap = closest_overlap(Snapshot.of(particles, forces.box), forces.box, float(forces.cutoff))
    if overlap is None:
        return None
    one, other = (jnp.asarray(particles.species[each]) for each in (overlap.one, overlap.other))
    energy = forces.potential.of_pair(one, other).energy(jnp.asarray((overlap.distance / HARDLY) ** 2))
    return overlap, bool(energy <= 0)


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
