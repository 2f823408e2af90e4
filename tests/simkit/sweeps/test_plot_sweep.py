"""The picture of a sweep shows the means that the dataset has, with two standard errors."""

import itertools
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import FillBetweenPolyCollection, QuadMesh

import simkit
from simkit.results.swept import Axes, folded
from simkit.sweeps.plot import MOST_LINES, plot_sweep

ODE = {
    "model": {"ode": {"x": "-k*x + c"}, "parameters": {"k": 1.0, "c": 0.0}},
    "initial": {"x": 1.0},
    "time": {"t1": 1.0, "steps": 8},
}
GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "ensemble": {"paths": 200, "seed": 1},
    "observe": {"call": "maximum(S - 100, 0)", "put": "maximum(100 - S, 0)"},
}


def drawn(over, kind="particles", errors=0.0, **figures):
    """The picture of a sweep whose means are 0, 1, 2, … in the order of its points, with these errors."""
    axes = Axes(over)
    means = np.arange(float(len(axes.points)))
    variables = {"x_mean": ("variant", means), "x_stderr": ("variant", 0 * means + errors)}
    variables |= {f"x_{key}": ("variant", values) for key, values in figures.items()}
    attributes = {"observables": "x", "state_variables": "", "model": "m", "simkit_kind": kind}
    attributes["variant_attributes"] = json.dumps({name: {} for name in axes.names})
    flat = xr.Dataset(variables, {"variant": axes.names}, attributes)
    if kind != "particles":
        flat = flat.assign_coords(time=[0.0, 2.5])
    return plot_sweep(folded(flat, axes))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_exact_means_are_drawn_where_they_are_known():
    figure = drawn({"a": [2.0, 1.0, 3.0], "b": ["u", "v"]}, exact=[7.0, 8.0, 5.0, 6.0, np.nan, 9.0])
    (panel,), (legend,) = figure.axes, figure.legends
    exact = [line.get_ydata() for line in panel.lines if line.get_label() == "exact mean"]
    np.testing.assert_equal(exact, [[5.0, 7.0, np.nan], [6.0, 8.0, 9.0]])
    assert [text.get_text() for text in legend.get_texts()].count("exact mean") == 1


def test_lines_have_bands_of_two_standard_errors():
    result = simkit.sweep(GBM, {"model.sigma": [0.3, 0.1, 0.2], "model.mu": [0.0, 0.1]})
    figure = simkit.plot_dataset(result)
    assert [panel.get_ylabel() for panel in figure.axes] == ["call", "put"]
    for panel, name in zip(figure.axes, ("call", "put"), strict=True):
        assert panel.get_xlabel() == "model.sigma"
        bands = [c for c in panel.collections if isinstance(c, FillBetweenPolyCollection)]
        for i, (line, band) in enumerate(zip(panel.lines, bands, strict=True)):
            own = result.isel({"model.mu": i}).sortby("model.sigma")
            x, y = line.get_data()
            assert x.tolist() == [0.1, 0.2, 0.3]
            assert np.allclose(y, own[f"{name}_mean"])
            heights = band.get_paths()[0].vertices[:, 1]
            top = float((own[f"{name}_mean"] + 2 * own[f"{name}_stderr"]).max())
            assert heights.max() == pytest.approx(top)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["model.mu = 0", "model.mu = 0.1"]
    assert "bands or bars: two standard errors" in figure.get_suptitle()


def test_two_keys_of_three_numbers_make_a_map():
    result = simkit.sweep(GBM, {"model.sigma": [0.1, 0.4, 0.2, 0.8], "model.mu": [0.0, 0.1, 0.3]})
    figure = simkit.plot_dataset(result)
    panel = figure.axes[0]
    (mesh,) = [c for c in panel.collections if isinstance(c, QuadMesh)]
    shown = result["call_mean"].sortby("model.sigma").transpose("model.mu", "model.sigma")
    assert np.allclose(mesh.get_array(), shown)
    largest = float(result["call_stderr"].max())
    assert panel.get_title(loc="left") == f"standard errors up to {largest:.2g}"
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")


@pytest.mark.parametrize("values", [[0.3, 0.35, 0.6, 1.2], [1, 10, 100], [*range(40)]], ids=str)
def test_ticks_of_a_map_are_at_its_values(values):
    """With a number where these do not touch."""
    figure = drawn({"a": values, "b": values})
    FigureCanvasAgg(figure).draw()
    panel, _ = figure.axes
    for axis in (panel.xaxis, panel.yaxis):
        labels = [each for each in axis.get_majorticklabels() if each.get_text()]
        numbers = [float(each.get_text()) for each in labels]
        assert numbers == axis.get_majorticklocs().tolist()
        assert {*numbers} <= {*values} == {*numbers, *axis.get_minorticklocs()}
        assert len(numbers) >= 3
        boxes = [each.get_window_extent() for each in labels]
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_a_mean_whose_error_is_unknown_has_a_hollow_mark_and_no_bar():
    """A band would shrink to nothing there, as if the mean were exact."""
    figure = drawn({"a": [1, 2, 4, 5]}, errors=[np.nan, 0.1, np.nan, 0.2])
    (panel,) = figure.axes
    _, hollow, *_ = panel.lines
    assert hollow.get_xdata().tolist() == [1, 4]
    assert hollow.get_markerfacecolor() == "white"
    (bars,) = panel.collections
    heights = [segment[:, 1] for segment in bars.get_segments()]
    assert np.allclose(heights, [[0.8, 1.2], [2.6, 3.4]])
    assert panel.get_title(loc="right") == "hollow: error unknown"
    figure = drawn({"a": [1, 2, 3], "b": [1, 2, 3]}, errors=[np.nan, *[0.1] * 8])
    assert figure.axes[0].get_title(loc="left") == "standard errors up to 0.1, unknown at 1 of 9"


def test_a_panel_says_how_many_paths_had_not_met_the_condition_of_a_first_time():
    """The range over the points; it is part of their means, and NaN where all had met it."""
    unmet = [np.nan, 0.5, 0.983]
    text = "0 to 98.3 % had not met it by t = 2.5"
    (panel,) = drawn({"a": [1, 2, 4]}, "", 0.1, censored=unmet).axes
    assert panel.get_title(loc="left") == text
    figure = drawn({"a": [1, 2, 4], "b": [1, 2, 3]}, "", 0.1, censored=[0.5] * 6 + unmet)
    assert figure.axes[0].get_title(loc="left") == f"standard errors up to 0.1\n{text}"
    (panel,) = drawn({"a": [1, 2, 4]}, "", 0.1, censored=[np.nan] * 3).axes
    assert not panel.get_title(loc="left")


def test_what_is_said_of_a_first_time_lies_over_no_other_note():
    unknown = drawn({"a": [1, 2, 4]}, "", [np.nan, 0.1, 0.1], censored=[0.1, 0.5, 0.983])
    many = {"a": [str(i) for i in range(MOST_LINES + 2)], "b": [1, 2]}
    for figure in unknown, drawn(many, "", 0.1, censored=np.linspace(0.1, 0.983, 2 * MOST_LINES + 4)):
        figure.set_size_inches(4.0, 3.4)
        FigureCanvasAgg(figure).draw()
        (panel,) = figure.axes
        note, *others = (x for x in (panel._left_title, panel.title, panel._right_title) if x.get_text())
        box = note.get_window_extent()
        assert note.get_text().endswith("t = 2.5\n")  # above an empty line, as high as the others
        assert [other.get_window_extent().y1 <= (box.y0 + box.y1) / 2 + 1 for other in others] == [True]


def test_what_is_no_number_has_a_place_of_its_own():
    result = simkit.sweep(GBM | {"solver": "EulerMaruyama"}, {"solver": ["EulerMaruyama", "Milstein"]})
    panel = simkit.plot_dataset(result).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["EulerMaruyama", "Milstein"]


def test_an_equation_without_noise_has_no_band():
    result = simkit.sweep(ODE, {"model.parameters.k": "1:2:5"})
    figure = simkit.plot_dataset(result)
    (line,) = figure.axes[0].lines
    assert np.allclose(line.get_ydata(), np.exp(-np.linspace(1, 2, 5)), atol=1e-4)
    assert not figure.axes[0].collections
    assert "standard errors" not in figure.get_suptitle()
    assert not figure.legends


@pytest.mark.parametrize(
    ("over", "along"),
    [
        ({"a": [1, 2], "b": [1, 2, 3]}, "b"),
        ({"a": ["p", "q", "r"], "b": [1, 2]}, "b"),
        ({"a": ["p", "q"], "b": [1]}, "a"),
        ({"a": ["p", "q"], "b": ["r", "s", "t"]}, "b"),
    ],
)
def test_the_key_with_the_most_numbers_is_the_horizontal_axis(over, along):
    """One number is no axis, and where no key has two the key with the most values is."""
    (panel,) = drawn(over).axes
    assert panel.get_xlabel() == along


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 2, 4], "log"),
        ([4.0, 0.25, 1.0], "log"),
        ([1, 2, 3], "linear"),
        ([1, 2], "linear"),
        ([2, 2, 2], "linear"),
    ],
)
def test_an_axis_is_logarithmic_where_three_values_or_more_have_equal_ratios(values, scale):
    (panel,) = drawn({"a": values}).axes
    assert panel.get_xscale() == scale


def test_each_axis_of_a_map_has_its_own_scale():
    panel = drawn({"a": [1.0, 2.0, 3.5], "b": [1, 2, 4]}).axes[0]
    assert (panel.get_xscale(), panel.get_yscale()) == ("linear", "log")


def test_no_more_lines_are_drawn_than_can_be_told_apart_and_the_picture_says_so():
    (panel,) = drawn({"a": [str(i) for i in range(MOST_LINES + 2)], "b": [1, 2]}).axes
    assert len(panel.lines) == MOST_LINES
    assert panel.get_title() == f"the first {MOST_LINES} of {MOST_LINES + 2} lines"
    styles = {(line.get_color(), str(line.get_linestyle()), str(line._dash_pattern)) for line in panel.lines}
    assert len(styles) == MOST_LINES
    (panel,) = drawn({"a": [str(i) for i in range(MOST_LINES)], "b": [1, 2]}).axes
    assert not panel.get_title()


def test_the_title_says_the_time_of_means_at_an_end():
    """Means of particles are over the whole run, and have none."""
    assert "at t = 2.5" in drawn({"a": [1, 2]}, "").get_suptitle()
    assert "at t" not in drawn({"a": [1, 2]}).get_suptitle()


@pytest.mark.parametrize(
    ("first", "last"), [(0.25, 4.0), (0.3, 3.0), (1.1, 1.9), (0.01, 100.0), (2e-9, 5e-7)]
)
def test_ticks_of_values_at_equal_ratios_do_not_overlap(first, last):
    """Beside each other in narrow panels, in a line and in a map."""
    over = {"k": np.geomspace(first, last, 5).tolist()}
    for more in ({}, {"other": np.geomspace(first, last, 4).tolist()}):
        figure = drawn(over | more)
        figure.set_size_inches(4.2, 3.2)
        assert figure.axes[0].get_xscale() == "log"
        FigureCanvasAgg(figure).draw()
        low, high = figure.axes[0].get_xlim()
        assert sum(low <= tick <= high for tick in figure.axes[0].get_xticks()) >= 2
        axis = figure.axes[0].xaxis
        ticks = [tick for tick in axis.get_major_ticks() + axis.get_minor_ticks() if tick.label1.get_text()]
        boxes = sorted((tick.label1.get_window_extent() for tick in ticks), key=lambda box: box.x0)
        assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_a_legend_of_many_entries_has_several_rows():
    """None of them is cut off, and few stand side by side."""
    names = [f"a long name of a value, number {i}" for i in range(8)]
    for over, rows in ({"k": [1, 2, 3], "name": names}, 2), ({"k": [1, 2, 3], "s": ["a", "b"]}, 1):
        figure = drawn(over)
        FigureCanvasAgg(figure).draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
        heights = {round(text.get_window_extent().y0) for text in legend.get_texts()}
        assert (len(heights) > 1) == (rows > 1)
