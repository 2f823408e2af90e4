"""Energy, pressure and forces of one configuration: `simkit.single_point`."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from simkit.config.overrides import Overrides
from simkit.errors import InputError
from simkit.md.experiment import load_particles


class SinglePoint(NamedTuple):
    """One configuration, in the units of the experiment.

    `energy` is the potential energy of the whole system. `pressure` has the components xx, yy, zz, xy, xz
    and yz, with the motion of particles if the experiment gives them velocities, and with its mean if the
    solver is `BrownianDynamics`; it is `None` in free space. `forces` are in the order of the positions.

    >>> import simkit
    >>> fluid = {
    ...     "system": {"lattice": {"type": "fcc", "cells": 3, "density": 0.85}},
    ...     "potential": {"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": 2.0},
    ...     "time": {"steps": 1, "dt": 0.001},
    ... }
    >>> point = simkit.single_point(fluid)
    >>> point.forces.shape, point.pressure.shape
    ((108, 3), (6,))
    """

    energy: float
    pressure: Float[np.ndarray, "6"] | None
    forces: Float[np.ndarray, "particles 3"]


def single_point(
    source: str | os.PathLike | Mapping[str, Any],
    positions: Float[ArrayLike, "particles 3"] | None = None,
    *,
    overrides: Overrides = (),
    variant: str | None = None,
) -> SinglePoint:
    """The energy, pressure and forces of an experiment of molecular dynamics, at its initial positions.

    With `positions`, at these: they are in the order of the particles of the experiment, and wrapped into its
    box. `variant` names one of an experiment that has several. Nothing is written. Raises `InputError` that
    lists every error, also for positions of another shape and for two particles at the same place.

    >>> import numpy as np
    >>> import simkit
    >>> fluid = {
    ...     "system": {"lattice": {"type": "fcc", "cells": 3, "density": 0.85}},
    ...     "potential": {"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": 2.0},
    ...     "time": {"steps": 1, "dt": 0.001},
    ... }
    >>> point = simkit.single_point(fluid)
    >>> round(point.energy / len(point.forces), 3)
    -5.502
    >>> bool(np.abs(point.forces).max() < 1e-9)  # on a perfect lattice
    True
    """
    simulation = load_particles(source, overrides, variant)
    from simkit.md.replicas import run_particles
    from simkit.md.simulation import at_positions, without_steps

    simulation = without_steps(simulation)
    if positions is not None:
        rows = np.asarray(positions)
        expected = (simulation.system.count, 3)
        if rows.shape != expected or not np.all(np.isfinite(rows)):
            raise InputError(f"positions: must be finite numbers in the shape {expected}, got {rows.shape}")
        simulation = at_positions(simulation, rows)
    result = run_particles(simulation)
    with jax.enable_x64(True):
        measured = result.measured
    forces = result.replicas[0].forces
    assert forces is not None
    pressure = None
    if simulation.system.cell is not None:
        from simkit.md.quantities import COMPONENTS

        pressure = np.array([float(measured.component(ab)[0, 0]) for ab in COMPONENTS])
    return SinglePoint(float(measured.potential[0, 0]), pressure, forces)
