"""Normals are standard, and independent across paths, streams, steps, components and seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from simkit_solvers import AbstractNoise, CoarsenedNoise, CounterNoise, Draw, HalvedNoise, seed_key
from user_code import user_jit


def table(noise_of, components, areas, paths, steps):
    """Normals as a float64 array (paths, steps, streams of components); `noise_of` is that of a path id."""
    period = noise_of(jnp.uint32(0)).group(components)
    blocks = np.arange(steps // period)
    each = (
        jnp.asarray(np.repeat(paths, len(blocks)), jnp.uint32),
        jnp.asarray(np.tile(blocks, len(paths)), jnp.uint32),
    )

    @user_jit
    def run(path, b):
        return jax.tree.leaves(noise_of(path).draws(components, areas, b * jnp.uint32(period), period))

    return np.stack([np.asarray(z, np.float64) for z in run(*each)], 1).reshape(len(paths), steps, -1)


def dependence(columns):
    """The largest correlation between columns, in units of its bound at alpha 1e-6 over all pairs.

    Of the values, their squares and their signs, each against each, in samples along the first axis.
    """
    n, m = columns.shape
    features = np.concatenate([columns, (columns**2 - 1) / np.sqrt(2), np.sign(columns)], axis=1)
    z = features.T @ features / np.sqrt(n)
    source = np.arange(3 * m) % m
    distinct = source[:, None] < source[None, :]
    bound = stats.norm.isf(1e-6 / 2 / distinct.sum())
    return np.abs(z[distinct]).max() / bound


def counter(path):
    return CounterNoise.of(seed_key(1), path)


def in_float64(path):
    return CounterNoise.of(seed_key(1), path, float64=True)


def coarse(path):
    return CoarsenedNoise(counter(path), 2)


def across_paths(noise_of):
    """Columns are (step, stream, component), samples are paths."""
    samples = table(noise_of, 2, 2, np.arange(2**15), 4)
    return samples.reshape(len(samples), -1)


def across_steps(noise_of):
    """Columns are (path, step within four, stream), samples are runs of four steps."""
    paths = [0, 1, 2, 3, 256, 65536, 2**32 - 1]
    samples = table(noise_of, 1, 2, paths, 2**17).reshape(len(paths), 2**15, -1)
    return np.moveaxis(samples, 0, 1).reshape(2**15, -1)


@pytest.mark.parametrize("noise_of", [counter, coarse, lambda path: CoarsenedNoise(counter(path), 3)])
def test_each_stream_is_standard_normal(noise_of):
    samples = table(noise_of, 1, 2, np.arange(2**16), 2)
    for stream in range(3):
        assert stats.kstest(samples[:, :, stream].ravel(), "norm").pvalue > 1e-6


@pytest.mark.parametrize("areas", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("noise_of", [HalvedNoise.of, HalvedNoise.twice])
def test_halves_are_standard_normal_and_independent(noise_of, areas):
    samples = table(lambda path: noise_of(seed_key(1), path), 2, areas, np.arange(2**15), 8)
    assert dependence(samples.reshape(len(samples), -1)) < 1
    assert stats.kstest(samples.ravel(), "norm").pvalue > 1e-6


@pytest.mark.parametrize("across", [across_paths, across_steps])
@pytest.mark.parametrize(
    "noise_of", [counter, *(pytest.param(x, marks=pytest.mark.more) for x in (in_float64, coarse))]
)
def test_paths_streams_steps_and_components_are_independent(noise_of, across):
    assert dependence(across(noise_of)) < 1


def test_neighbouring_seeds_are_independent():
    def three(path):
        return [CounterNoise.of(seed_key(seed), path) for seed in (0, 1, 2**32)]

    @user_jit
    def first_steps(path):
        return [draw.W[0] for noise in three(path) for draw in noise.draws(1, 0, jnp.uint32(0), 2)]

    result = first_steps(jnp.arange(2**15, dtype=jnp.uint32))
    assert dependence(np.stack(result, 1).astype(np.float64)) < 1


def test_dependence_would_be_seen():
    def one_key(path):
        return CounterNoise(counter(path).increments, counter(path).increments)

    assert dependence(across_paths(one_key)) > 5
    assert dependence(across_steps(lambda path: counter(path >> jnp.uint32(1)))) > 5
    assert dependence(across_paths(lambda path: _Stuttering(counter(path)))) > 5


class _Stuttering(AbstractNoise):
    """Every normal of a step is the first one, with the sign of its own."""

    noise: CounterNoise

    @property
    def refinement(self):
        return self.noise.refinement

    @property
    def capacity(self):
        return self.noise.capacity

    def group(self, components):
        return self.noise.group(components)

    def draws(self, components, areas, first, count):
        def repeated(normals):
            return tuple(jnp.abs(normals[0]) * jnp.sign(z) for z in normals)

        return [Draw(*map(repeated, d[:3])) for d in self.noise.draws(components, areas, first, count)]

    def words(self, purpose, first, count):
        return self.noise.words(purpose, first, count)
