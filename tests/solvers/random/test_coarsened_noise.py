"""The normals of steps that are joined are those of the whole step."""

import itertools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from noise_ledger import Ledger, draws
from simkit_solvers import AbstractNoise, CoarsenedNoise, CounterNoise, Draw, seed_key
from user_code import user_jit

H_DEVIATION, K_DEVIATION = np.sqrt(1 / 12), np.sqrt(1 / 720)  # of the areas of a unit step


@pytest.mark.parametrize(("components", "areas"), list(itertools.product((1, 2, 3), (0, 1, 2))))
def test_twice_then_thrice_is_six_times_coarser(components, areas):
    with Ledger():
        fine = CounterNoise("increments", "areas")
        once = draws(CoarsenedNoise(fine, 6), components, areas, 5, 3)
        twice = draws(CoarsenedNoise(CoarsenedNoise(fine, 2), 3), components, areas, 5, 3)
        other = draws(CoarsenedNoise(CoarsenedNoise(fine, 3), 2), components, areas, 5, 3)
        parts = draws(fine, components, areas, 30, 18)
    for coarser in (twice, other):
        np.testing.assert_allclose(jax.tree.leaves(coarser), jax.tree.leaves(once), rtol=0, atol=1e-12)
    for i, c in itertools.product(range(3), range(components)):
        increments = [part.W[c] for part in parts[6 * i : 6 * i + 6]]
        assert once[i].W[c] * np.sqrt(6) == pytest.approx(sum(increments), abs=1e-13)


def test_float32_coarsening_loses_only_round_off():
    fine = CounterNoise.of(seed_key(3), 4)
    exact = draws(CoarsenedNoise(_Exactly(fine), 16), 1, 2, 1, 2)
    result = draws(CoarsenedNoise(CoarsenedNoise(fine, 4), 4), 1, 2, 1, 2)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(result))
    np.testing.assert_allclose(jax.tree.leaves(result), jax.tree.leaves(exact), rtol=0, atol=2e-5)


class _Exactly(AbstractNoise):
    """The same numbers in float64."""

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
        result = self.noise.draws(components, areas, first, count)
        return jax.tree.map(lambda x: x.astype(jnp.float64), result)

    def words(self, purpose, first, count):
        return self.noise.words(purpose, first, count)


class WrittenNoise(AbstractNoise):
    """A noise of one component that was written down: `numbers` are (steps, W H K)."""

    numbers: np.ndarray

    @property
    def refinement(self):
        return 1

    @property
    def capacity(self):
        return len(self.numbers)

    def group(self, components):
        return 1

    def draws(self, components, areas, first, count):
        rows = self.numbers[int(first) : int(first) + count]
        return [Draw((w,), (h,) if areas else (), (k,) if areas > 1 else ()) for w, h, k in rows]

    def words(self, purpose, first, count):
        raise ValueError("only normals were given")


def join(parts):
    """W, H and K of one step from those of its equal parts, an array (parts, 3)."""
    parts = np.asarray(parts, float)
    draw = CoarsenedNoise(WrittenNoise(parts), len(parts)).draws(1, 2, jnp.uint32(0), 1)[0]
    return np.array([draw.W[0], draw.H[0], draw.K[0]], float)


@pytest.mark.parametrize("n", range(1, 8))
def test_joined_normals_are_standard_and_uncorrelated(n):
    # The join is linear, so its distribution follows from its matrix: rows of unit length, at right angles.
    matrix = np.stack([join(unit.reshape(n, 3)) for unit in np.eye(3 * n)], axis=1)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_joined_areas_are_the_integrals_that_define_them(n):
    # The integrals of a Brownian path see only W, H and K of its parts, so a path of cubics will do.
    h = 0.7 / n
    parts = np.random.default_rng(n).normal(size=(n, 3))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    s, ds = (nodes + 1) / 2, weights / 2
    times, path, measure, level = [], [], [], 0.0
    for j, (w, area, moment) in enumerate(np.sqrt(h) * parts * [1, H_DEVIATION, K_DEVIATION]):
        times.append(h * (j + s))
        path.append(level + w * s + 6 * area * s * (1 - s) + 60 * moment * s * (1 - s) * (1 - 2 * s))
        measure.append(h * ds)
        level += w
    times, path, measure = map(np.concatenate, (times, path, measure))
    length = n * h
    bridge = path - times / length * level
    H = np.sum(measure * bridge) / length
    K = np.sum(measure * bridge * (length / 2 - times)) / length**2
    expected = np.array([level, H / H_DEVIATION, K / K_DEVIATION]) / np.sqrt(length)
    np.testing.assert_allclose(join(parts), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_areas_have_the_signs_of_diffrax():
    tree = diffrax.VirtualBrownianTree(
        0.0, 1.0, tol=2**-6, shape=(), key=jax.random.key(0), levy_area=diffrax.SpaceTimeTimeLevyArea
    )

    @user_jit
    @jax.vmap
    def normals(a, b):
        x = tree.evaluate(a, b, use_levy=True)
        return jnp.stack([x.W, x.H / H_DEVIATION, x.K / K_DEVIATION]) / jnp.sqrt(b - a)

    ends = np.array([(0, 4), (0, 2), (2, 4), (0, 1), (1, 2), (2, 3), (3, 4)]) / 4
    result = np.asarray(normals(jnp.asarray(ends[:, 0]), jnp.asarray(ends[:, 1])))
    whole = result[0]
    for parts in result[1:3], result[3:]:
        np.testing.assert_allclose(join(parts), whole, rtol=0, atol=1e-9)
        for sign in ([1, -1, 1], [1, 1, -1]):
            assert np.abs(join(parts * sign) - whole * sign).max() > 1e-2
