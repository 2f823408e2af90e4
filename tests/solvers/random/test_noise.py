"""A step's noise is its own: the same however the loop is cut, and independent of every other."""

import itertools
import random

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import simkit_solvers.random.noise
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simkit_solvers import (
    AbstractNoise,
    CoarsenedNoise,
    CounterNoise,
    Draw,
    HalvedNoise,
    Words,
    block,
    seed_key,
    standard_normal,
)
from user_code import user_jit

H_DEVIATION, K_DEVIATION = np.sqrt(1 / 12), np.sqrt(1 / 720)  # of the areas of a unit step


class Ledger:
    """Stands in for the generator: numbers instead of words, and a record of every use."""

    def __init__(self):
        self.blocks, self.words = [], []

    def block(self, key, group, component_block):
        self.blocks.append((key, int(group), int(component_block)))
        a, b = (random.Random(repr((self.blocks[-1], half))).gauss(0, 1) for half in (0, 1))
        return Words(a, b)

    def normal(self, word):
        self.words.append(word)
        return word

    def wide_normal(self, words):
        return self.normal(words.a)

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(simkit_solvers.random.noise, "block", self.block)
        self.patch.setattr(simkit_solvers.random.noise, "standard_normal", self.normal)
        self.patch.setattr(simkit_solvers.random.noise, "standard_normal_float64", self.wide_normal)
        return self

    def __exit__(self, *_):
        self.patch.undo()


def draws(noise: AbstractNoise, components, areas, first, count):
    """The draws of `count` steps from any step, of which `noise` gives only those that start a group."""
    late = first % noise.group(components)
    return noise.draws(components, areas, jnp.uint32(first - late), late + count)[late:]


COMPONENTS, AREAS = st.integers(1, 5), st.integers(0, 2)
STARTS = st.one_of(st.integers(0, 5), st.integers(0, 2**31))


@settings(max_examples=60, deadline=None)
@given(
    COMPONENTS,
    AREAS,
    st.booleans(),
    st.integers(1, 3),
    STARTS,
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_a_step_draws_the_same_however_the_steps_are_cut(
    components, areas, float64_normals, factor, first, counts
):
    noise = CounterNoise("increments", "areas", float64_normals)
    if factor > 1:
        noise, first = CoarsenedNoise(noise, factor), first // factor
    with Ledger():
        whole = draws(noise, components, areas, first, sum(counts))
        parts = [
            draw
            for start, count in zip(itertools.accumulate([first, *counts]), counts, strict=False)
            for draw in draws(noise, components, areas, start, count)
        ]
        assert parts == whole
        increments = draws(noise, components, 0, first, sum(counts))
    for draw, increment in zip(whole, increments, strict=True):
        sizes = len(draw.W), len(draw.H), len(draw.K)
        assert sizes == (components, components * (areas > 0), components * (areas > 1))
        assert increment == Draw(draw.W)


def halved(float64_normals=False):
    bridge = CounterNoise("bridge", "areas of the bridge", float64_normals)
    return HalvedNoise(CounterNoise("increments", "areas", float64_normals), bridge)


@settings(max_examples=40, deadline=None)
@given(COMPONENTS, AREAS, st.booleans(), STARTS, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_half_step_draws_the_same_however_the_steps_are_cut(
    components, areas, float64_normals, first, counts
):
    with Ledger():
        whole = draws(halved(float64_normals), components, areas, first, sum(counts))
        parts = [
            draw
            for start, count in zip(itertools.accumulate([first, *counts]), counts, strict=False)
            for draw in draws(halved(float64_normals), components, areas, start, count)
        ]
    assert parts == whole


@pytest.mark.parametrize("components", [1, 2, 3])
@pytest.mark.parametrize("areas", [0, 1, 2])
def test_halves_join_to_the_step_that_was_split(components, areas):
    with Ledger():
        coarse = draws(CoarsenedNoise(halved(), 2), components, areas, 5, 4)
        split = draws(halved().whole, components, areas, 5, 4)
    np.testing.assert_allclose(jax.tree.leaves(coarse), jax.tree.leaves(split), rtol=0, atol=1e-14)


def test_halves_of_increments_are_a_brownian_bridge():
    with Ledger():
        left, right = draws(halved(), 1, 0, 0, 2)
        whole, bridge = (draws(noise, 1, 0, 0, 1)[0] for noise in (halved().whole, halved().bridge))
    expected = [(whole.W[0] + sign * bridge.W[0]) / np.sqrt(2) for sign in (1, -1)]
    np.testing.assert_allclose([left.W[0], right.W[0]], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("areas", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("noise_of", [HalvedNoise.of, HalvedNoise.twice])
def test_halves_are_standard_normal_and_independent(noise_of, areas):
    samples = table(lambda path: noise_of(seed_key(1), path), 2, areas, np.arange(2**15), 8)
    assert dependence(samples.reshape(len(samples), -1)) < 1
    assert stats.kstest(samples.ravel(), "norm").pvalue > 1e-6


@settings(max_examples=60, deadline=None)
@given(COMPONENTS, AREAS, st.booleans(), st.integers(0, 5), st.integers(1, 6))
def test_no_word_is_used_twice_and_no_block_computed_twice(components, areas, float64_normals, first, count):
    noise = CounterNoise("increments", "areas", float64_normals)
    group = noise.group(components)
    first, count = first * group, count * group
    with Ledger() as together:
        draws(noise, components, areas, first, count)
    with Ledger() as by_group:
        for k in range(first, first + count, group):
            draws(noise, components, areas, k, group)
    for ledger in (together, by_group):
        assert len(set(ledger.words)) == len(ledger.words) == count * components * (1 + areas)
    assert len(set(together.blocks)) == len(together.blocks)


@settings(max_examples=30, deadline=None)
@given(COMPONENTS, AREAS, st.integers(0, 10), st.integers(1, 3))
def test_whole_groups_waste_no_word(components, areas, start, groups):
    noise = CounterNoise("increments", "areas")
    group = noise.group(components)
    with Ledger() as ledger:
        draws(noise, components, areas, group * start, group * groups)
    assert 2 * len(ledger.blocks) == len(ledger.words)


@pytest.mark.parametrize("components", [1, 2, 3, 4])
def test_where_each_normal_comes_from(components):
    # Changing this layout changes every seeded result: a new major version, or a mistake.
    noise = CounterNoise.of(seed_key(42), 7)
    result = draws(noise, components, 1, 3, 3)
    group = 2 if components % 2 else 1
    for (i, draw), c in itertools.product(enumerate(result), range(components)):
        step = 3 + i
        word = step % group * components + c
        for key, normals in ((noise.increments, draw.W), (noise.areas, draw.H)):
            words = block(key, step // group, word // 2)
            assert normals[c] == standard_normal(words[word % 2])


def test_seeded_noise_is_frozen():
    noise = CounterNoise.of(seed_key(42), 7)
    draw = draws(noise, 2, 2, 1000, 1)[0]
    expected = [-1.113245, -1.268503, -1.325398, 0.26987, -2.802543, -0.533201]
    np.testing.assert_allclose([*draw.W, *draw.H, *draw.K], expected, rtol=0, atol=2e-6)


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


def across_paths(noise_of):
    """Columns are (step, stream, component), samples are paths."""
    samples = table(noise_of, 2, 2, np.arange(2**15), 4)
    return samples.reshape(len(samples), -1)


def across_steps(noise_of):
    """Columns are (path, step within four, stream), samples are runs of four steps."""
    paths = [0, 1, 2, 3, 256, 65536, 2**32 - 1]
    samples = table(noise_of, 1, 2, paths, 2**17).reshape(len(paths), 2**15, -1)
    return np.moveaxis(samples, 0, 1).reshape(2**15, -1)


def counter(path):
    return CounterNoise.of(seed_key(1), path)


def in_float64(path):
    return CounterNoise.of(seed_key(1), path, float64=True)


def coarse(path):
    return CoarsenedNoise(counter(path), 2)


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


@pytest.mark.parametrize("noise_of", [counter, coarse, lambda path: CoarsenedNoise(counter(path), 3)])
def test_each_stream_is_standard_normal(noise_of):
    samples = table(noise_of, 1, 2, np.arange(2**16), 2)
    for stream in range(3):
        assert stats.kstest(samples[:, :, stream].ravel(), "norm").pvalue > 1e-6


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


def test_steps_beyond_the_counter_are_refused():
    noise = CounterNoise.of(seed_key(0), 0)
    last = 2**32 - 2
    assert noise.capacity == 2**32
    assert len(draws(noise, 1, 0, last, 2)) == 2
    with pytest.raises(
        ValueError, match=r"^steps: 3 from step 4294967294 exceed the noise's 4294967296; use fewer$"
    ):
        draws(noise, 1, 0, last, 3)
    twice = HalvedNoise.of(seed_key(0), 0)
    assert twice.capacity == 2**32
    assert CoarsenedNoise(twice, 2).capacity == 2**31
    thrice = CoarsenedNoise(noise, 3)
    assert thrice.capacity == 2**32 // 3
    with pytest.raises(
        ValueError, match=r"^steps: 2 from step 1431655764 exceed the noise's 1431655765; use fewer$"
    ):
        draws(thrice, 1, 0, 1431655764, 2)


def test_a_start_inside_a_group_is_refused():
    noise = CounterNoise.of(seed_key(0), 0)
    with pytest.raises(
        ValueError, match=r"^first: step 3 is inside a group of 2; start at a multiple of it$"
    ):
        noise.draws(1, 0, jnp.uint32(3), 1)
    with pytest.raises(
        ValueError, match=r"^first: step 5 is inside a group of 2; start at a multiple of it$"
    ):
        CoarsenedNoise(noise, 3).draws(1, 0, jnp.uint32(5), 1)


@pytest.mark.parametrize("factor", [0, -2])
def test_a_factor_must_be_positive(factor):
    with pytest.raises(ValueError, match=f"^factor: must be at least 1, got {factor}$"):
        CoarsenedNoise(CounterNoise.of(seed_key(0), 0), factor)
