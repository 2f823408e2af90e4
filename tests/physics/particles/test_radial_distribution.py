"""Counts of pairs at each distance: lattices, a plain sum, and the law of an ideal gas."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import as_on_accelerator, needs_processor
from scipy.spatial import cKDTree
from simkit_physics import (
    FreeBox,
    OrthorhombicBox,
    TriclinicBox,
    block_grid,
    check_radial_range,
    pair_counts,
    pair_normalisation,
    species_pairs,
)
from simkit_physics.particles.near_pairs import PARTS
from simkit_solvers import Particles, Vector, shared_among


def cube(side: float) -> OrthorhombicBox:
    return OrthorhombicBox(Vector(*(jnp.asarray(float(side)),) * 3))


def tilted() -> TriclinicBox:
    sides, tilts = (9.0, 8.0, 10.0), (2.0, -1.0, 3.0)
    return TriclinicBox(Vector(*map(jnp.asarray, sides)), Vector(*map(jnp.asarray, tilts)))


def vectors_of(box) -> np.ndarray:
    """The box vectors in rows."""
    if isinstance(box, OrthorhombicBox):
        return np.diag([float(s) for s in box.sides])
    (lx, ly, lz), (xy, xz, yz) = (tuple(map(float, v)) for v in (box.sides, box.tilts))
    return np.array([[lx, 0, 0], [xy, ly, 0], [xz, yz, lz]])


def counts_of(box, particles, largest, bins, species=1) -> np.ndarray:
    grid = block_grid(box, particles)
    program = jax.jit(lambda p: pair_counts(grid, box, p, largest, bins, species))
    return np.asarray(program(particles))


def plain_counts(box, rows, species, largest, bins, kinds) -> np.ndarray:
    """By NumPy, over all images of the neighbouring boxes."""
    vectors = vectors_of(box)
    d = rows[:, None] - rows[None]
    shifts = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3), -1).reshape(-1, 3) @ vectors
    r = np.min([np.linalg.norm(d + s, axis=2) for s in shifts], axis=0)
    first, second = np.triu_indices(len(rows), 1)
    result = []
    for a, b in species_pairs(kinds):
        pair = np.sort([species[first], species[second]], axis=0)
        chosen = (pair[0] == a) & (pair[1] == b)
        result.append(np.histogram(r[first, second][chosen], bins, (0, largest))[0])
    return np.array(result)


def uniform(box, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 3)) @ vectors_of(box)


@pytest.mark.parametrize("box", [cube(8.0), tilted()], ids=["cube", "triclinic"])
@pytest.mark.parametrize("places", ["uniform", "droplet"])
def test_counts_are_those_of_a_plain_sum(box, places):
    count = 300
    rows = uniform(box, count)
    if places == "droplet":
        rows[:250] = 4 + 0.3 * rows[:250] / 8
    species = np.random.default_rng(1).integers(0, 3, count)
    largest = 0.999 * float(min(box.widths)) / 2
    particles = Particles.of(jnp.asarray(rows), species=species).padded(420)
    # In another order, some outside the box by whole vectors of it, and with more empty places.
    order = np.random.default_rng(2).permutation(420)
    turns = np.random.default_rng(3).integers(-1, 2, (420, 3)) @ vectors_of(box)
    particles = particles.in_order(jnp.asarray(order))
    particles = particles.moved(particles.position.plus(1, Vector.of(jnp.asarray(turns))))
    result = counts_of(box, particles, largest, 40, 3)
    np.testing.assert_array_equal(result, plain_counts(box, rows, species, largest, 40, 3))


def test_counts_of_many_particles_are_those_of_a_tree():
    """At distances to which some blocks of particles reach and others do not."""
    side, largest, bins = 16.0, 4.6, 23
    rows = uniform(cube(side), 4096)
    tree = cKDTree(rows, boxsize=side)
    within = tree.count_neighbors(tree, np.linspace(0, largest, bins + 1))
    result = counts_of(cube(side), Particles.of(jnp.asarray(rows)), largest, bins)
    np.testing.assert_array_equal(result[0], np.diff(within) // 2)


@pytest.mark.more
@needs_processor
def test_processors_that_share_and_accelerators_count_the_same():
    box = tilted()
    particles = Particles.of(jnp.asarray(uniform(box, 600)))
    grid = block_grid(box, particles)

    def program(particles):
        return pair_counts(grid, box, particles, 3.0, 30)

    alone = program(particles)
    among = shared_among(tuple(jax.devices()[:3]), program)
    shared = jax.jit(among)(particles)
    with as_on_accelerator():
        at_once = program(particles)
    np.testing.assert_array_equal(alone, shared)
    np.testing.assert_array_equal(alone, at_once)
    parts = min(PARTS, grid.blocks)
    for counted, own in ((program, parts), (among, -(-parts // 3))):  # each processor counts a third of them
        scans = re.findall(r"scan\[.*?length=(\d+)", str(jax.make_jaxpr(counted)(particles)), re.DOTALL)
        assert scans == [str(own)]
    with as_on_accelerator():
        assert "scan[" not in str(jax.make_jaxpr(lambda particles: program(particles))(particles))


def test_shells_of_a_face_centred_lattice_hold_their_neighbours():
    """12, 6, 24, 12, 24 neighbours at distances that go as the roots of 1, 2, 3, 4, 5."""
    cells, constant = 4, np.sqrt(2)
    corners = np.indices((cells,) * 3).reshape(3, -1).T
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    rows = constant * (corners[:, None] + basis).reshape(-1, 3)
    particles = Particles.of(jnp.asarray(rows))
    edges = np.linspace(0, 2.25, 12)  # none of them at the distance of a shell
    result = counts_of(cube(cells * constant), particles, 2.25, 11)[0]
    expected = np.zeros(11, int)
    for root, neighbours in zip((1, 2, 3, 4, 5), (12, 6, 24, 12, 24), strict=True):
        expected[np.searchsorted(edges, np.sqrt(root) * (1 + 1e-9)) - 1] += len(rows) * neighbours // 2
    np.testing.assert_array_equal(result, expected)


def test_of_an_ideal_gas_like_pairs_have_1_minus_1_over_n_and_others_1():
    box, of_species, bins, largest, samples = cube(6.0), [20, 44], 12, 3.0, 300
    species = np.repeat([0, 1], of_species)
    particles = Particles.of(jnp.asarray(uniform(box, 64)), species=species)
    grid = block_grid(box, particles)
    rows = np.random.default_rng(5).random((samples, 64, 3)) * 6

    def counts(rows):
        return pair_counts(grid, box, particles.moved(Vector.of(rows)), largest, bins, 2)

    each = np.asarray(jax.jit(lambda all_: jax.lax.map(counts, all_))(jnp.asarray(rows)))
    g = each * pair_normalisation(216.0, of_species, largest, bins)
    error = g.std(0, ddof=1) / np.sqrt(samples)
    expected = np.array([1 - 1 / 20, 1, 1 - 1 / 44])[:, None]
    z = (g.mean(0) - expected) / np.where(error > 0, error, np.inf)
    assert np.abs(z).max() < 4.9
    assert np.abs(z).mean() > 0.3  # an error that is too large would hide what is wrong
    shells = 4 / 3 * np.pi * np.diff(np.linspace(0, largest, bins + 1) ** 3)
    inside = g.mean(0) @ shells / shells.sum()
    np.testing.assert_allclose(inside, expected[:, 0], rtol=0.02)


def test_ranges_without_nearest_images_are_refused():
    check_radial_range(tilted(), float(min(tilted().widths)) / 2)
    with pytest.raises(ValueError, match=r"at most half the least width of the box, 4, got 4.1"):
        check_radial_range(cube(8.0), 4.1)
    with pytest.raises(ValueError, match="needs a periodic box"):
        check_radial_range(FreeBox(), 1.0)
