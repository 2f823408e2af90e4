"""The bins of a picture: equal, whole for whole numbers, and with as many times of a grid in each."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from user_code import user_jit

from simkit.ensemble.reducers import Histogram
from simkit.ensemble.reducers.binned_numbers import PICTURE_BINS


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


HISTOGRAM = Histogram({"x": 1}, (0.5,))
UPDATE = user_jit(HISTOGRAM.update)


def pictured(x, leaves=1):
    """The counts and the edges of numbers, in so many leaves."""
    values = jnp.asarray(x, float).reshape(1, leaves, -1)
    partial = UPDATE({"x": values}, jnp.ones(values.shape[1:], bool))
    state = HISTOGRAM.merge(HISTOGRAM.init(), HISTOGRAM.on_host(partial))
    result = HISTOGRAM.finish(state)
    return result["x_histogram"], result["x_histogram_edge"]


def test_the_picture_keeps_atoms_and_shape():
    rng = np.random.default_rng(6)
    x = np.maximum(rng.standard_normal((1, 40, 500)), 0)  # half of the paths end at exactly zero
    counts, edges = pictured(x, 40)
    assert counts.shape == (PICTURE_BINS,)
    assert edges[0] == 0.0
    assert counts[0] >= np.sum(x == 0)
    assert counts.sum() >= 0.998 * x.size
    direct = np.histogram(x, edges)[0]
    assert np.abs(np.cumsum(counts) - np.cumsum(direct)).max() <= 0.003 * x.size


@pytest.mark.parametrize(
    ("least", "most"),
    [(0, 2), (3, 90), (-20, 150), (-400, 300), (0, 900), (600, 690), (-5_040, -4_960), (70_000, 73_000)],
)
def test_bins_of_whole_numbers_are_of_whole_width_around_them(least, most):
    x = np.random.default_rng(7).integers(least, most + 1, (1, 25, 400)).astype(float)
    counts, edges = pictured(x, 25)
    assert np.all(edges % 1 == 0.5)
    width = np.diff(edges)
    assert np.all((width == width[0]) & (width % 1 == 0))
    assert width[0] <= np.ceil((most - least + 1) / PICTURE_BINS)
    assert edges[0] <= least + 0.002 * (most - least)
    assert most <= edges[-1] + 0.002 * (most - least)
    direct = np.histogram(x, edges)[0]
    if max(-least, most) < 2 * 512:  # from there on a fine bin holds several of them
        assert np.abs(counts - direct).sum() <= 0.002 * x.size
    assert np.abs(np.cumsum(counts) - np.cumsum(direct)).max() <= 0.02 * x.size


def test_bins_hold_numbers_whose_ratio_no_float_has():
    counts, _ = pictured([1.0, 4e-83, -1e300])
    assert counts.sum() == 3


def test_one_number_that_is_not_whole_makes_bins_that_are_not():
    x = np.random.default_rng(8).integers(3, 600, (1, 25, 400)).astype(float)
    x[0, 3, 7] += 0.25
    _, edges = pictured(x, 25)
    assert np.any(edges % 1 != 0.5)


@pytest.mark.more
def test_the_picture_keeps_an_atom_at_a_value_that_float32_moves_across_an_edge():
    # The least value rounds to -1, into the bin below it: drawn in to the sample, that bin has no width.
    x = np.where(np.arange(2500).reshape(1, 25, 100) % 5, -(1 - 2.0**-30), 5.0)
    counts, _ = pictured(x, 25)
    assert counts.tolist() == [2000] + [0] * (PICTURE_BINS - 2) + [500]


GRIDS = [
    *itertools.product([30, 100, 240, 252, 400], [0], [1 / 252, 0.07]),
    *itertools.product([30, 50], [2, -1], [1 / 30, 0.01]),
    *itertools.product([100, 200], [0, -0.1], [0.1, 1 / 7]),
]


@pytest.mark.parametrize(("steps", "start", "length"), GRIDS)
def test_bins_hold_as_many_times_of_a_grid_each(steps, start, length):
    """Otherwise a smooth distribution of first times is a comb: bins of two steps beside bins of three."""
    each = np.repeat(np.arange(1, steps + 1), 40)
    counts, edges = pictured(start + length * each)
    full = counts[counts > 0][:-1]  # the last may be cut off by the end of the run
    assert np.all(full == full[0])
    assert full[0] == 40 * np.ceil(steps / PICTURE_BINS)
    assert counts.sum() == len(each)
    inside = (edges - start) / length - 0.5  # edges lie midway between times
    np.testing.assert_allclose(inside, np.rint(inside), atol=1e-6)


@pytest.mark.parametrize("steps", [6, 9, 15])
@pytest.mark.parametrize(("start", "length"), [(0, 0.07), (2, 1 / 30)])
def test_a_few_times_of_a_grid_have_a_bin_each(steps, start, length):
    """As first times that most paths have early: their bins have a time in the middle, not on an edge."""
    each = np.repeat(np.arange(1, steps + 1), 40)
    counts, edges = pictured(start + length * each)
    np.testing.assert_array_equal(counts[:steps], 40)
    np.testing.assert_allclose((edges[: steps + 1] - start) / length, np.arange(steps + 1) + 0.5)


@pytest.mark.parametrize("count", [3, 4, 5, 8, 12])
def test_a_few_numbers_lie_on_no_lattice_by_chance(count):
    """Of 100 samples hardly any: bins end where the numbers do."""
    found = 0
    for seed in range(100):
        x = 1 + np.random.default_rng(seed).uniform(size=count)
        _, edges = pictured(np.repeat(x, 3))
        found += edges[-1] > x.max()
    assert found <= 2


@pytest.mark.parametrize("seed", range(5))
def test_few_numbers_lie_on_no_lattice_by_chance(seed):
    """Bins of continuous numbers end where these do, a bin of the statistics at most away."""
    for count in (15, 60, 3000):
        x = np.sort(np.random.default_rng(seed).exponential(size=count))
        _, edges = pictured(x)
        kept = x[int(0.002 * count)], x[-1 - int(0.002 * count)]
        assert edges[-1] <= x[-1]
        assert edges[-1] >= 0.99 * kept[1]


@pytest.mark.parametrize("far", [1024.0, -1024.0, 2.0**33, 1000.0])
def test_one_number_far_from_all_others_takes_no_time(far):
    """On the edge of a bin it has no width of its own, and a lattice would be sought among any number."""
    x = np.append(1e-3 * np.random.default_rng(3).exponential(size=40), far)
    counts, _ = pictured(x)
    assert sorted(counts[counts > 0]) == [1, 40]


def test_numbers_between_two_limits_that_are_met_lie_on_no_lattice():
    """Edges of bins are a lattice through both limits, and each bin touches it."""
    for seed in range(20):
        x = np.clip(np.random.default_rng(seed).normal(1.5, 0.4, size=200), 1, 2)
        _, edges = pictured(x)
        np.testing.assert_allclose(edges, np.linspace(1, 2, PICTURE_BINS + 1))
