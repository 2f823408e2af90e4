"""Means of whole groups: NumPy's on the whole sample, whatever the leaves, chunks and parts."""

import functools
import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.ensemble.reducers import GroupMoments

ROWS = {"x": 2, "y": 1}
LEAF, LEAVES = 64, 12


def sample():
    rng = np.random.default_rng(7)
    values = {
        name: 100 + np.exp(3 * rng.standard_normal((rows, LEAVES, LEAF))) for name, rows in ROWS.items()
    }
    return values, rng.random((LEAVES, LEAF)) < 0.9


@functools.cache
def partials(groups):
    """What `update` gives of each leaf."""
    values, valid = sample()
    update = jax.jit(GroupMoments(ROWS, groups).update)
    return [
        update({name: x[:, i : i + 1] for name, x in values.items()}, valid[i : i + 1]) for i in range(LEAVES)
    ]


def merged(reducer, start, stop, step):
    state = reducer.init(start)
    for first in range(start, stop, step):
        leaves = partials(reducer.groups)[first : min(first + step, stop)]
        state = reducer.merge(state, jax.tree.map(lambda *each: np.concatenate(each), *leaves))
    return state


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_bits_are_the_same_for_any_chunks_and_parts_and_means_are_those_of_groups(data):
    groups = data.draw(st.sampled_from([16, 64]), "groups")
    ends = sorted(data.draw(st.sets(st.integers(1, LEAVES - 1), max_size=4), "ends"))
    with jax.enable_x64(True):
        reducer = GroupMoments(ROWS, groups)
        states = [
            merged(reducer, start, stop, data.draw(st.integers(1, 5)))
            for start, stop in itertools.pairwise([0, *ends, LEAVES])
        ]
        while len(states) > 1:
            at = data.draw(st.integers(0, len(states) - 2))
            states[at : at + 2] = [reducer.join(states[at], states[at + 1])]
        result = reducer.finish(states[0])
        whole = reducer.finish(merged(reducer, 0, LEAVES, LEAVES))
    for key, figures in whole.items():
        assert figures.tobytes() == result[key].tobytes(), key

    values, valid = sample()
    weights = valid.reshape(-1, groups).T
    for place, (name, rows) in enumerate(ROWS.items()):
        x = values[name].reshape(rows, -1, groups).swapaxes(1, 2)
        means = (x * weights).sum(-1) / weights.sum(-1)
        spread = ((x - means.mean(-1)[:, None, None]) ** 2 * weights).sum(-1) / weights.sum(-1)
        paths = values[name][:, valid]
        for key, of in (
            ("mean", means.mean(-1)),
            ("variance", paths.var(-1, ddof=1)),
            ("max", paths.max(-1)),
        ):
            np.testing.assert_allclose(result[f"{name}_{key}"], of, rtol=1e-9)
        for key, of in (("stderr", means), ("variance_stderr", spread)):
            np.testing.assert_allclose(
                result[f"{name}_{key}"], of.std(-1, ddof=1) / np.sqrt(groups), rtol=1e-9
            )
        np.testing.assert_allclose(result["ends"][:, place], means[-1], rtol=1e-12)
    np.testing.assert_allclose(result["covariance"], np.cov(result["ends"].T), rtol=1e-9)
    assert (result["groups"], result["n"]) == (groups, valid.sum())


@pytest.mark.parametrize("points", [1, 2, 4])
def test_groups_of_few_paths_tell_the_error_of_a_variance(points):
    """That of independent normal paths is the variance times the square root of 2 / n."""
    values = {"x": np.random.default_rng(3).standard_normal((1, 1, 256 * points))}
    with jax.enable_x64(True):
        reducer = GroupMoments({"x": 1}, 256)
        part = reducer.update(values, np.ones((1, 256 * points), bool))
        result = reducer.finish(reducer.merge(reducer.init(), part))
    assert result["x_variance_stderr"] == pytest.approx(np.sqrt(2 / 256 / points), rel=0.15)


def test_groups_of_a_leaf_with_empty_lanes_and_one_without_a_path():
    """A run of 80 paths has one leaf of 128 lanes."""
    values = {"x": np.arange(128.0).reshape(1, 1, 128)}
    valid = (np.arange(128) < 80)[None] & (np.arange(128) % 16 != 1)
    with jax.enable_x64(True):
        reducer = GroupMoments({"x": 1}, 16)
        result = reducer.finish(reducer.merge(reducer.init(), reducer.update(values, valid)))
    assert (result["groups"], result["n"]) == (15, 75)
    np.testing.assert_array_equal(result["ends"][:3, 0], [32.0, np.nan, 34.0])
    assert result["x_mean"] == pytest.approx([(16 * 39.5 - 33) / 15])


@pytest.mark.parametrize(
    ("groups", "values", "error"),
    [(16, [0.1], 0.0), (1, [0.1], np.nan), (16, [0.0] * 16 + [3.0] * 48, 3 / 512)],
)
def test_groups_of_equal_means_are_as_wide_as_one_path_could_change_one_of_them(groups, values, error):
    """No error of paths that are all the same, and none that is known of one group."""
    x = {"x": np.resize(values, (1, 8, LEAF))}
    with jax.enable_x64(True):
        reducer = GroupMoments({"x": 1}, groups)
        result = reducer.finish(reducer.merge(reducer.init(), reducer.update(x, np.ones((8, LEAF), bool))))
    assert result["x_mean"] == pytest.approx(np.mean(values), rel=1e-15)
    assert result["x_stderr"] == pytest.approx(error, nan_ok=True)
