"""Initial configurations: lattices, random positions, species and velocities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from all_pairs import squared_distances
from scipy import stats
from simkit_physics import lattice, particles_at_rest, random_positions, with_species, with_velocities
from simkit_physics.particles.boxes import FreeBox, OrthorhombicBox, TriclinicBox
from simkit_solvers import MotionUnits, Vector, seed_key

KEY = seed_key(5)


def box(*sides: float) -> OrthorhombicBox:
    return OrthorhombicBox(Vector(*(jnp.asarray(side) for side in sides)))


@pytest.mark.parametrize(
    ("kind", "in_cell", "shells"),
    [  # squared distances in units of the cell, and how many neighbours there are
        ("sc", 1, {1.0: 6, 2.0: 12, 3.0: 8}),
        ("bcc", 2, {0.75: 8, 1.0: 6, 2.0: 12}),
        ("fcc", 4, {0.5: 12, 1.0: 6, 1.5: 24, 2.0: 12}),
        ("diamond", 8, {0.1875: 4, 0.5: 12, 0.6875: 12, 1.0: 6}),
    ],
)
def test_lattices_have_their_shells_of_neighbours(kind, in_cell, shells):
    particles, box = lattice(kind, (4, 4, 5), spacing=1.5)
    assert particles.count == in_cell * 4 * 4 * 5
    np.testing.assert_allclose(box.sides, [6.0, 6.0, 7.5], rtol=1e-15)
    rows = np.asarray(particles.position.rows())
    assert np.all(rows >= 0)
    assert np.all(rows < np.asarray(box.sides))
    r2 = squared_distances(rows, np.asarray(box.sides)) / 1.5**2
    for distance, neighbours in shells.items():
        assert 2 * np.sum(np.abs(r2 - distance) < 1e-9) == neighbours * particles.count
    assert np.min(r2) == pytest.approx(min(shells))


def test_a_lattice_has_its_density():
    particles, box = lattice("fcc", (3, 4, 5), density=0.8442, mass=2.0)
    assert particles.count / float(box.volume) == pytest.approx(0.8442, rel=1e-14)
    assert np.all(particles.mass == 2.0)
    assert not np.any(particles.momentum.rows())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hcp", (1, 1, 1)), "must be one of sc, bcc, fcc, diamond, got 'hcp'"),
        (("fcc", (1, 0, 1)), "cells: must be three whole numbers >= 1"),
        (("fcc", (1, 1, 1)), "give either density or spacing"),
        (("fcc", (1, 1, 1), -1.0), "density: must be > 0, got -1"),
    ],
)
def test_wrong_lattices_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        lattice(*arguments[:2], density=arguments[2] if len(arguments) > 2 else None)


def test_random_particles_keep_their_distance_across_the_boundaries():
    sides = np.array([8.0, 9.0, 10.0])
    particles = random_positions(300, box(*sides), 0.95, KEY)
    rows = np.asarray(particles.position.rows())
    assert particles.count == 300
    assert np.all((rows >= 0) & (rows < sides))
    r2 = squared_distances(rows, sides)
    assert np.min(r2) >= 0.95**2
    assert np.sum(r2 < 1.1**2) > 30  # and come near each other
    for axis in range(3):  # they fill the box evenly
        assert stats.kstest(rows[:, axis] / sides[axis], "uniform").pvalue > 1e-4


def test_random_particles_keep_their_distance_in_a_tilted_box():
    sides, tilts = (6.0, 6.0, 6.0), (2.5, -1.0, 2.0)
    tilted = TriclinicBox(*(Vector(*(jnp.asarray(c) for c in each)) for each in (sides, tilts)))
    rows = np.asarray(random_positions(80, tilted, 0.9, KEY).position.rows())
    vectors = np.array([[6.0, 0, 0], [2.5, 6.0, 0], [-1.0, 2.0, 6.0]])
    shifts = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), axis=-1).reshape(-1, 3) @ vectors
    i, j = np.triu_indices(80, 1)
    images = rows[i][:, None] - rows[j][:, None] + shifts
    assert np.min(np.sum(images**2, axis=-1)) >= 0.9**2
    fractions = rows @ np.linalg.inv(vectors)
    assert np.all((fractions >= 0) & (fractions < 1))


def test_random_positions_follow_from_key_path_and_number():
    first = random_positions(50, box(6, 6, 6), 0.8, KEY).position
    assert np.array_equal(first, random_positions(50, box(6, 6, 6), 0.8, KEY).position)
    assert not np.any(np.equal(first, random_positions(50, box(6, 6, 6), 0.8, KEY, path=1).position))
    assert not np.any(np.equal(first, random_positions(50, box(6, 6, 6), 0.8, seed_key(6)).position))
    free, fewer = (random_positions(n, box(6, 6, 6), 0.0, KEY).position.rows() for n in (50, 20))
    assert np.array_equal(free[:20], fewer)


def test_random_positions_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"of 40 particles found no place 1 from the others in 1000 attempts"
    ):
        random_positions(40, box(3, 3, 3), 1.0, KEY)
    with pytest.raises(ValueError, match="random: open space has no volume; give a periodic box"):
        random_positions(10, FreeBox(), 1.0, KEY)
    with pytest.raises(ValueError, match="distance 4 is larger than the box"):
        random_positions(10, box(3, 3, 3), 4.0, KEY)


def test_a_mixture_has_its_counts_and_masses_in_random_order():
    particles, _ = lattice("fcc", (5, 5, 5), density=1.2)
    mixture = with_species(particles, [400, 100], [1.0, 3.0], KEY)
    species = np.asarray(mixture.species)
    assert np.array_equal(np.bincount(species), [400, 100])
    assert np.array_equal(mixture.mass, np.where(species == 1, 3.0, 1.0))
    places = np.flatnonzero(species == 1)
    assert abs(np.mean(places) - 249.5) < 5 * 500 / np.sqrt(12 * 100)
    assert not np.array_equal(species, with_species(particles, [400, 100], [1.0, 3.0], KEY, path=1).species)
    with pytest.raises(ValueError, match=r"counts \[400, 101\] and masses \[1.0, 3.0\] for 500 particles"):
        with_species(particles, [400, 101], [1.0, 3.0], KEY)


def mixture_of(count: int = 100):
    particles = particles_at_rest(np.zeros((count, 3)))
    return with_species(particles, [count // 2, count - count // 2], [1.0, 4.0], KEY)


def test_velocities_have_exactly_their_temperature_and_no_drift():
    units = MotionUnits(boltzmann=0.5, kinetic=3.0)
    particles = with_velocities(mixture_of(), 1.44, KEY, units=units)
    p, m = np.asarray(particles.momentum.rows()), np.asarray(particles.mass)
    np.testing.assert_allclose(np.sum(p, axis=0), 0, atol=1e-12)
    assert 3.0 * np.sum(p**2 / m[:, None]) == pytest.approx((3 * 100 - 3) * 0.5 * 1.44, rel=1e-14)


def test_velocities_are_normal_with_the_variance_of_their_mass():
    particles = with_velocities(mixture_of(4000), 2.0, KEY)
    p, m = np.asarray(particles.momentum.rows()), np.asarray(particles.mass)
    z = p / np.sqrt(2.0 * m[:, None])
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-4
    for mass in (1.0, 4.0):  # each has its share of the kinetic energy
        share = z[m == mass]
        assert abs(np.mean(share**2) - 1) < 5 * np.sqrt(2 / share.size)
    assert np.all(np.abs(np.corrcoef(z.T) - np.eye(3)) < 5 / np.sqrt(len(z)))


def test_the_drift_is_taken_from_velocities_not_from_momenta():
    r"""In the frame of the centre of mass $E[p_i^2/m_i] = 3 k_B T (1 - m_i/M)$."""
    masses = np.array([1.0, 1.0, 1.0, 9.0])
    particles = particles_at_rest(np.zeros((4, 3)), masses)
    paths = jnp.arange(2000, dtype=jnp.uint32)
    p = jax.vmap(lambda path: with_velocities(particles, 1.0, KEY, path).momentum.rows())(paths)
    energies = np.sum(np.asarray(p) ** 2, axis=2) / masses
    error = np.std(energies, axis=0) / np.sqrt(len(paths))
    assert np.all(np.abs(np.mean(energies, axis=0) - 3 * (1 - masses / 12)) < 5 * error)


def test_a_particle_draws_by_its_number():
    particles = mixture_of()
    order = np.random.default_rng(1).permutation(100)
    straight = with_velocities(particles, 1.0, KEY)
    shuffled = with_velocities(particles.in_order(jnp.asarray(order)), 1.0, KEY).by_identity()
    np.testing.assert_allclose(shuffled.momentum, straight.momentum, rtol=1e-13)
    other = with_velocities(particles, 1.0, KEY, path=1)
    assert not np.any(np.equal(other.momentum, straight.momentum))


def test_empty_places_stay_at_rest():
    whole = mixture_of()
    ragged = type(whole)(
        whole.position, whole.momentum, whole.image, whole.mass, whole.species, whole.identity, count=75
    )
    p = np.asarray(with_velocities(ragged, 1.0, KEY).momentum.rows())
    m = np.asarray(whole.mass)
    assert not np.any(p[75:])
    assert np.sum(p**2 / m[:, None]) == pytest.approx(3 * 75 - 3, rel=1e-14)


def test_a_single_particle_has_no_temperature():
    with pytest.raises(ValueError, match="a single particle has no temperature without drift"):
        with_velocities(particles_at_rest(np.zeros((1, 3))), 1.0, KEY)


def test_float32_positions_give_float32_particles():
    particles = with_velocities(particles_at_rest(np.zeros((5, 3), np.float32)), 1.0, KEY)
    for leaf in (*particles.position, *particles.momentum, particles.mass):
        assert leaf.dtype == jnp.float32
