"""Random initial values follow their distribution, and belong to their path alone."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from simkit_solvers import CounterNoise, Stream, block, seed_key, standard_normal, stream_key
from user_code import user_jit

from simkit.distributions import LogNormal, Normal, Triangular, TruncatedNormal, Uniform
from simkit.ensemble.initial import draw_initial

INITIAL = {
    "S": LogNormal(4.6, 0.3),
    "fixed": 2.5,
    "v": Normal(-1.0, 2.0),
    "u": Uniform(-3.0, 5.0),
    "again": Normal(-1.0, 2.0),
    "t": Triangular(-1.0, 0.5, 2.0),
    "edge": Triangular(1.0, 1.0, 3.0),
    "cut": TruncatedNormal(0.04, 0.05, 0.0, 0.2),
    "tail": TruncatedNormal(0.0, 1.0, 6.0, 9.0),
}
DISTRIBUTIONS = {
    "S": stats.lognorm(0.3, scale=math.exp(4.6)),
    "v": stats.norm(-1, 2),
    "u": stats.uniform(-3, 8),
    "t": stats.triang(0.5, -1, 3),
    "edge": stats.triang(0, 1, 2),
    "cut": stats.truncnorm(-0.8, 3.2, 0.04, 0.05),
    "tail": stats.truncnorm(6, 9),
}
PATHS = 2**17


@functools.partial(user_jit, static_argnums=(1, 2))
def draw(ids, dtype=jnp.float64, float64_normals=False, key=None):
    key = seed_key(3) if key is None else key
    return jax.vmap(lambda path: draw_initial(INITIAL, key, path, dtype, float64_normals))(ids)


def ids(n, first=0):
    return jnp.arange(first, first + n, dtype=jnp.uint32)


@pytest.fixture(scope="module", params=[(jnp.float64, False), (jnp.float64, True), (jnp.float32, False)])
def drawn(request):
    dtype, float64_normals = request.param
    result = draw(ids(PATHS), dtype, float64_normals)
    assert all(x.dtype == dtype for x in result.values())
    return {name: np.asarray(x, np.float64) for name, x in result.items()}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_values_follow_their_distribution(drawn, name):
    x, distribution = drawn[name], DISTRIBUTIONS[name]
    assert stats.kstest(x, distribution.cdf).pvalue > 1e-6
    assert abs(x.mean() - distribution.mean()) < 5 * distribution.std() / math.sqrt(PATHS)
    _, variance, _, excess = distribution.stats("mvsk")
    assert abs(np.mean((x - distribution.mean()) ** 2) / variance - 1) < 5 * math.sqrt((excess + 2) / PATHS)


def test_a_number_is_itself(drawn):
    assert (drawn["fixed"] == 2.5).all()


def test_uniform_values_stay_inside(drawn):
    assert drawn["u"].min() >= -3
    assert drawn["u"].max() <= 5


def test_variables_are_independent_of_each_other_and_of_the_noise(drawn):
    def increment(path):
        return CounterNoise.of(seed_key(3), path).draws(2, 1, jnp.uint32(0), 1)[0]

    noise = jax.tree.leaves(user_jit(jax.vmap(increment))(ids(PATHS)))
    columns = [stats.norm.ppf(DISTRIBUTIONS[n].cdf(drawn[n])) for n in DISTRIBUTIONS]
    columns += [(drawn["again"] + 1) / 2, *(np.asarray(z, np.float64) for z in noise)]
    z = np.corrcoef(columns)[np.triu_indices(len(columns), 1)] * math.sqrt(PATHS)
    assert np.abs(z).max() < stats.norm.isf(1e-6 / 2 / len(z))


def test_each_variable_has_the_block_of_its_place():
    # Changing this layout changes every seeded result: a new major version, or a mistake.
    result = draw_initial(INITIAL, seed_key(3), 12345, jnp.float64, False)
    stream = stream_key(seed_key(3), 12345, Stream.INITIAL)
    for place, name in ((2, "v"), (4, "again")):
        z = float(standard_normal(block(stream, 0, place).a))
        assert float(result[name]) == pytest.approx(-1 + 2 * z, abs=1e-14)
    z = float(standard_normal(block(stream, 0, 0).a))
    assert float(result["S"]) == pytest.approx(math.exp(4.6 + 0.3 * z), rel=1e-14)


@pytest.mark.user_code
@pytest.mark.more
@pytest.mark.parametrize("dtype", [jnp.float32, pytest.param(jnp.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("float64_normals", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_path_starts_the_same_whatever_the_ensemble(dtype, float64_normals):
    everyone = draw(ids(4096), dtype, float64_normals)
    for first, width in ((5, 64), (4000, 96)):
        some = draw(ids(width, first), dtype, float64_normals)
        for name in INITIAL:
            np.testing.assert_array_equal(some[name], everyone[name][first : first + width])


def test_seeds_and_paths_start_differently():
    values = np.concatenate([draw(ids(4096), key=seed_key(seed))["u"] for seed in (0, 1, 2**32)])
    assert len(np.unique(values)) == len(values)


def test_wide_and_narrow_precision_agree():
    single, double = (draw(ids(4096), dtype) for dtype in (jnp.float32, jnp.float64))
    for name in INITIAL:
        np.testing.assert_allclose(single[name], double[name], rtol=2e-6, atol=2e-6)


def test_no_spread_is_a_number():
    constant = {"S": LogNormal(0.5, 0.0), "v": Normal(7.0, 0.0)}
    for path in (0, 1):
        result = draw_initial(constant, seed_key(3), path, jnp.float64, False)
        assert float(result["S"]) == pytest.approx(math.exp(0.5), rel=1e-15)
        assert result["v"] == 7
