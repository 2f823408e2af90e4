"""Between saved rows pictures show nothing that was not there: no ramps for doses, no polygons for orbits."""

import numpy as np
import pytest
from dataset_examples import gbm_dataset, one_curve_dataset
from pictures import assert_nothing_overlaps

import simkit
from simkit import plot_dataset
from simkit.results.plots.saved_rows import are_too_few

pytestmark = pytest.mark.more


def dosed():
    """A decay with doses at the start, at a saved time and between two, saved at 0, 1, …, 6."""
    return simkit.run(
        {
            "model": {"ode": {"gut": "-gut", "blood": "gut"}},
            "initial": {"gut": 0.0, "blood": 0.0},
            "solver": "Tsit5",
            "time": {"t1": 6.0, "steps": 12},
            "events": {"dose": {"at": [0.0, 2.0, 4.5], "set": {"gut": "gut + 1"}}},
            "save": {"points": 6},
            "observe": {
                "double": {"value": "2*gut", "at": "each"},
                "late": {"value": "3*blood", "at": "each"},
            },
        }
    )


def test_a_dose_breaks_the_line_before_the_row_that_has_it():
    dataset = dosed()
    np.testing.assert_array_equal(dataset["gut_events"], [1, 0, 1, 0, 0, 1, 0])
    assert "blood_events" not in dataset
    lines = {axes.get_ylabel(): axes.get_lines()[0] for axes in plot_dataset(dataset).axes}
    for name in ("gut", "double"):
        np.testing.assert_array_equal(np.isnan(lines[name].get_ydata()), [0, 0, 1, 0, 0, 0, 1, 0, 0])
        np.testing.assert_array_equal(lines[name].get_xdata(), [0, 1, 2, 2, 3, 4, 5, 5, 6])
    for name in ("blood", "late"):
        np.testing.assert_array_equal(lines[name].get_ydata(), dataset[f"{name}_mean"])


def test_events_break_quantiles_paths_and_means_alike():
    dataset = gbm_dataset()
    changed = np.zeros(dataset.sizes["time"], int)
    changed[[0, 4, 12]] = 1
    dataset["S_events"] = ("time", changed)
    fan, _, level, *_ = plot_dataset(dataset).axes  # level is S / 100
    for axes in (fan, level):
        assert len(axes.get_lines()) > 5
        for line in axes.get_lines():
            np.testing.assert_array_equal(np.flatnonzero(np.isnan(line.get_ydata())), [4, 13])
            assert line.get_marker() == "o"  # the last row stands alone
        assert all(len(band.get_paths()) > 1 for band in axes.collections)


def circle(rows, turns):
    angle = np.linspace(0, 2 * np.pi * turns, rows)
    return np.cos(angle), np.sin(angle)


@pytest.mark.parametrize(
    ("rows", "turns", "smooth", "points"),
    [
        *[(40, 1, True, True), (40, 1, False, True), (60, 1, True, False)],
        *[(200, 20, True, True), (200, 20, False, False), (2000, 20, True, False)],
    ],
)
def test_chords_that_would_make_a_polygon_are_points(rows, turns, smooth, points):
    assert are_too_few(*circle(rows, turns), smooth) is points


def test_an_orbit_at_rest_is_no_polygon():
    x, y = (np.concatenate([values, np.full(3000, values[-1])]) for values in circle(100, 1))
    assert not are_too_few(x, y, smooth=True)


@pytest.mark.parametrize("rows", [13, 53])
def test_a_portrait_of_few_rows_has_points(rows):
    dataset = gbm_dataset(rows=rows).copy()
    dataset.attrs["plot_portrait"] = "S level"
    figure = plot_dataset(dataset)
    portrait = next(axes for axes in figure.axes if axes.get_xlabel() == "S, asset price [currency]")
    orbit = portrait.get_lines()[0]
    assert (orbit.get_linestyle() == "None") is (rows == 13)
    assert portrait.get_title("left").startswith("points at the saved times" if rows == 13 else "")
    assert_nothing_overlaps(figure)


def test_few_rows_over_time_are_marked():
    dataset = one_curve_dataset()
    few = dataset.isel(time=slice(0, 30))
    few.attrs = dataset.attrs
    assert plot_dataset(few).axes[0].get_lines()[0].get_marker() == "o"
    assert plot_dataset(dataset).axes[0].get_lines()[0].get_marker() == "None"
