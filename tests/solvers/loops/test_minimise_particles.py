"""Minima of Lennard-Jones clusters, whose energies are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import (
    LennardJonesCluster,
    at_rest,
    dynamics,
    icosahedron,
    truncated_octahedron,
)
from simkit_solvers import (
    FIRE,
    UnconvergedMinimumError,
    largest_force,
    minimise_particles,
    simulate_particles,
)

# Wales & Doye (1997), Global optimization by basin-hopping, doi:10.1021/jp970984n.
CLUSTERS = {13: icosahedron(1), 38: truncated_octahedron(), 55: icosahedron(2)}
ENERGIES = {13: -44.3268014195, 38: -173.9284265906, 55: -279.2484704630}


@pytest.mark.parametrize(
    "atoms", [13, pytest.param(38, marks=pytest.mark.more), pytest.param(55, marks=pytest.mark.slow)]
)
def test_perturbed_clusters_find_their_minimum(atoms):
    rows = CLUSTERS[atoms]
    assert len(rows) == atoms
    moved = rows + 0.05 * np.random.default_rng(atoms).standard_normal(rows.shape)
    forces = LennardJonesCluster()
    assert forces.energy(jnp.asarray(moved)) > ENERGIES[atoms] + 1
    state = minimise_particles(forces, at_rest(moved), 0.01, 1e-7).state
    assert float(forces.energy(state.particles.position.rows())) == pytest.approx(ENERGIES[atoms], abs=5e-10)
    assert float(largest_force(state)) <= 1e-7
    assert int(state.step) < 1500
    assert not np.any(state.particles.momentum.rows())


def test_steps_are_those_of_the_paper_downhill_and_uphill():
    """Algorithm 2 of Guénolé et al. (2020), doi:10.1016/j.commatsci.2020.109584, written again for a pair."""
    forces, dt, fire = LennardJonesCluster(), 0.03, FIRE(delay=3)
    x = np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0]])
    slope = jax.jit(jax.grad(forces.energy))
    moving = dynamics(forces, fire, dt)
    state = moving.start(at_rest(x))
    v, h, weight, downhill, uphill = np.zeros_like(x), dt, 0.25, 0, 0
    for _ in range(60):
        force = -np.asarray(slope(jnp.asarray(x)))
        if np.sum(force * v) >= 0:
            if downhill > 3:
                h, weight = min(1.1 * h, 10 * dt), 0.99 * weight
            downhill += 1
        else:
            h, weight, downhill, uphill = max(0.5 * h, 0.02 * dt), 0.25, 0, uphill + 1
            x, v = x - 0.5 * h * v, np.zeros_like(v)
        v = v + h * force
        v = (1 - weight) * v + weight * np.linalg.norm(v) * force / np.linalg.norm(force)
        x = x + h * v
        state = simulate_particles(moving, state, 1).state
        np.testing.assert_allclose(state.particles.position.rows(), x, atol=1e-9)
    assert uphill >= 3


def test_overlapping_particles_come_apart_in_short_moves():
    rows = icosahedron(1)
    rows[3] = rows[4] + 1e-4
    run = minimise_particles(LennardJonesCluster(), at_rest(rows), 0.01, 1e-5, method=FIRE(furthest=0.1))
    assert float(LennardJonesCluster().energy(run.state.particles.position.rows())) < -30


def test_a_minimum_that_is_not_reached_is_an_error():
    moved = CLUSTERS[13] + 0.05 * np.random.default_rng(1).standard_normal((13, 3))
    with pytest.raises(UnconvergedMinimumError, match=r"largest force is .* after 60 steps of FIRE") as error:
        minimise_particles(LennardJonesCluster(), at_rest(moved), 0.01, 1e-7, most_steps=60)
    assert error.value.force > 1e-7
    assert int(error.value.run.state.step) == 60


def test_a_step_is_short_beside_the_cutoff_unless_its_length_is_given():
    assert FIRE().for_cutoff(2.0).furthest == pytest.approx(0.1)
    assert FIRE(furthest=0.3).for_cutoff(2.0).furthest == 0.3
