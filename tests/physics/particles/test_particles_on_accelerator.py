"""Lists, forces and totals in the form for accelerators, where no loop goes over parts of the system."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import as_on_accelerator, custom_calls, loops, lowered
from simkit_physics import (
    AllPairs,
    LennardJones,
    ShiftedForce,
    enlarged,
    forces_for,
    lattice,
    with_velocities,
)
from simkit_physics.particles import pair_sums
from simkit_physics.particles.neighbours import AT_ONCE, Capacities, compact
from simkit_solvers import (
    ParticleDynamics,
    Vector,
    VelocityVerlet,
    run_chunk,
    seed_key,
    simulate_particles,
)

pytestmark = pytest.mark.more

totals = eqx.filter_jit(lambda forces, particles: _totals(forces, *forces.arranged(particles)))


def _totals(forces, particles, listed):
    force, sums = forces.totals(particles, listed)
    return particles.identity, listed, forces.forces(particles, listed), force, sums


def melt(cells: int, precision: str = "float64", cutoff: float = 2.5):
    """A crystal, shaken, with velocities."""
    particles, box = lattice("fcc", (cells,) * 3, density=0.8442)
    rng = np.random.default_rng(1)
    shaken = (c + 0.05 * rng.standard_normal(c.shape) for c in particles.position)
    particles = with_velocities(particles.moved(Vector(*map(jnp.asarray, shaken))), 1.44, seed_key(1))
    return forces_for(particles, box, ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), cutoff), precision)


@pytest.mark.parametrize(
    ("cells", "cutoff", "precision", "error"),
    [
        pytest.param(6, 2.5, "float64", 1e-13, marks=pytest.mark.slow),
        pytest.param(6, 2.5, "mixed", 3e-6, marks=pytest.mark.slow),
        (2, 2.5, "float64", 1e-13),
        pytest.param(3, 1.5, "float64", 1e-13, marks=pytest.mark.slow),
    ],
)
def test_the_same_lists_and_sums(cells, cutoff, precision, error, monkeypatch):
    """Over lists, over all pairs with images, and over all pairs within the box."""
    forces, particles = melt(cells, precision, cutoff)
    if cells == 6:
        forces, particles = enlarged(forces, *eqx.filter_jit(forces.arranged)(particles))
    expected = totals(forces, particles)
    monkeypatch.setattr(pair_sums, "AT_ONCE", 5)  # so that groups are more than one part
    with as_on_accelerator():
        result = totals(forces, particles)
    for a, b in zip(*(jax.tree.leaves(each[:2]) for each in (result, expected)), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(*(jax.tree.leaves(each[2:]) for each in (result, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=error * float(jnp.max(jnp.abs(b))))


@pytest.mark.slow
def test_many_systems_are_as_each_alone():
    forces, particles = melt(2)
    momenta = Vector(*(jnp.stack([c, 0.5 * c, -c] * 3) for c in particles.position))

    def of_each(position):
        moved, listed = forces.arranged(particles.moved(position))
        return forces.totals(moved, listed)

    expected = jax.jit(jax.vmap(of_each))(momenta)
    with as_on_accelerator():
        result = jax.jit(jax.vmap(of_each))(momenta)
    for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * float(jnp.max(jnp.abs(b))))


def test_a_run_keeps_its_energy_and_needs_nothing_but_xla():
    forces, particles = melt(6)
    dynamics = ParticleDynamics(forces, VelocityVerlet(), 0.002)
    state = eqx.filter_jit(dynamics.start)(particles)
    with as_on_accelerator():
        run = simulate_particles(dynamics, state, 50, enlarge=enlarged)
        end = run.state.particles
        after = totals(run.dynamics.forces, end)[-1].energy
    before = totals(forces, particles)[-1].energy

    def kinetic(particles):
        return 0.5 * float(jnp.sum(particles.momentum.dot(particles.momentum)))

    exchanged = abs(kinetic(end) - kinetic(particles))
    assert exchanged > 50
    assert abs(float(after - before) + kinetic(end) - kinetic(particles)) < 1e-3 * exchanged
    assert not custom_calls(lowered(lambda state: run_chunk(dynamics, state, 10)[0], state))


@pytest.mark.slow
def test_a_list_that_overflows_is_noticed_and_made_again():
    """Tables as small as they can be: the run enlarges them, and its forces are those over all pairs."""
    forces, particles = melt(6)
    small = dataclasses.replace(forces, capacities=Capacities(8, 8, 8, 8, 8))
    with as_on_accelerator():
        found = eqx.filter_jit(small.arranged)(particles)[1]
        assert not bool(small.complete(found))
        dynamics = ParticleDynamics(small, VelocityVerlet(), 0.002)
        run = simulate_particles(dynamics, eqx.filter_jit(dynamics.start)(particles), 0, enlarge=enlarged)
    assert run.dynamics.forces.capacities > small.capacities
    reference = AllPairs(forces.potential, forces.box, forces.cutoff, (0, 0, 0))
    expected, _ = reference.totals(*reference.arranged(particles.by_identity()))
    places = np.argsort(np.asarray(run.state.particles.identity))[: int(particles.count)]
    for a, b in zip(run.state.force, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a)[places], b, rtol=0, atol=1e-12 * float(jnp.max(jnp.abs(b))))


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(0, marks=pytest.mark.slow),
        pytest.param(1, marks=pytest.mark.slow),
        AT_ONCE - 1,
        pytest.param(AT_ONCE, marks=pytest.mark.slow),
        AT_ONCE + 1,
        3 * AT_ONCE + 8,
    ],
)
@pytest.mark.parametrize("capacity", [8, 400])
def test_tables_and_counts_are_the_same_also_where_they_overflow(count, capacity):
    values = jnp.asarray(np.random.default_rng(count).integers(-1, 3, (count + 1, 5)), jnp.int32)

    def found():
        return compact(jnp.int32(count), 5, capacity, -1, lambda k: values[k])

    expected = found()
    with as_on_accelerator():
        result = found()
    for a, b in zip(result, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_forces_have_no_loop_over_parts():
    forces, particles = melt(6)
    particles, listed = eqx.filter_jit(forces.arranged)(particles)
    there = lowered(lambda particles: forces.forces(particles, listed), particles)
    assert loops(there) == 0
    small, few = melt(3, cutoff=1.5)
    one = eqx.filter_jit(small.arranged)(few)
    few = jax.tree.map(lambda x: jnp.stack([x] * 9), few.position)
    there = lowered(jax.vmap(lambda position: small.forces(one[0].moved(position), one[1])), few)
    assert loops(there) == 0
