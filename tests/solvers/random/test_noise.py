"""A step's noise is its own: the same however the loop is cut, in words that are used once."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noise_ledger import Ledger, draws
from simkit_solvers import (
    CoarsenedNoise,
    CounterNoise,
    Draw,
    HalvedNoise,
    SwappedNoise,
    block,
    seed_key,
    standard_normal,
)
from simkit_solvers.random.noise import Purpose

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


@pytest.mark.parametrize(("components", "count"), [(1, 2), (2, 3), (3, 5)])
def test_swapped_noise_has_the_draws_of_each_pair_in_the_other_order(components, count):
    noise = CounterNoise.of(seed_key(1), 7)
    swapped = SwappedNoise(noise)
    plain, other = (each.draws(components, 1, 4, 6) for each in (noise, swapped))
    assert [draw.W for draw in other] == [plain[i].W for i in (1, 0, 3, 2, 5, 4)]
    assert [draw.H for draw in other] == [plain[i].H for i in (1, 0, 3, 2, 5, 4)]
    assert [draw.W for draw in swapped.draws(components, 1, 4, count)] == [draw.W for draw in other[:count]]
    words = [each.words(Purpose.JUMPS, 4, 2) for each in (noise, swapped)]
    assert [int(step[0].step) for each in words for step in each] == [4, 5, 5, 4]
    coarse, same = (CoarsenedNoise(each, 2).draws(components, 0, 2, 1)[0].W for each in (noise, swapped))
    assert coarse == same


def test_halves_of_increments_are_a_brownian_bridge():
    with Ledger():
        left, right = draws(halved(), 1, 0, 0, 2)
        whole, bridge = (draws(noise, 1, 0, 0, 1)[0] for noise in (halved().whole, halved().bridge))
    expected = [(whole.W[0] + sign * bridge.W[0]) / np.sqrt(2) for sign in (1, -1)]
    np.testing.assert_allclose([left.W[0], right.W[0]], expected, rtol=0, atol=1e-14)


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
