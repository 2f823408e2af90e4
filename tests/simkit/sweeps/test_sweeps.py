"""A sweep runs an experiment at each combination of values: every point is the run by itself, bit for bit."""

import io
import math
import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from md_examples import fluid

import simkit
from simkit.config.settings.sweep import swept_values
from simkit.ensemble import programs
from simkit.results.swept import Axes, folded, unfolded
from simkit.results.table import print_table
from simkit.results.variants import each_variant

GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 300, "seed": 1},
    "observe": {"call": "maximum(S - K, 0)"},
    "constants": {"K": 100.0},
}
OVER = {"model.sigma": [0.3, 0.1], "solver": ["EulerMaruyama", "Milstein"], "constants.K": "90:110:3"}
SCALARS = st.one_of(
    st.floats(-1e9, 1e9), st.integers(-(10**9), 10**9), st.text("abc ,=", min_size=1), st.none()
)


@pytest.fixture(scope="module")
def swept():
    return simkit.sweep(GBM, OVER)


def test_each_point_is_the_run_with_these_values(swept):
    """With the same noise everywhere, and all statistics."""
    assert dict(swept["call_mean"].sizes) == {"model.sigma": 2, "solver": 2, "constants.K": 3}
    for sigma in (0.1, 0.3):
        for strike in (90, 100, 110):
            alone = simkit.run(GBM, overrides={"model.sigma": sigma, "constants.K": strike})
            place = {"model.sigma": sigma, "solver": "EulerMaruyama", "constants.K": strike}
            point = swept.sel(place)
            for name in ("call_mean", "call_stderr", "S_variance", "call_quantile", "call_bias", "S_path"):
                assert np.array_equal(point[name].values, alone[name].values), name


def test_differences_are_from_the_first_point_on_the_same_paths(swept):
    first = swept["call_mean"].isel({"model.sigma": 0, "solver": 0, "constants.K": 0})
    difference = swept["call_mean"] - first
    assert np.allclose(swept["call_difference"], difference, rtol=0, atol=1e-12)
    by_solver = swept.sel({"model.sigma": 0.3, "solver": "Milstein", "constants.K": 90})
    assert 0 < float(by_solver["call_difference_stderr"]) < 0.2 * float(by_solver["call_stderr"])


def test_side_by_side_there_is_one_dimension(swept):
    both = simkit.sweep(GBM, {"model.sigma": [0.1, 0.3], "constants.K": [90, 110]}, zip=True)
    assert both["S_mean"].dims == ("model.sigma", "time")
    assert both["constants.K"].dims == ("model.sigma",)
    assert both["constants.K"].values.tolist() == [90, 110]
    for sigma, strike in ((0.1, 90), (0.3, 110)):
        place = {"model.sigma": sigma, "solver": "EulerMaruyama", "constants.K": strike}
        assert np.array_equal(both["call_mean"].sel({"model.sigma": sigma}), swept["call_mean"].sel(place))


def test_more_values_compile_nothing(monkeypatch):
    """Parameters are traced: seven values have the programs of two."""
    monkeypatch.setattr(programs, "_cache", type(programs._cache)())
    simkit.sweep(GBM, {"model.sigma": [0.1, 0.2]})
    compiled = set(programs._cache)
    simkit.sweep(GBM, {"model.sigma": "0.1:0.7:7", "constants.K": [90, 100]})
    assert set(programs._cache) == compiled


def test_the_section_of_the_file_is_swept_and_a_run_ignores_it():
    file = GBM | {"sweep": {"over": {"model.sigma": "0.1:0.3:2"}}}
    assert simkit.sweep(file).sizes["model.sigma"] == 2
    assert simkit.sweep(file, {"constants.K": [90, 110, 120]}).sizes.get("model.sigma") is None
    assert np.array_equal(simkit.run(file)["S_mean"], simkit.run(GBM)["S_mean"])


def test_sections_and_lists_are_values():
    """Initial values of a whole mapping, and an option of a solver."""
    over = {"initial": [{"S": 100.0}, {"S": 50.0}], "solver": [{"type": "Milstein"}, "EulerMaruyama"]}
    result = simkit.sweep(GBM, over)
    assert result["initial"].values.tolist() == ["{S: 100}", "{S: 50}"]
    assert result["solver"].values.tolist() == ["{type: Milstein}", "EulerMaruyama"]
    assert result["S_mean"].isel(time=0, solver=0).values.tolist() == [100.0, 50.0]


def test_molecular_dynamics_is_swept_too():
    result = simkit.sweep(fluid(time__steps=20), {"system.velocities.temperature": [0.5, 1.5]})
    cold, hot = result["T_mean"].values
    alone = simkit.run(fluid(time__steps=20, system__velocities__temperature=1.5))
    assert hot == float(alone["T_mean"])
    assert cold < hot


@given(
    first=st.floats(-1e6, 1e6),
    last=st.floats(-1e6, 1e6),
    count=st.integers(2, 40),
    ratios=st.booleans(),
)
def test_ranges_have_both_ends_and_equal_distances(first, last, count, ratios):
    if first == last or (ratios and not first * last > 0):
        with pytest.raises(ValueError, match="must"):
            swept_values(f"{first}:{last}:{count}{':log' if ratios else ''}")
        return
    values = swept_values(f"{first}:{last}:{count}{':log' if ratios else ''}")
    assert len(values) == count
    assert values[0] == pytest.approx(first, rel=1e-14)
    assert values[-1] == pytest.approx(last, rel=1e-14)
    scale = np.log(np.abs(values)) if ratios else np.asarray(values)
    assert np.diff(scale) == pytest.approx(
        (scale[-1] - scale[0]) / (count - 1), rel=1e-6, abs=1e-12 * max(abs(scale))
    )


def test_ranges_are_the_numbers_that_people_write():
    """0.3, not 0.30000000000000004, and 0, not -1e-16; whole numbers stay whole."""
    assert swept_values("0.1:0.5:9") == [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]
    assert swept_values("-0.9:0.9:7") == [-0.9, -0.6, -0.3, 0.0, 0.3, 0.6, 0.9]
    assert swept_values("0:1:4") == [0.0, 1 / 3, 2 / 3, 1.0]
    assert swept_values("1e-3 : 1 : 4 : log") == [0.001, 0.01, 0.1, 1.0]
    assert [type(x) for x in swept_values("10:40:4")] == [int] * 4
    assert swept_values("1:2:3") == [1.0, 1.5, 2.0]


@given(
    over=st.dictionaries(
        st.sampled_from(["a.b", "c", "d.e.f"]),
        st.lists(SCALARS, min_size=1, max_size=4, unique_by=str),
        min_size=1,
    ),
    side_by_side=st.booleans(),
)
def test_unfolding_gives_the_points_back(over, side_by_side):
    """In their order, whatever the keys are; the last one changes fastest."""
    if side_by_side:
        shortest = min(map(len, over.values()))
        over = {key: values[:shortest] for key, values in over.items()}
    axes = Axes(over, side_by_side)
    count = len(axes.points)
    assert count == (min if side_by_side else math.prod)([len(values) for values in over.values()])
    assert len({*axes.names}) == count
    attributes = {"variant_attributes": "{}", "simkit_kind": "particles"}
    flat = xr.Dataset(
        {"x": (("variant", "time"), np.arange(2.0 * count).reshape(count, 2)), "t": ("time", [0.0, 1.0])},
        {"variant": ("variant", np.array(axes.names, object), {"units": "1"})},
        attributes,
    )
    back = unfolded(folded(flat, axes))
    assert back["x"].identical(flat["x"])
    assert back["t"].identical(flat["t"])
    assert back.attrs["simkit_kind"] == "particles"


def test_the_dataset_survives_its_file_and_gives_each_point_as_a_run(tmp_path, swept):
    for ending in ("zarr", "nc"):
        simkit.write_dataset(swept, tmp_path / f"a.{ending}")
        read = simkit.read_dataset(tmp_path / f"a.{ending}")
        assert np.array_equal(read["call_mean"].values, swept["call_mean"].values)
        points = each_variant(unfolded(read))
        assert len(points) == 12
        point = points["model.sigma=0.1, solver=Milstein, constants.K=110"]
        assert point.attrs["solver"] == "Milstein"
        assert "K: 110" in point.attrs["configuration"]


def test_a_part_of_a_sweep_in_another_order_keeps_its_labels(swept):
    """Its points are known by their coordinates, in the table and in a file of statistics."""
    part = swept.sortby("model.sigma").isel({"constants.K": [2, 0], "solver": 1})
    points = each_variant(unfolded(part))
    assert [name.replace(", solver=Milstein", "") for name in points] == [
        f"model.sigma={sigma}, constants.K={strike}" for sigma in (0.1, 0.3) for strike in (110, 90)
    ]
    for name, point in points.items():
        sigma, strike = re.match(r"model.sigma=(.*), solver=Milstein, constants.K=(.*)", name).groups()
        place = {"model.sigma": float(sigma), "solver": "Milstein", "constants.K": int(strike)}
        assert float(point["call_mean"]) == float(swept["call_mean"].sel(place))
        assert f"K: {strike}" in point.attrs["configuration"]
    with pytest.raises(simkit.InputError, match="has no coordinate 'solver', which says what its points are"):
        unfolded(swept.isel(solver=0, drop=True))


def test_large_whole_numbers_keep_their_digits():
    result = simkit.sweep(GBM, {"ensemble.seed": [1, 2**63]})
    assert result["ensemble.seed"].values.tolist() == ["1", str(2**63)]
    assert simkit.sweep(GBM, {"ensemble.seed": [1, 2**62 + 1]})["ensemble.seed"].values[1] == 2**62 + 1


def test_truth_values_are_text():
    flat = xr.Dataset({"x": ("variant", [1.0, 2.0])}, {"variant": ["a", "b"]}, {"variant_attributes": "{}"})
    assert folded(flat, Axes({"solver.convert": [True, False]}))["solver.convert"].values.tolist() == [
        "true",
        "false",
    ]


def test_one_key_with_its_values_may_be_a_text():
    one, other = simkit.sweep(GBM, "model.sigma=0.1,0.3"), simkit.sweep(GBM, {"model.sigma": [0.1, 0.3]})
    assert one.drop_attrs().identical(other.drop_attrs())
    with pytest.raises(simkit.InputError, match=r"^over: must be keys with their values, as in .*, got 3$"):
        simkit.sweep(GBM, 3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("values", [np.array([0.1, 0.3]), jnp.array([0.1, 0.3]), pd.Series([0.1, 0.3])])
def test_values_may_be_arrays(values):
    result = simkit.sweep(GBM, {"model.sigma": values})
    np.testing.assert_allclose(result["model.sigma"], [0.1, 0.3], rtol=1e-6)


def test_values_may_be_a_range():
    assert simkit.sweep(GBM, {"constants.K": range(90, 120, 10)})["constants.K"].values.tolist() == [
        90,
        100,
        110,
    ]


def test_a_difference_of_means_has_the_difference_of_their_step_biases():
    """Of a first time that is much later on long steps at one point, and hardly at the other."""
    late = {
        "model": {"type": "OrnsteinUhlenbeck", "theta": 0.5, "mu": 0.0, "sigma": 0.3},
        "initial": {"X": 0.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 50},
        "ensemble": {"paths": 20_000, "seed": 5},
        "observe": {"hit": "hitting_time(X > 0.3)", "x": "X"},
    }
    result = simkit.sweep(late, {"model.sigma": [0.3, 0.6]})
    biases, errors = (result[f"hit_bias{end}"].values for end in ("", "_stderr"))
    np.testing.assert_allclose(result["hit_difference_bias"], [0, biases[1] - biases[0]])
    np.testing.assert_allclose(result["hit_difference_bias_stderr"], [0, np.hypot(*errors)])
    file = io.StringIO()
    print_table(unfolded(result), file)
    text = " ".join(file.getvalue().split())
    assert "! hit at model.sigma=0.6: the difference has a step bias of 0.0" in text
    assert "x at model.sigma=0.6: the difference" not in text
    assert re.search(r"│ -0\.\d+ ± 0\.\d+ ! │", text)
