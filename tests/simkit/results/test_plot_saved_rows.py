"""Between saved rows pictures show nothing that was not there: no ramps for doses, no polygons for orbits."""

import numpy as np
import pytest
from dataset_examples import gbm_dataset, one_curve_dataset
from pictures import assert_nothing_overlaps

import simkit
from simkit import plot_dataset
from simkit.results.plots.saved_rows import are_too_few

pytestmark = pytest.mark.more


DOSED = {
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


def dosed():
    """A decay with doses at the start, at a saved time and between two, saved at 0, 1, …, 6."""
    return simkit.run(DOSED)


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


def test_a_panel_says_how_long_before_the_next_saved_time_events_are():
    """Equal doses look unequal where the first row after each is later by another time."""
    dataset = dosed()
    assert dataset["gut_events"].attrs["longest_delay"] == 0.5
    figure = plot_dataset(dataset)
    text = "events are up to 0.5 before the next saved time (save.points)"
    others = "6 saved times for 3 events: peaks between them are not seen (save.points)"
    for axes in figure.axes:
        assert axes.get_title("left") == (text if axes.get_ylabel() in ("gut", "double") else others)
    assert_nothing_overlaps(figure)
    met = simkit.run(DOSED | {"save": {"points": 12}})
    assert not any(axes.get_title("left") for axes in plot_dataset(met).axes)


def test_a_panel_of_variants_says_the_longest_time(tmp_path):
    """Also where their doses lie differently to the saved times, as read from a file."""
    dose = {
        "events": {"dose": {"every": "tau", "first": 0, "set": {"gut": "gut + 1"}}},
        "constants": {"tau": 2},
    }
    variants = {"variants": {"exact": {}, "late": {"constants.tau": 1.5}}}
    simkit.run(DOSED | dose | variants, out=str(tmp_path / "doses.zarr"))
    dataset = simkit.read_dataset(tmp_path / "doses.zarr")
    assert list(dataset["gut_events"].attrs["longest_delay"]) == [0.0, 0.5]
    titles = [axes.get_title("left") for axes in plot_dataset(dataset).axes]
    assert "events are up to 0.5 before the next saved time (save.points)" in titles


def test_events_break_quantiles_paths_and_means_alike():
    dataset = gbm_dataset()
    changed = np.zeros(dataset.sizes["time"], int)
    changed[[0, 4, 12]] = 1
    dataset["S_events"] = ("time", changed)
    fan, _, level, *_ = plot_dataset(dataset).axes  # level is S / 100
    for axes in (fan, level):
        broken = [line for line in axes.get_lines() if len(line.get_xdata()) > 6]
        assert len(broken) > 5
        for line in broken:
            np.testing.assert_array_equal(np.flatnonzero(np.isnan(line.get_ydata())), [4, 13])
            assert line.get_marker() == "o"  # the last row stands alone
        assert all(len(band.get_paths()) > 1 for band in axes.collections)


def test_up_to_an_event_the_last_saved_value_is_dotted():
    """What is just before it is not saved, and an empty strip would look like a time without a value."""
    dataset = dosed()
    gut = dataset["gut_mean"].values
    for axes in plot_dataset(dataset).axes:
        name, lines = axes.get_ylabel(), axes.get_lines()
        assert len(lines) == (2 if name in ("gut", "double") else 1)
        if name == "gut":
            line, held = lines
            np.testing.assert_array_equal(held.get_xdata(), [1, 2, 2, 4, 5, 5])
            np.testing.assert_array_equal(held.get_ydata(), [gut[1], gut[1], np.nan, gut[4], gut[4], np.nan])
            assert (line.is_dashed(), held.is_dashed()) == (False, True)
            assert held.get_color() == line.get_color()


def test_dotted_lines_and_paler_bands_go_with_all_others_and_have_no_legend():
    dataset = gbm_dataset()
    dataset["S_events"] = ("time", np.arange(dataset.sizes["time"]) == 4)
    plain, figure = plot_dataset(gbm_dataset()), plot_dataset(dataset)
    for axes, before in zip(figure.axes[::2], plain.axes[::2], strict=True):
        if not axes.get_xlabel().startswith("call"):  # nothing over time
            assert len(axes.collections) == 2 * len(before.collections)
            assert len(axes.get_lines()) == 2 * len(before.get_lines())
    texts = [[text.get_text() for text in each.legends[0].get_texts()] for each in (plain, figure)]
    assert texts[0] == texts[1]
    pairs = zip(figure.axes[0].collections[::2], figure.axes[0].collections[1::2], strict=True)
    assert all(paler.get_alpha() < band.get_alpha() for band, paler in pairs)


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


@pytest.mark.parametrize("paths", [1, 4])
def test_a_path_of_counts_is_drawn_in_steps_and_a_mean_is_not(paths):
    """Counts stay between reactions, so a slope would show values that never were."""
    dataset = simkit.run(
        {
            "model": {"reactions": {"decay": {"equation": "A -> 0", "rate": 0.1}}},
            "initial": {"A": 9},
            "time": {"t1": 8.0},
            "ensemble": {"paths": paths, "seed": 1},
            "save": {"points": 8, "paths": paths},
            "observe": {"half": {"value": "A/2", "at": "each"}},
        }
    )
    drawn = [line.get_drawstyle() for axes in plot_dataset(dataset).axes for line in axes.get_lines()]
    assert drawn.count("steps-post") == 2 * paths
    assert ("default" in drawn) == (paths > 1)
    axes = plot_dataset(dataset, "A", kind="paths").axes[0]
    assert [line.get_drawstyle() for line in axes.get_lines()] == ["steps-post"] * paths
