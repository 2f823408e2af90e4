"""The axes of a sweep: names of points, texts of values, and dimensions wherever the points stand."""

import numpy as np
import pytest
import xarray as xr

from simkit.results.swept import Axes, folded, name_columns, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456789012345, "0.123456789012345"),
        (100.0, "100"),
        (None, "null"),
        (True, "true"),
        ("CIR", "CIR"),
        ([1, 2.5, None], "[1, 2.5, null]"),
        ({"type": "GBM", "mu": 0.1}, "{type: GBM, mu: 0.1}"),
    ],
)
def test_values_are_text_as_a_file_has_them(value, text):
    assert value_text(value) == text


def test_points_with_the_same_values_have_names_of_their_own():
    """As side by side, where a pair of values may come again."""
    axes = Axes({"a": [1, 2, 1], "b": ["x", "y", "x"]}, side_by_side=True)
    assert axes.names == ["1: a=1, b=x", "2: a=2, b=y", "3: a=1, b=x"]
    assert Axes({"a": [1, 2]}).names == ["a=1", "a=2"]


def test_points_may_stand_along_any_dimension_of_a_variable():
    axes = Axes({"a": [1, 2], "b": ["x", "y", "z"]})
    values = np.arange(12.0).reshape(2, 6)
    flat = xr.Dataset({"v": (("time", "variant"), values)}, {"variant": axes.names})
    result = folded(flat, axes)
    assert result["v"].dims == ("a", "b", "time")
    for i, (a, b) in enumerate(axes.points):
        assert np.array_equal(result["v"].values[a, b], values[:, i])


def test_a_table_has_a_column_for_each_key_and_one_of_names_without_keys():
    axes = Axes({"a": [1, 2], "b": ["x"]})
    flat = xr.Dataset({"v": ("variant", [0.0, 1.0])}, {"variant": axes.names})
    columns = name_columns(folded(flat, axes), axes.names)
    assert columns == {"a": {"a=1, b=x": "1", "a=2, b=x": "2"}, "b": {"a=1, b=x": "x", "a=2, b=x": "x"}}
    assert name_columns(flat, ["low", "high"]) == {"variant": {"low": "low", "high": "high"}}
