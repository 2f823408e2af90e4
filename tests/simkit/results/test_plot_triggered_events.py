"""A line is broken where an event happened on its path, also where a condition decides when: no ramps."""

import numpy as np
import pytest

import simkit
from simkit import plot_dataset

BALL = {
    "constants": {"g": 9.81},
    "model": {"ode": {"h": "v", "v": "-g"}},
    "initial": {"h": 1.0, "v": 0.0},
    "time": {"t1": 1.5, "rtol": 1e-9, "atol": 1e-9},
    "precision": "float64",
    "save": {"points": 60},
    "events": {"bounce": {"when": "h < 0", "set": {"v": "-0.8*v"}}},
}
# Falls from above 1.01 to 0, and from nowhere else as far between two rows: the path itself shows its events.
TEETH = {
    "model": {"sde": {"x": {"drift": 1, "noise": {"W": 0.02}}}},
    "initial": {"x": 0.0},
    "time": {"t1": 5.0, "steps": 500},
    "save": {"points": 100, "paths": 12},
    "ensemble": {"paths": 16},
    "events": {"fall": {"when": "x > 1", "set": {"x": "x - 1"}}},
}
CULLED = {
    "model": {"reactions": {"birth": {"equation": "0 -> X", "rate": 20}}},
    "initial": {"X": 0},
    "time": {"t1": 5.0},
    "save": {"points": 100, "paths": 12},
    "ensemble": {"paths": 16},
    "events": {"cull": {"when": "X >= 20", "set": {"X": 0}}},
}


def falls(values):
    """Where each path is lower than in the row before: nothing else makes these paths fall so far."""
    return np.diff(values, axis=-1, prepend=values[..., :1]) < -0.5 * (np.nanmax(values) - np.nanmin(values))


@pytest.mark.parametrize(("experiment", "name"), [(TEETH, "x"), (CULLED, "X")])
def test_each_stored_path_knows_before_which_rows_its_events_happened(experiment, name):
    dataset = simkit.run(experiment)
    marks = dataset[f"{name}_path_events"]
    assert marks.dims == ("path", "time")
    assert marks.sizes["path"] == 12
    assert marks.values.any(axis=1).all()
    np.testing.assert_array_equal(marks.values, falls(dataset[f"{name}_path"].values))


def test_a_ball_is_seen_to_bounce_at_the_rows_after_it():
    """From 1 m it is on the ground after 0.4515 s, and 0.7224 s later."""
    dataset = simkit.run(BALL)
    rows = np.searchsorted(dataset["time"].values, [0.45152, 0.45152 * 2.6])
    np.testing.assert_array_equal(np.flatnonzero(dataset["v_path_events"].values[0]), rows)
    assert "h_path_events" not in dataset
    height, speed = plot_dataset(dataset).axes
    assert not np.isnan(height.get_lines()[0].get_ydata()).any()
    line, held = speed.get_lines()
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(line.get_ydata())), rows + np.array([0, 1]))
    assert held.is_dashed()
    before = dataset["v_mean"].values[rows - 1]
    np.testing.assert_array_equal(held.get_ydata()[[0, 1, 3, 4]], np.repeat(before, 2))


@pytest.mark.parametrize(("experiment", "name"), [(TEETH, "x"), (CULLED, "X")])
@pytest.mark.parametrize("kind", [None, "paths"])
def test_no_line_of_a_path_falls_where_an_event_happened(experiment, name, kind):
    """Each is broken at its own events, and means over paths, which have them at other times, at none."""
    dataset = simkit.run(experiment)
    figure = plot_dataset(dataset, name if kind else None, kind=kind)
    paths = dataset[f"{name}_path"].values
    drawn = [line.get_ydata() for line in figure.axes[0].get_lines() if not line.is_dashed()]
    drawn = [values for values in drawn if np.isnan(values).any()]
    assert len(drawn) == 8
    for values, path in zip(drawn, paths, strict=False):
        np.testing.assert_array_equal(values[~np.isnan(values)], path)
        assert not falls(values).any()
    if kind is None:
        entries = [text.get_text() for text in figure.legends[0].get_texts()]
        assert entries.count("sample paths") == 1
        smooth = [x for x in figure.axes[0].get_lines() if x.get_label() in ("mean", "median")]
        assert len(smooth) == 2
        assert not any(np.isnan(line.get_ydata()).any() for line in smooth)


def test_only_a_row_between_two_events_has_a_point():
    """Its line has no length, and the rows of all others have one."""
    late = {"at": [4.95, 5.0], "set": {"x": 0}}
    dataset = simkit.run(
        TEETH | {"events": {"late": late}, "ensemble": {"paths": 1}, "save": {"points": 100}}
    )
    (line,) = (line for line in plot_dataset(dataset).axes[0].get_lines() if not line.is_dashed())
    assert line.get_marker() == "o"
    values = line.get_ydata()
    alone = np.isnan(np.r_[np.nan, values[:-1]]) & np.isnan(np.r_[values[1:], np.nan]) & ~np.isnan(values)
    np.testing.assert_array_equal(line.get_markevery(), np.flatnonzero(alone))
    assert alone.sum() == 2


def test_a_portrait_has_no_chord_across_an_event():
    dataset = simkit.run(BALL | {"plot": {"portrait": [["h", "v"]]}})
    portrait = next(axes for axes in plot_dataset(dataset).axes if axes.get_xlabel() == "h")
    assert np.isnan(portrait.get_lines()[0].get_ydata()).sum() == 2


def test_variants_with_and_without_the_event_are_each_drawn_right():
    variants = {"bouncing": {}, "flying": {"events": None}}
    figure = plot_dataset(simkit.run(BALL | {"variants": variants}))
    lines = {line.get_label(): line for line in figure.axes[1].get_lines()}
    gaps = {name: int(np.isnan(lines[name].get_ydata()).sum()) for name in variants}
    assert gaps == {"bouncing": 2, "flying": 0}


def test_paths_that_are_not_stored_have_no_marks():
    dataset = simkit.run(TEETH | {"save": {"points": 10, "paths": 0}})
    assert "x_path_events" not in dataset
    assert float(dataset["fall_count"]) > 0


@pytest.mark.more
def test_marks_are_those_of_any_chunks():
    """Also where more paths are stored than one chunk has."""
    many = TEETH | {"save": {"points": 20, "paths": 4000}}
    one, two = (
        simkit.run(many | {"ensemble": {"paths": 4096, "chunk": size}})["x_path_events"].values
        for size in (4096, 2048)
    )
    assert len(one) == 4000
    np.testing.assert_array_equal(one, two)
