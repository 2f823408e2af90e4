"""Statistics do not depend on how they were merged, and agree with NumPy's on the whole sample."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scipy import stats
from user_code import user_jit

from simkit.ensemble.reducers import Covariance, Histogram, Moments
from simkit.ensemble.reducers.binned_numbers import BinnedNumbers, order_statistics
from simkit.ensemble.reducers.float_bins import LAST_BIN, NO_BIN, bin_of, lower_edges
from simkit.ensemble.reducers.pairwise import pairwise_sum

ROWS = {"S": 3, "v": 3, "call": 1}
LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def sample(leaves=13, length=64, dtype=np.float64):
    rng = np.random.default_rng(7)
    values = {
        name: (rng.standard_normal((rows, leaves, length)) * 3 + 100).astype(dtype)
        for name, rows in ROWS.items()
    }
    values["call"] = np.maximum(values["S"][-1:] - 100, 0)
    return values


@functools.cache
def compiled(rows):
    all_of_them = (Moments(rows), Covariance(rows), Histogram(rows, LEVELS))
    return all_of_them, user_jit(lambda values, valid: [r.update(values, valid) for r in all_of_them])


def gather(values, valid, groups, rows=ROWS, place=lambda array: array):
    """The statistics when leaves come in groups of the given sizes, in turn until all have come."""
    all_of_them, update = compiled(tuple(rows.items()))
    states = [reducer.init() for reducer in all_of_them]
    start = iteration = 0
    while start < valid.shape[0]:
        stop = start + groups[iteration % len(groups)]
        partials = update(
            {name: place(array[:, start:stop]) for name, array in values.items()}, valid[start:stop]
        )
        states = [
            reducer.merge(state, reducer.on_host(partial))
            for reducer, state, partial in zip(all_of_them, states, partials, strict=True)
        ]
        start, iteration = stop, iteration + 1
    return dict(
        item for r, state in zip(all_of_them, states, strict=True) for item in r.finish(state).items()
    )


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for key in one:
        assert one[key].dtype == other[key].dtype
        assert one[key].tobytes() == other[key].tobytes(), key


@pytest.mark.more
def test_errors_of_variances_and_quantiles_are_the_spread_over_samples():
    """800 samples, of which every row is one, of distributions whose variance and quantiles are known."""
    shape, rng = (800, 13, 64), np.random.default_rng(5)
    draws = {"normal": 5 + 2 * rng.standard_normal(shape), "exponential": rng.exponential(1.0, shape)}
    distributions = {"normal": stats.norm(5, 2), "exponential": stats.expon()}
    result = gather(draws, np.ones((13, 64), bool), [13], dict.fromkeys(draws, 800))
    for name, distribution in distributions.items():
        z = (result[f"{name}_variance"] - distribution.var()) / result[f"{name}_variance_stderr"]
        away = result[f"{name}_quantile"][:, 1:4] - distribution.ppf(LEVELS[1:4])
        for each in (z, *(away / result[f"{name}_quantile_stderr"][:, 1:4]).T):
            assert 0.92 < np.mean(np.abs(each) < 2) < 0.98
            assert abs(np.median(each)) < 0.2


@pytest.mark.more
@pytest.mark.parametrize(
    ("dtype", "length"), [(np.float32, 24), pytest.param(np.float64, 256, marks=pytest.mark.slow)]
)
def test_grouping_of_leaves_leaves_every_bit(dtype, length):
    values = sample(length=length, dtype=dtype)
    valid = np.random.default_rng(1).random((13, length)) < 0.97
    whole = gather(values, valid, [13])
    for groups in ([1], [5, 5, 3], [1, 5, 3]):
        assert_same_bits(gather(values, valid, groups), whole)


@given(st.data())
@settings(max_examples=20)
def test_states_of_neighbouring_leaves_join_to_every_bit(data):
    """Cut anywhere, merged one by one in each part, and joined from the left or from the right.

    Of numbers of many sizes, of which twins that change places give other bits.
    """
    values, valid = sample(length=64), np.random.default_rng(1).random((13, 64)) < 0.97
    values = {name: np.exp(np.clip(x - 100, -9, 9)) for name, x in values.items()}
    ends = sorted(data.draw(st.sets(st.integers(1, 12), max_size=5)))
    all_of_them, update = compiled(tuple(ROWS.items()))
    partials = [
        update({name: x[:, i : i + 1] for name, x in values.items()}, valid[i : i + 1]) for i in range(13)
    ]
    result = {}
    for place, reducer in enumerate(all_of_them):
        states = []
        for start, stop in itertools.pairwise([0, *ends, 13]):
            state = reducer.init(start)
            for partial in partials[start:stop]:
                state = reducer.merge(state, reducer.on_host(partial[place]))
            states.append(state)
        while len(states) > 1:
            at = data.draw(st.integers(0, len(states) - 2))
            states[at : at + 2] = [reducer.join(states[at], states[at + 1])]
        result |= reducer.finish(states[0])
    assert_same_bits(result, gather(values, valid, [13]))


@pytest.mark.parametrize("empty_first", [False, True])
def test_leaves_without_paths_change_no_bit_of_numbers_whose_squares_overflow(empty_first):
    """Chunks that are not full have such leaves, and so have those in which all paths failed."""
    rng = np.random.default_rng(3)
    values = {"S": 1e200 * rng.standard_normal((2, 3, 64)), "v": rng.standard_normal((2, 3, 64))}
    rows = dict.fromkeys(values, 2)
    alone = gather(values, np.ones((3, 64), bool), [3], rows)
    nothing = {name: np.zeros((2, 5, 64)) for name in values}
    parts = (nothing, values) if empty_first else (values, nothing)
    both = {name: np.concatenate([part[name] for part in parts], 1) for name in values}
    there = np.repeat([not empty_first, empty_first], [3, 5] if not empty_first else [5, 3])
    with_empty = gather(both, np.ones((8, 64), bool) & there[:, None], [8], rows)
    assert np.isinf(alone["S_variance"]).all()
    np.testing.assert_array_equal(np.isinf(with_empty["S_variance"]), True)
    np.testing.assert_allclose(with_empty["v_mean"], alone["v_mean"], rtol=1e-14)
    assert not np.isnan(with_empty["covariance"]).any() or np.isnan(alone["covariance"]).any()
    if not empty_first:
        assert_same_bits(with_empty, alone)


def test_states_that_are_no_neighbours_are_not_joined():
    moments = Moments(ROWS)
    with pytest.raises(ValueError, match="up to 2 is followed by one from 3"):
        moments.join(moments.init(2), moments.init(3))
    with pytest.raises(ValueError, match="before 2 are missing"):
        moments.finish(moments.init(2))


@pytest.mark.more
def test_four_devices_leave_every_bit():
    values = sample(leaves=16)
    valid = np.ones((16, 64), bool)
    mesh = Mesh(np.array(jax.devices()), ("leaves",))
    assert mesh.size == 4

    def spread(array):
        return jax.device_put(array, NamedSharding(mesh, PartitionSpec(None, "leaves", None)))

    assert_same_bits(gather(values, valid, [16], place=spread), gather(values, valid, [16]))


def test_rows_do_not_depend_on_one_another():
    # XLA's own reduction fails this on jax 0.12: its order changes with the array's shape.
    x = np.random.default_rng(2).standard_normal((24, 256)) + 100
    add = user_jit(pairwise_sum)
    together = np.asarray(add(x))
    for n in (1, 2, 3, 5, 8, 13):
        np.testing.assert_array_equal(np.asarray(add(x[:n])), together[:n])


def test_moments_and_covariance_are_numpys():
    values = sample()
    result = gather(values, np.ones((13, 64), bool), [13])
    n = 13 * 64
    assert result["n"] == n
    for name, rows in ROWS.items():
        flat = values[name].reshape(rows, n)
        np.testing.assert_allclose(result[f"{name}_mean"], flat.mean(1), rtol=1e-14)
        np.testing.assert_allclose(result[f"{name}_variance"], flat.var(1, ddof=1), rtol=1e-12)
        np.testing.assert_allclose(result[f"{name}_stderr"], flat.std(1, ddof=1) / np.sqrt(n), rtol=1e-12)
        spread = (stats.moment(flat, 4, axis=1) - flat.var(1, ddof=1) ** 2 * (n - 3) / (n - 1)) / n
        np.testing.assert_allclose(result[f"{name}_variance_stderr"], np.sqrt(spread), rtol=1e-11)
        np.testing.assert_array_equal(result[f"{name}_min"], flat.min(1))
        np.testing.assert_array_equal(result[f"{name}_max"], flat.max(1))
    ends = np.stack([values[name][-1].ravel() for name in ROWS])
    np.testing.assert_allclose(result["covariance"], np.cov(ends), rtol=1e-10, atol=1e-12)
    assert list(result["quantity"]) == list(ROWS)


@pytest.mark.parametrize("hidden", [np.nan, np.inf, 1e300])
def test_masked_entries_contribute_nothing(hidden):
    values = sample()
    valid = np.random.default_rng(3).random((13, 64)) < 0.8
    valid[4] = False
    dirty = {name: np.where(valid, array, hidden) for name, array in values.items()}
    result = gather(dirty, valid, [13])
    clean = gather({name: np.where(valid, array, 0.0) for name, array in values.items()}, valid, [13])
    assert_same_bits(result, clean)
    assert result["n"] == valid.sum()
    np.testing.assert_allclose(result["S_mean"], values["S"][:, valid].mean(1), rtol=1e-14)
    np.testing.assert_allclose(result["S_variance"], values["S"][:, valid].var(1, ddof=1), rtol=1e-12)
    assert result["call_histogram"].sum() <= valid.sum()


def test_a_large_mean_does_not_cancel_the_variance():
    noise = np.random.default_rng(4).standard_normal((1, 50, 64))
    result = gather({"x": 1e8 + noise}, np.ones((50, 64), bool), [25], {"x": 1})
    exact = (1e8 + noise) - 1e8
    np.testing.assert_allclose(result["x_variance"], exact.var(ddof=1), rtol=1e-7)
    np.testing.assert_allclose(result["covariance"], exact.var(ddof=1), rtol=1e-7)


@pytest.mark.parametrize("value", [0.1, -7.3, 0.0, 1e-300, 3e38, -1e300, 1.0 - 2.0**-30])
def test_equal_values_have_no_spread(value):
    valid = np.ones((9, 50), bool)
    valid[3, 7:] = False
    result = gather({"x": np.full((1, 9, 50), value)}, valid, [3], {"x": 1})
    for key in ("x_mean", "x_min", "x_max"):
        assert result[key] == value
    assert np.all(result["x_quantile"] == value)
    assert np.all(result["x_quantile_bin_error"] == 0)
    assert result["x_variance"] == result["x_stderr"] == result["covariance"] == 0
    assert result["x_variance_stderr"] == 0
    assert list(result["x_quantile_stderr"][0, 1:-1]) == [0] * (len(LEVELS) - 2)
    assert result["x_histogram"].sum() == result["n"]
    assert np.all(np.diff(result["x_histogram_edge"]) > 0)


def test_samples_too_small_for_a_statistic_give_nan():
    value = {"x": np.full((1, 2, 8), 5.0)}
    valid = np.zeros((2, 8), bool)
    none = gather(value, valid, [1], {"x": 1})
    assert none["n"] == 0
    for key in ("x_mean", "x_variance", "x_stderr", "x_min", "x_max", "x_quantile", "covariance"):
        assert np.all(np.isnan(none[key])), key
    valid[1, 3] = True
    one = gather(value, valid, [1], {"x": 1})
    assert one["x_mean"] == one["x_min"] == one["x_quantile"][0, 3] == 5.0
    for key in ("x_variance", "x_stderr", "covariance"):
        assert np.all(np.isnan(one[key])), key
    for reducer in (Moments(ROWS), Covariance(ROWS), Histogram(ROWS, LEVELS)):
        reducer.finish(reducer.init())


update_one = user_jit(Histogram({"x": 1}, ()).update)
finite = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.floats(-1e3, 1e3),
    st.floats(99, 101),
    st.sampled_from([0.0, -0.0, 1.0, 1.0 - 2.0**-30, 1e300, -1e300, 1e-300]),
)


@pytest.mark.more
@settings(max_examples=150, deadline=None)
@given(st.lists(finite, min_size=1, max_size=64), st.floats(0, 1))
def test_quantiles_lie_within_their_stated_error(numbers, level):
    x = np.zeros((1, 1, 64))
    x[0, 0, : len(numbers)] = numbers
    with jax.enable_x64(True):
        partial = update_one({"x": x}, np.arange(64)[None] < len(numbers))
    reducer = Histogram({"x": 1}, (level,))
    result = reducer.finish(reducer.merge(reducer.init(), reducer.on_host(partial)))
    ordered = np.sort(numbers)
    rank = level * (len(numbers) - 1)
    below, above = ordered[int(rank)], ordered[min(int(rank) + 1, len(numbers) - 1)]
    exact = (1 - (rank - int(rank))) * below + (rank - int(rank)) * above
    bound = result["x_quantile_bin_error"][0, 0]
    slack = 1e-12 * max(abs(below), abs(above)) + 2.0**-126  # denormal numbers of float32 count as zero
    assert abs(result["x_quantile"][0, 0] - exact) <= bound + slack
    if max(abs(below), abs(above)) < 3e38:
        assert bound <= 2.0**-8.9 * max(abs(below), abs(above)) + 2.0**-125
    assert result["x_histogram"].sum() <= len(numbers)


def test_quantiles_of_a_large_sample_are_numpys():
    x = 100 * np.exp(0.2 * np.random.default_rng(5).standard_normal((1, 40, 500)))
    result = gather({"x": x}, np.ones((40, 500), bool), [20], {"x": 1})
    exact = np.quantile(x, LEVELS)
    assert np.all(np.abs(result["x_quantile"][0] - exact) <= result["x_quantile_bin_error"][0] + 1e-12)
    np.testing.assert_allclose(result["x_quantile"][0], exact, rtol=1e-3)


@pytest.mark.parametrize("deviation", [0.02, 0.2, 0.6])
def test_values_closer_than_bins_are_neither_spread_nor_certain(deviation):
    """In a few bins of 0.5, counts are those of the bins, and quantiles as uncertain."""
    x = 324.3 + deviation * np.random.default_rng(7).standard_normal((1, 40, 500))
    result = gather({"x": x}, np.ones((40, 500), bool), [20], {"x": 1})
    counts, edges = result["x_histogram"], result["x_histogram_edge"]
    np.testing.assert_array_equal(edges % 0.5, 0)
    there = np.flatnonzero(counts)[1:-1]  # those at the rims have the outermost thousandths too
    np.testing.assert_array_equal(counts[there], np.histogram(x, edges)[0][there])
    inside = slice(1, -1)
    off = np.abs(result["x_quantile"][0] - np.quantile(x, LEVELS))[inside]
    assert np.all(off <= result["x_quantile_stderr"][0, inside])


@pytest.mark.parametrize("count", [9, 20, 50, 300])
def test_the_error_of_a_quantile_of_equally_spaced_numbers(count):
    """It is that of the rank, also in samples so small that ranks are few."""
    x = np.zeros((1, 1, 300))
    x[0, 0, :count] = np.arange(count)
    result = gather({"x": x}, np.arange(300)[None] < count, [1], {"x": 1})
    errors = result["x_quantile_stderr"][0, 2:5]
    wanted = np.sqrt(count * np.array(LEVELS[2:5]) * (1 - np.array(LEVELS[2:5])))
    np.testing.assert_allclose(errors, wanted, rtol=0.01)


def test_a_quantile_among_equal_zeros_is_zero_and_has_no_error():
    x = np.maximum(np.random.default_rng(6).standard_normal((1, 40, 500)), 0)  # half of them
    for sign in (1, -1):
        result = gather({"x": sign * x}, np.ones((40, 500), bool), [20], {"x": 1})
        inside = slice(1, 3) if sign > 0 else slice(4, 6)
        for key in ("quantile", "quantile_bin_error", "quantile_stderr"):
            assert np.all(result[f"x_{key}"][0, inside] == 0), key


def test_values_in_one_bin_are_spread_about_its_middle():
    """As many above as below, so that quantiles have no bias."""
    middle, each = int(bin_of(jnp.float32(1.5), jnp.bool_(True))), 4
    numbers = BinnedNumbers.of(middle - 1, np.array([1, each, 1]), 1.0, 2.0, whole=False)
    results, _ = order_statistics(numbers, 1 + np.arange(each))
    assert np.mean(results) == pytest.approx(np.mean(lower_edges(middle + np.arange(2))), rel=1e-6)
    assert np.ptp(results) == pytest.approx(
        (each - 1) / each * np.ptp(lower_edges(middle + np.arange(2))), rel=1e-3
    )


def test_bins_are_monotone_and_hold_their_values():
    magnitudes = np.concatenate([10.0 ** np.linspace(-37.8, 38.4, 4001), [2.0**-126, 3.4028234e38, 1e300]])
    x = np.sort(np.concatenate([-magnitudes, [0.0, 1e-39, -1e-39, 1e-300], magnitudes]))
    bins = np.asarray(user_jit(bin_of)(x, np.ones(x.shape, bool)))
    assert np.all(np.diff(bins) >= 0)
    assert (bins[0], bins[-1]) == (-LAST_BIN, LAST_BIN)
    slack = 2.0**-24 * np.abs(x)
    assert np.all((lower_edges(bins) - slack <= x) & (x <= lower_edges(bins + 1) + slack))
    normal = (np.abs(bins) > 0) & (np.abs(bins) < LAST_BIN)
    width = (lower_edges(bins + 1) - lower_edges(bins))[normal]
    assert np.all(width <= 2.0**-9 * np.abs(x[normal]) * (1 + 2.0**-8))
    assert np.all(np.asarray(bin_of(jnp.array([1.0, np.nan]), jnp.array([False, False]))) == NO_BIN)


def test_zero_has_no_sign():
    for x in (np.full((1, 6, 50), -0.0), np.where(np.arange(300).reshape(1, 6, 50) % 3, 0.0, -0.0)):
        result = gather({"x": x}, np.ones((6, 50), bool), [6], {"x": 1})
        for key in ("x_mean", "x_min", "x_max", "x_quantile"):
            assert not np.any(np.signbit(result[key])), key


def test_errors_name_what_to_change():
    with pytest.raises(ValueError, match=r"S: expected 3 rows, got an array of shape \(2, 1, 4\)"):
        Moments({"S": 3}).update({"S": np.zeros((2, 1, 4))}, np.ones((1, 4), bool))
    with pytest.raises(ValueError, match=r"quantiles: must lie between 0 and 1, got 5"):
        Histogram({"S": 3}, (5.0,))
    with jax.enable_x64(False), pytest.raises(ValueError, match="enable_x64"):
        Moments({"S": 1}).update({"S": np.zeros((1, 1, 4))}, np.ones((1, 4), bool))
