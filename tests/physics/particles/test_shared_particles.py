"""One system on several processors, which share its clusters: the same run as on one, to round-off."""

import dataclasses

import jax
import numpy as np
import pytest
from accelerator import needs_processor
from simkit_physics import LennardJones, ShiftedForce, enlarged, forces_for, lattice, with_velocities
from simkit_solvers import (
    ParticleBAOAB,
    ParticleDynamics,
    ParticleNoise,
    TotalsSeries,
    seed_key,
    simulate_particles,
)

pytestmark = needs_processor


@pytest.mark.more
@pytest.mark.parametrize(
    ("devices", "precision", "error", "places"),
    [pytest.param(2, "mixed", 1e-6, 80, marks=pytest.mark.slow), (3, "float64", 1e-11, None)],
)
def test_a_run_is_the_same_on_several_processors(devices, precision, error, places):
    """Four chunks of clusters, which three processors cannot share evenly; a list of 80 places overflows."""
    particles, box = lattice("fcc", (8,) * 3, density=0.8442)
    particles = with_velocities(particles, 1.44, seed_key(1))
    potential = ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), 2.5)
    forces, particles = forces_for(particles, box, potential, precision)
    if places is not None:
        forces = dataclasses.replace(forces, capacities=forces.capacities._replace(particles=places))
    method, noise = ParticleBAOAB(1.44, 1.0), ParticleNoise.of(seed_key(2))
    dynamics = ParticleDynamics(forces, method, 0.005, noise)
    runs = [
        simulate_particles(
            dynamics,
            dynamics.start(particles),
            30,
            TotalsSeries(10, 4),
            enlarge=enlarged,
            devices=jax.devices()[:count],
        )
        for count in (0, devices)
    ]
    enlarged_on_the_way = runs[0].dynamics.forces.capacities != forces.capacities
    assert enlarged_on_the_way == (places is not None)
    assert int(runs[0].state.renewals.count) > 1  # also on the way
    one, several = ((run.state, run.accumulator) for run in runs)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(several), strict=True):
        np.testing.assert_allclose(a, b, rtol=error, atol=error)
        assert len(b.devices()) == 1
