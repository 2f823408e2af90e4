"""The configuration at the end of a run in its dataset, from which the box is drawn."""

from typing import Any

import numpy as np
from simkit_solvers import Particles

from simkit.md.functions.function import species_axis
from simkit.md.simulation import ParticleSystem
from simkit.md.trajectory import frame_of
from simkit.results.variables import Variables, variable

AXES = np.array(["x", "y", "z"], object)


def labelled_configuration(system: ParticleSystem, particles: Particles) -> tuple[Variables, Variables]:
    """Variables and coordinates: positions in the box and velocities in float32, by number of the particle.

    Velocities are left out where they mean nothing, and the diameters where the potential has no `sigma`.
    """
    frame, units = frame_of(system, particles), system.units
    length, own = units.label("length"), ("particle", "axis")
    species, kinds = species_axis(system)
    coordinates = {
        "particle": variable(("particle",), np.arange(system.count), "1", "number of the particle"),
        "axis": variable(("axis",), AXES, "1", "axis"),
        species: kinds,
    }
    variables = {
        "position": variable(own, frame.positions.astype(np.float32), length, "position at the end"),
        "particle_species": variable(
            ("particle",), frame.species.astype(np.int32), "1", "index of the species"
        ),
    }
    if system.ensemble != "configurations":
        assert frame.velocities is not None
        speed = units.label("length/time")
        velocities = frame.velocities.astype(np.float32)
        variables["velocity"] = variable(own, velocities, speed, "velocity at the end")
    if system.cell is not None:
        coordinates["vector"] = variable(("vector",), np.array(["a", "b", "c"], object), "1", "box vector")
        variables["box"] = variable(("vector", "axis"), system.cell.vectors, length, "vectors of the box")
    sigma = _sigma(system.potential.potential)
    if sigma is not None:
        table = np.broadcast_to(sigma, (len(system.names),) * 2)
        variables["diameter"] = variable((species,), np.diag(table), length, "sigma of the potential")
    return variables, coordinates


def _sigma(potential: Any) -> np.ndarray | None:
    """The parameter `sigma`, of a potential by its name or one that is written as an energy."""
    sigma = getattr(potential, "sigma", getattr(potential, "parameters", {}).get("sigma"))
    return None if sigma is None else np.asarray(sigma, float)
