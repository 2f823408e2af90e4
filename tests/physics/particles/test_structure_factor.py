"""The structure factor at the wave vectors of a box: a plain sum, a crystal, an ideal gas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import FreeBox, density_squares, wave_vectors
from simkit_solvers import Particles, Vector
from test_radial_distribution import cube, tilted, uniform, vectors_of


@pytest.mark.parametrize("box", [cube(8.0), tilted()], ids=["cube", "triclinic"])
def test_each_shell_is_the_mean_of_a_plain_sum_over_all_its_wave_vectors(box):
    rows, largest = uniform(box, 700), 3.0
    particles = Particles.of(jnp.asarray(rows)).padded(720).in_order(jnp.arange(720)[::-1])
    vectors = wave_vectors(box, largest, resolution=0, most=None)
    result = jax.jit(lambda p: density_squares(vectors, box, p))(particles)

    reciprocal = 2 * np.pi * np.linalg.inv(vectors_of(box)).T
    waves = np.stack(np.meshgrid(*[np.arange(-12, 13)] * 3, indexing="ij"), -1).reshape(-1, 3)
    k = waves[np.any(waves != 0, axis=1)] @ reciprocal
    k = k[np.linalg.norm(k, axis=1) <= largest]
    squares = np.abs(np.exp(-1j * k @ rows.T).sum(1)) ** 2 / len(rows)
    length = np.round(np.linalg.norm(k, axis=1), 9)
    numbers = np.unique(length)
    np.testing.assert_allclose(vectors.wave_numbers, numbers, rtol=1e-8)
    np.testing.assert_array_equal(vectors.multiplicity, [np.sum(length == n) for n in numbers])
    np.testing.assert_allclose(result, [squares[length == n].mean() for n in numbers], rtol=1e-9)


def test_a_crystal_has_peaks_of_n_at_its_reciprocal_lattice_and_nothing_elsewhere():
    rows = np.indices((4, 4, 4)).reshape(3, -1).T * 2.0
    box = cube(8.0)
    vectors = wave_vectors(box, 3.2, resolution=0, most=None)
    result = density_squares(vectors, box, Particles.of(jnp.asarray(rows)))
    peak = np.isclose(vectors.wave_numbers, np.pi)
    # Of the wave vectors (4, 0, 0) and its like, six, all are in the reciprocal lattice.
    np.testing.assert_allclose(np.asarray(result)[peak], 64, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(result)[~peak], 0, atol=1e-20)


def test_of_an_ideal_gas_it_is_one():
    box, samples = cube(5.0), 400
    vectors = wave_vectors(box, 4.0)
    particles = Particles.of(jnp.asarray(uniform(box, 30)))
    rows = jnp.asarray(np.random.default_rng(0).random((samples, 30, 3)) * 5)

    def squares(rows):
        return density_squares(vectors, box, particles.moved(Vector.of(rows)))

    each = np.asarray(jax.jit(lambda all_: jax.lax.map(squares, all_))(rows))
    z = (each.mean(0) - 1) / (each.std(0, ddof=1) / np.sqrt(samples))
    assert np.abs(z).max() < 4.5


def test_of_many_wave_vectors_some_are_chosen_of_every_length():
    box = cube(20.0)
    few, all_ = wave_vectors(box, 5.0), wave_vectors(box, 5.0, resolution=0, most=None)
    assert len(few.waves) < 0.2 * len(all_.waves)
    numbers = few.wave_numbers
    assert np.all(numbers[1:] / numbers[:-1] >= 1.01 * (1 - 1e-12))
    assert np.all(few.multiplicity <= 24)
    np.testing.assert_allclose(numbers[:7], all_.wave_numbers[:7])
    assert numbers[-1] > 4.9
    squares, every = (
        density_squares(v, box, Particles.of(jnp.asarray(uniform(box, 50)))) for v in (few, all_)
    )
    np.testing.assert_allclose(squares[:3], every[:3], rtol=1e-12)  # of 6, 12 and 8 vectors, all are chosen


def test_boxes_without_wave_vectors_are_refused():
    with pytest.raises(ValueError, match="a free one has no wave vectors"):
        wave_vectors(FreeBox(), 3.0)
    with pytest.raises(ValueError, match="more than 10,000,000 wave vectors up to 200"):
        wave_vectors(cube(8.0), 200.0)
    with pytest.raises(ValueError, match=r"no wave vectors up to 0.5; the shortest are about 0.785"):
        wave_vectors(cube(8.0), 0.5)
