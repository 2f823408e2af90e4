"""What is chosen for a system, and what happens where it does not suffice."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pair_sum_in_numpy import cube, droplet, one_species, plain_sums, scattered, skewed
from simkit_physics import AllPairs, FreeBox, ListedForces, complete_list, enlarged, forces_for, lattice
from simkit_physics.particles import choice
from simkit_physics.particles.density import Snapshot
from simkit_physics.particles.neighbours import Capacities
from simkit_physics.particles.overlaps import CELL, OFFSET, closest_overlap
from simkit_solvers import Particles
from slow_cases import slow_but

totals_of = eqx.filter_jit(lambda forces, particles, listed: forces.totals(particles, listed)[1])
forces_of = eqx.filter_jit(lambda forces, particles, listed: forces.forces(particles, listed))


def test_lists_for_many_particles_and_all_pairs_for_few_or_in_small_boxes():
    rows = scattered(1000, (12, 12, 12))
    forces, particles = forces_for(Particles.of(rows), cube(12.0), one_species())
    assert isinstance(forces, ListedForces)
    assert particles.places == forces.grid.places
    assert forces.summary()["forces"] == "neighbour lists"
    forces, _ = forces_for(Particles.of(rows[:50]), cube(12.0), one_species())
    assert isinstance(forces, AllPairs)
    assert forces.images == (0, 0, 0)
    small = scattered(700, (7, 8, 9), spacing=0.7)
    forces, _ = forces_for(Particles.of(small), cube(7.0), one_species(4.0))
    assert isinstance(forces, AllPairs)
    assert forces.images == (1, 1, 1)
    assert forces.summary()["images"] == "3 x 3 x 3"


@pytest.mark.more
@pytest.mark.parametrize(
    ("level", "small"),
    [
        (4, 24),
        pytest.param(None, 0, marks=pytest.mark.more),
        *slow_but((), [(0, 1), (1, 3), (2, 10), (3, 10)]),
    ],
)
def test_an_overflow_is_noticed_and_mended_by_larger_lists(level, small, monkeypatch):
    monkeypatch.setattr(choice, "FEW", 0)
    rows = scattered(800, (9, 10, 11))
    forces, particles = forces_for(Particles.of(rows), cube(11.0), one_species())
    if level is None:  # all of them, mended in several turns
        tight = dataclasses.replace(forces, capacities=Capacities(2, 3, 10, 10, 24))
    else:
        capacities = [small if k == level else n for k, n in enumerate(forces.capacities)]
        tight = dataclasses.replace(forces, capacities=Capacities(*capacities))
    _, listed = eqx.filter_jit(tight.arranged)(particles)
    assert not bool(tight.complete(listed))
    if level is not None:
        return
    enough, arranged, listed = complete_list(tight, particles)
    assert bool(enough.complete(listed))
    force = arranged.pushed(forces_of(enough, arranged, listed)).by_identity().momentum
    some = np.arange(0, 800, 40)
    expected = plain_sums(rows, cube(11.0), cutoff=2.5, some=some)
    error = np.stack([np.asarray(c) for c in force], 1)[some] - expected.force
    assert np.abs(error).max() < 1e-11 * expected.force_terms.max()


@pytest.mark.more
@pytest.mark.parametrize(
    ("cells", "noise"),
    [
        (20, 0.0),
        *slow_but((), [(20, 0.05), (32, 0.0), (32, 0.05)]),
    ],
)
def test_the_first_list_of_a_crystal_is_complete(cells, noise):
    """Where rows of a perfect lattice are cut at one end, clusters of neighbouring columns are shifted."""
    particles, box = lattice("fcc", (cells,) * 3, density=0.8442)
    rows = np.stack(particles.position, 1)
    rows = rows + noise * np.random.default_rng(1).standard_normal(rows.shape)
    forces, particles = forces_for(Particles.of(rows), box, one_species())
    _, listed = eqx.filter_jit(forces.arranged)(particles)
    assert bool(forces.complete(listed)), (listed.counts, forces.capacities)


@pytest.mark.slow
def test_a_list_that_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(choice, "FEW", 0)
    forces, particles = forces_for(Particles.of(scattered(800, (9, 10, 11))), cube(11.0), one_species())
    tight = dataclasses.replace(forces, capacities=Capacities(2, 8, 64, 64, 24))
    _, listed = eqx.filter_jit(tight.arranged)(particles)
    with pytest.raises(
        ValueError, match=r"neighbour list: needs .* GB .* take a shorter cutoff, fewer particles"
    ):
        enlarged(tight, particles, listed, memory=1e4)


def wide_clusters():
    """A few particles in a large box, whose clusters span it, and the sums over them."""
    rows, box = scattered(40, (8, 8, 8)), cube(8.0)
    forces, particles = forces_for(Particles.of(rows), box, one_species())
    assert isinstance(forces, ListedForces)
    assert forces.each_pair
    return forces, particles, plain_sums(rows, box, cutoff=2.5)


def assert_sums(forces, particles, listed, expected):
    force = particles.pushed(forces_of(forces, particles, listed)).by_identity().momentum
    error = np.stack([np.asarray(c) for c in force], 1) - expected.force
    assert np.abs(error).max() < 1e-11 * expected.force_terms.max()


@pytest.mark.more
def test_clusters_as_wide_as_the_box_take_the_nearest_image_of_each_pair(monkeypatch):
    monkeypatch.setattr(choice, "FEW", 0)
    forces, particles, expected = wide_clusters()
    arranged, listed = eqx.filter_jit(forces.arranged)(particles)
    assert bool(forces.complete(listed))
    assert_sums(forces, arranged, listed, expected)


@pytest.mark.slow
def test_clusters_that_have_become_as_wide_as_the_box_take_it_from_then_on(monkeypatch):
    monkeypatch.setattr(choice, "FEW", 0)
    forces, particles, expected = wide_clusters()
    once = dataclasses.replace(forces, each_pair=False)
    _, listed = eqx.filter_jit(once.arranged)(particles)
    assert not bool(once.complete(listed))
    forces, arranged, listed = complete_list(once, particles)
    assert forces.each_pair
    assert_sums(forces, arranged, listed, expected)


def test_a_cluster_and_what_is_near_it_fill_half_of_the_box_at_most(monkeypatch):
    """From its centre to the furthest member, and on by the cutoff and the skin."""
    monkeypatch.setattr(choice, "FEW", 0)
    forces, _, _ = wide_clusters()
    once = dataclasses.replace(forces, each_pair=False)
    room = 8 / 2 - float(once.cutoff + once.skin)
    fits = [bool(once.fits(SimpleNamespace(extent=jnp.asarray(x * room)))) for x in (0.99, 1.01)]
    assert fits == [True, False]
    assert bool(forces.fits(SimpleNamespace(extent=jnp.asarray(4.0))))


def test_a_box_that_shrank_below_the_cutoff_is_noticed():
    rows = scattered(40, (6, 6, 6))
    forces, particles = forces_for(Particles.of(rows), cube(6.0), one_species())
    smaller = eqx.tree_at(lambda f: f.box, forces, cube(4.0))
    _, listed = eqx.filter_jit(smaller.arranged)(particles)
    assert not bool(smaller.complete(listed))
    more, _ = enlarged(smaller, particles, listed)
    assert more.images == (1, 1, 1)
    assert bool(more.complete(listed))
    rows = scattered(1000, (12, 12, 12))
    forces, particles, listed = complete_list(*forces_for(Particles.of(rows), cube(12.0), one_species()))
    smaller = eqx.tree_at(lambda f: f.box, forces, cube(5.0))
    with pytest.raises(ValueError, match=r"box: cutoff \+ skin is"):
        enlarged(smaller, particles, listed)


@pytest.mark.parametrize("box", [cube(12.0), skewed(12.0, 11.0, 13.0), FreeBox()])
def test_coincident_particles_are_named_with_their_distance(box):
    rows = scattered(100, (10, 10, 10))
    rows[0] = 0
    rows[71] = rows[0] + 1e-9
    if box.periodic:
        rows[71, 2] += float(box.sides.z)
        rows[71, :2] += [float(c) for c in box.tilts][1:] if hasattr(box, "tilts") else 0.0
    with pytest.raises(
        ValueError,
        match=r"particles 0 and 71 \(counted from 0\) are at the same place: their distance is 1\.73e-09",
    ):
        forces_for(Particles.of(rows), box, one_species())


def test_the_closest_overlap_is_found_by_distance_and_not_by_coordinates():
    rows = np.array([[0, 0, 0], [0.1, 0.1, 0.1], [5, 5, 5], [5.15, 5.0, 5.0]])
    snapshot = Snapshot.of(Particles.of(rows), FreeBox())
    assert closest_overlap(snapshot, FreeBox(), 0.2) == (2, 3, pytest.approx(0.15))
    assert closest_overlap(snapshot, FreeBox(), 0.14) is None


@pytest.mark.parametrize("box", [cube(12.0), skewed(12.0, 11.0, 13.0), FreeBox()])
def test_an_overlap_is_found_wherever_it_is_among_many(box):
    """Also across the faces of the cells of the search, and through those of the box."""
    least, rng = 1e-3, np.random.default_rng(0)
    face = (7 - OFFSET) * CELL * least
    places = [*rng.uniform(1, 9, (50, 3)), (face, 3, 4), (face, face, 1), (face, face, face), (0, 0, 0)]
    rows = scattered(100, (10, 10, 10))
    for place in places:
        step = rng.normal(size=3)
        rows[3] = place - 0.45 * least * step / np.linalg.norm(step)
        rows[71] = place + 0.45 * least * step / np.linalg.norm(step)
        snapshot = Snapshot.of(Particles.of(rows), box)
        assert closest_overlap(snapshot, box, least) == (3, 71, pytest.approx(0.9 * least))
        assert closest_overlap(snapshot, box, 0.8 * least) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": "float32"}, "precision float32: takes positions in float32, got float64"),
        ({"skin": -0.1}, "skin: must be > 0"),
        ({"skin": 4.0}, "below half the width of the box, got 4"),
        ({"potential": one_species(np.inf)}, "cutoff: must be > 0, and finite in a periodic box"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {"potential": one_species(), **change}
    with pytest.raises(ValueError, match=message):
        forces_for(Particles.of(scattered(700, (10, 10, 10))), cube(12.0), **arguments)


def test_single_precision_positions_are_refused_with_a_remedy():
    with jax.enable_x64(False):
        particles, box = lattice("fcc", (3, 3, 3), density=0.8)
        with pytest.raises(ValueError, match=r"got float32; enable x64, as by .* or choose"):
            forces_for(particles, box, one_species())


def test_positions_that_are_not_finite_are_refused():
    rows = scattered(20, (10, 10, 10))
    rows[7, 1] = np.nan
    with pytest.raises(ValueError, match="that of particle 7 is not"):
        forces_for(Particles.of(rows), FreeBox(), one_species())


def test_without_a_cutoff_all_pairs_of_free_space_interact():
    rows = droplet(13, (0.0, 0.0, 0.0))
    forces, particles = forces_for(Particles.of(rows), FreeBox(), one_species(jnp.inf))
    particles, listed = eqx.filter_jit(forces.arranged)(particles)
    totals = totals_of(forces, particles, listed)
    expected = plain_sums(rows, FreeBox(), cutoff=1e3)
    assert float(totals.energy) == pytest.approx(expected.energy, rel=1e-12)
