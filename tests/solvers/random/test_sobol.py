"""Paths of scrambled Sobol' points: each has the law of independent noise, and together they are even."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
import simkit_solvers.random.sobol
from simkit_physics import GBM
from simkit_solvers import (
    CoarsenedNoise,
    CounterNoise,
    EulerMaruyama,
    Grid,
    SobolNoise,
    States,
    integrate,
    seed_key,
)
from simkit_solvers.random.noise import Purpose
from user_code import user_jit

KEY = seed_key(2024)


def normals(paths, steps, points, components=1, blocks=1, float64=True, ends_only=False):
    """Array over paths, steps and components; drawn by so many blocks at a time."""

    def of_path(path):
        noise = SobolNoise.of(KEY, path, steps, points, float64, ends_only)
        size = blocks * noise.group(components)

        def part(first):
            return jnp.stack([jnp.stack(draw.W) for draw in noise.draws(components, 0, first, size)])

        return jax.lax.map(part, jnp.arange(0, steps, size, dtype=jnp.uint32)).reshape(-1, components)

    return np.asarray(user_jit(jax.vmap(of_path))(jnp.asarray(paths, jnp.uint32)))[:, :steps]


def coordinates(paths, points, dimensions):
    """Array over paths and dimensions: a run of one step has one dimension for each noise."""
    noise = SobolNoise.of(KEY, jnp.asarray(paths, jnp.uint32), 1, points, float64=True)
    return scipy.special.ndtr(np.stack(noise.draws(dimensions, 0, 0, 1)[0].W, axis=1))


def scores(samples, exact):
    """By how many of its standard errors each mean over the first axis is off."""
    error = np.std(samples, axis=0, ddof=1) / len(samples) ** 0.5
    return (np.mean(samples, axis=0) - exact) / error


def test_without_scrambling_the_points_are_those_of_scipy(monkeypatch):
    def unscrambled(reverse, seed):
        return sum(((reverse >> k) & 1) << (31 - k) for k in range(32))

    monkeypatch.setattr(simkit_solvers.random.sobol, "scrambled", unscrambled)
    points = coordinates(np.arange(64), 64, 200)
    expected = scipy.stats.qmc.Sobol(200, scramble=False).random(64)
    np.testing.assert_allclose(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)], atol=1e-9)


@pytest.mark.parametrize("scrambling", [0, 3])
def test_each_coordinate_has_one_point_in_each_cell(scrambling):
    u = coordinates(256 * scrambling + np.arange(256), 256, 200)
    cells = np.sort((256 * u).astype(int), axis=0)
    assert (cells == np.arange(256)[:, None]).all()


def test_the_first_two_coordinates_have_one_point_in_each_rectangle():
    u = coordinates(2**8 + np.arange(2**8), 2**8, 2)
    for width in range(9):
        cells = (u * [2**width, 2 ** (8 - width)]).astype(int)
        assert len(np.unique(cells, axis=0)) == 2**8


@pytest.mark.parametrize("point", [0, 1, 37, 255])
def test_a_point_is_uniform_over_scramblings(point):
    u = coordinates(point + 256 * np.arange(400), 256, 50)
    counts = np.array([np.bincount((16 * column).astype(int), minlength=16) for column in u.T])
    chi_square = np.sum((counts - 25) ** 2 / 25, axis=1)
    assert abs(np.mean(chi_square) - 15) < 4 * np.sqrt(30 / 50)
    assert min(scipy.stats.kstest(column, "uniform").pvalue for column in u.T) > 1e-5
    correlations = np.corrcoef(u.T)[np.triu_indices(50, 1)] * np.sqrt(400)
    assert np.abs(correlations).max() < 5.0  # of 1225
    assert abs(np.mean(correlations**2) - 1) < 4 * np.sqrt(2 / 1225)


@pytest.mark.more
@pytest.mark.parametrize("ends_only", [False, True])
@pytest.mark.parametrize(("steps", "components"), [(64, 1), (64, 2), (12, 1), (50, 1), (50, 3), (7, 2)])
def test_the_sum_of_a_path_is_its_first_coordinates(steps, components, ends_only):
    paths = np.arange(100, 164)
    ends = normals(paths, steps, 64, components, ends_only=ends_only).sum(axis=1)
    np.testing.assert_allclose(ends / np.sqrt(steps), normals(paths, 1, 64, components)[:, 0], atol=1e-12)


@pytest.mark.more
@pytest.mark.parametrize("ends_only", [False, True])
@pytest.mark.parametrize(("steps", "components"), [(64, 1), (64, 2), (50, 1), (12, 2), (7, 1), (7, 3)])
def test_increments_are_independent_and_standard(steps, components, ends_only):
    W = normals(np.arange(200 * 64), steps, 64, components, ends_only=ends_only).reshape(200, 64, -1)
    covariances = np.einsum("spi,spj->sij", W, W) / 64
    i, j = np.triu_indices(steps * components)
    z = scores(covariances[:, i, j], np.eye(steps * components)[i, j])
    assert np.abs(z).max() < 6.0
    assert np.mean(z**2) < 1.5
    assert np.abs(scores(W.mean(axis=1), 0.0)).max() < 5.0


@pytest.mark.parametrize("ends_only", [False, True])
def test_only_the_ends_are_on_points_where_nothing_else_shall_be(ends_only):
    """By the spread over scramblings of what the middle has beyond half of the end."""
    W = normals(np.arange(200 * 64), 8, 64, ends_only=ends_only)[..., 0].reshape(200, 64, 8)
    middle = (W[..., :4].sum(2) - W.sum(2) / 2).mean(1)
    ratio = np.var(middle, ddof=1) / (2.0 / 64)  # to that of independent paths
    assert abs(ratio - 1) < 4.5 * np.sqrt(2 / 199) if ends_only else ratio < 0.2
    assert np.var(W.sum((1, 2)) / 64) < 8 / 64 / 20  # ends are on points either way


@pytest.mark.more
@pytest.mark.parametrize(("steps", "components"), [(64, 1), (50, 1), (12, 2)])
def test_a_block_is_the_same_whatever_is_drawn_before(steps, components):
    paths = np.arange(16)
    single, several = (normals(paths, steps, 16, components, blocks) for blocks in (1, 2))
    np.testing.assert_allclose(several, single, atol=1e-12)


@pytest.mark.more
def test_float32_loses_only_round_off():
    exact, result = (normals(np.arange(256), 50, 256, 2, float64=wide) for wide in (True, False))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, atol=6e-6)


def test_sums_make_the_same_path_on_a_coarser_grid():
    fine = SobolNoise.of(KEY, 5, steps=64, points=16)
    coarse = CoarsenedNoise(fine, 4)
    assert (coarse.capacity, coarse.group(1)) == (16, 2)
    parts = np.array([draw.W[0] for draw in fine.draws(1, 0, 0, 64)])
    sums = [draw.W[0] for draw in coarse.draws(1, 0, 0, 16)]
    np.testing.assert_allclose(sums, parts.reshape(16, 4).sum(axis=1) / 2, atol=1e-5)


def test_areas_and_words_are_those_of_the_paths_own_noise():
    noise, own = SobolNoise.of(KEY, 21, steps=8, points=16), CounterNoise.of(KEY, 21)
    for mine, other in zip(noise.draws(2, 2, 0, 8), own.draws(2, 2, 0, 8), strict=True):
        assert (mine.H, mine.K) == (other.H, other.K)
        assert mine.W != other.W
    words, others = (source.words(Purpose.JUMPS, 0, 8)[3][0].block(2) for source in (noise, own))
    assert words == others


@functools.cache
def ends_of_gbm(driver, steps=64, paths=2**17):
    """Terminal prices by Euler's scheme."""
    model = GBM(mu=0.05, sigma=0.2)
    grid = Grid(t0=0.0, dt=1 / steps, steps=steps, every=steps)

    def one_path(path):
        start = GBM.State(S=jnp.float32(1))
        return integrate(model, EulerMaruyama(), start, grid, driver(path), States())["S"][-1]

    return np.asarray(user_jit(jax.vmap(one_path))(jnp.arange(paths, dtype=jnp.uint32)), np.float64)


def quasi_random(path):
    return SobolNoise.of(KEY, path, steps=64, points=2**12)


def independent(path):
    return CounterNoise.of(KEY, path)


def test_the_mean_of_a_smooth_function_varies_less_and_is_the_same():
    call = np.maximum(ends_of_gbm(quasi_random) - 1, 0).reshape(32, -1).mean(axis=1)
    payoffs = np.maximum(ends_of_gbm(independent, paths=2**20) - 1, 0)
    assert np.var(call, ddof=1) < np.var(payoffs) / 2**12 / 50
    error = np.hypot(np.std(call, ddof=1) / 32**0.5, np.std(payoffs) / 2**10)
    assert abs(np.mean(call) - np.mean(payoffs)) < 4 * error


def test_the_mean_of_eulers_scheme_is_exact():
    means = ends_of_gbm(quasi_random).reshape(32, -1).mean(axis=1)
    z = scores(means, (1 + 0.05 / 64) ** 64)
    assert scipy.stats.t.sf(abs(z), 31) > 3e-5  # four standard errors of a normal
    assert np.std(means) < 0.2 / 64 / 7  # an independent mean's divided by more than the square root of 50


@pytest.mark.parametrize("steps", [64, 50])
def test_the_square_of_brownian_motion_is_unbiased_at_each_step(steps):
    x = np.cumsum(normals(np.arange(64 * 256), steps, 256)[..., 0], axis=1)
    squares = (x**2).reshape(64, 256, steps).mean(axis=1)
    assert np.abs(scores(squares, np.arange(1, steps + 1))).max() < 4.5
    # Independent squares have the variance 2 / 256; of points what is left is within the two cells of tails.
    assert squares[:, -1].var() < steps**2 * 2 / 256 / 50


def test_a_run_whose_steps_are_no_whole_blocks_ends_where_its_normals_add_up():
    steps = 50
    ends = ends_of_gbm(lambda path: SobolNoise.of(KEY, path, steps, 64), steps, 64)
    increments = normals(np.arange(64), steps, 64)[..., 0] / np.sqrt(steps)
    np.testing.assert_allclose(ends, np.prod(1 + 0.05 / steps + 0.2 * increments, axis=1), rtol=1e-5)


def test_what_it_cannot_draw_is_refused():
    with pytest.raises(ValueError, match=r"points: must be a power of two from 1 to 2\*\*31, got 1000"):
        SobolNoise.of(KEY, 0, steps=64, points=1000)
    with pytest.raises(ValueError, match="steps: must be at least 1, got 0"):
        SobolNoise.of(KEY, 0, steps=0, points=16)
    many = SobolNoise.of(KEY, 0, steps=10_000, points=16)
    with pytest.raises(
        ValueError, match=r"steps: .* need 30000 dimensions, .* use fewer steps or fewer noises"
    ):
        many.draws(3, 0, 0, 8)
    noise = SobolNoise.of(KEY, 0, steps=50, points=16)
    assert noise.capacity == 50
    with pytest.raises(ValueError, match="steps: 8 from step 48 exceed the noise's 50; use fewer"):
        noise.draws(1, 0, 48, 8)
    with pytest.raises(ValueError, match="first: step 4 is inside a group of 8"):
        noise.draws(1, 0, 4, 4)
    with pytest.raises(ValueError, match="steps: 64 exceed the 50 that the noise can drive; use fewer"):
        ends_of_gbm(lambda path: SobolNoise.of(KEY, path, 50, 64), 64, 64)
