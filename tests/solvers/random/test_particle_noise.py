"""The noise of particles: independent of their order, and of each other."""

import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import ParticleNoise, seed_key

PARTICLES, STEPS = 500, 40


def normals(noise, steps=STEPS):
    identity = jnp.arange(PARTICLES, dtype=jnp.int32)
    return np.array([noise.normals(jnp.uint32(k), identity) for k in range(steps)], float)


@pytest.mark.parametrize("float64", [False, True])
def test_normals_of_particles_are_independent(float64):
    """Of the three coordinates, of successive steps, of neighbouring numbers and of two paths."""
    z, other = (normals(ParticleNoise.of(seed_key(3), path, float64)) for path in (0, 1))
    assert z.shape == (STEPS, 3, PARTICLES)
    error = z.size**-0.5
    assert abs(z.mean()) < 5.2 * error
    assert abs((z**2).mean() - 1) < 5.2 * 2**0.5 * error
    assert abs((z**4).mean() - 3) < 5.2 * 96**0.5 * error
    pairs = [(z[:, 0], z[:, 1]), (z[:, 1], z[:, 2]), (z[:, 0], z[:, 2]), (z[:, 1], z[:, 0])]
    pairs += [(z[1:], z[:-1]), (z[:, :, 1:], z[:, :, :-1]), (z, other)]
    for a, b in pairs:
        assert abs((a * b).mean()) < 5.2 * a.size**-0.5


def test_a_particle_draws_by_its_number():
    noise, order = ParticleNoise.of(seed_key(3)), np.random.default_rng(0).permutation(PARTICLES)
    shuffled = noise.normals(jnp.uint32(7), jnp.asarray(order, jnp.int32))
    np.testing.assert_array_equal(np.array(shuffled), normals(noise, 8)[7][:, order])


def test_words_of_the_whole_system_are_no_words_of_a_particle():
    noise = ParticleNoise.of(seed_key(3))
    common = {int(word) for k in range(50) for word in noise.words(jnp.uint32(k), 0)}
    kicks = {
        int(word)
        for k in range(50)
        for word in ParticleNoise(noise.kicks, noise.kicks).words(jnp.uint32(k), 0)
    }
    assert len(common) == 100
    assert not common & kicks
