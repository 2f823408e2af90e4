"""The velocities with which a stage begins."""

import jax
import numpy as np
import pytest
from md_examples import fluid
from simkit_solvers import Vector, seed_key
from simkit_solvers.problems.motion import REDUCED

from simkit.md.experiment import load_particles
from simkit.md.programs import Programs
from simkit.md.velocities import in_motion

LANGEVIN = {"type": "BAOAB", "temperature": 1.0, "friction": 1.0}
CHAINS = {"type": "NoseHooverChains", "temperature": 1.0, "relaxation_time": 0.5}
OUTSIDE = CHAINS | {"momentum_is_conserved": False}


@pytest.mark.parametrize(
    ("before", "run", "stays"),
    [
        (LANGEVIN, CHAINS, False),
        (OUTSIDE, "VelocityVerlet", False),
        (LANGEVIN, LANGEVIN, True),
        (LANGEVIN, OUTSIDE, True),
        (CHAINS, "VelocityVerlet", True),
        (CHAINS, LANGEVIN, True),
    ],
)
def test_a_drift_ends_where_momentum_begins_to_be_conserved(before, run, stays):
    """Noise leaves the system with a total momentum; with 3N - 3 degrees of freedom it would stay."""
    species = {"A": {"mass": 1.0, "fraction": 0.5}, "B": {"mass": 3.0}}
    stages = {"warm": {"solver": before, "steps": 5}}
    simulation = load_particles(fluid(system__species=species, stages=stages, solver=run))
    rest = simulation.system.particles
    mass = np.asarray(rest.mass)[:, None]
    v = np.random.default_rng(1).standard_normal((rest.count, 3)) + np.array([1.0, -2.0, 0.5])
    with jax.enable_x64(True):
        drifting = rest.pushed(Vector.of(mass * v))
        after = in_motion(simulation, 1, drifting, seed_key(1), 0, REDUCED, Programs())
    expected = v if stays else v - np.sum(mass * v, axis=0) / np.sum(mass)
    np.testing.assert_allclose(np.asarray(after.momentum.rows()) / mass, expected, atol=1e-13)
