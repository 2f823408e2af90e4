"""Pictures of particles show the small next to the large, and no legend or label hides anything."""

import itertools

import numpy as np
import pytest
import xarray as xr
from md_examples import fluid
from pictures import assert_nothing_overlaps

import simkit
from simkit.md.plots.functions import panels_of
from simkit.md.plots.plot import plot_particles
from simkit.md.plots.time_rows import figure_text, number_in_print
from simkit.results.plots.plot_layout import titled_figure

WAVES = np.linspace(1, 12, 60)


def drawn(variables, coordinates, name):
    """The panel of a function, in the width that it has in a picture."""
    with titled_figure("", (5.5, 3.6)) as figure:
        axes = figure.add_subplot()
        (draw,) = panels_of(xr.Dataset(variables, coordinates), name)
        draw(axes)
    figure.draw_without_rendering()
    return axes


def structure(values):
    variables = {
        "S": ("S_k", values, {"units": "1", "long_name": "static structure factor"}),
        "S_stderr": ("S_k", np.full(len(values), 1e-3)),
        "S_vectors": ("S_k", np.full(len(values), 6)),
    }
    return drawn(variables, {"S_k": ("S_k", WAVES, {"units": "1/σ"})}, "S")


def test_the_peaks_of_a_crystal_leave_room_for_all_else():
    """Between peaks of 200 it is 0.005 to 0.5, which on a linear axis is one line at the bottom."""
    values = np.geomspace(0.005, 0.5, len(WAVES))
    values[[30, 40]] = 200.0
    axes = structure(values)
    assert axes.get_yscale() == "log"
    heights = axes.transData.transform(np.column_stack([WAVES, values]))[:, 1]
    bottom, top = axes.get_window_extent().intervaly
    assert bottom < heights.min() < heights.max() < top
    assert np.ptp(np.delete(heights, [30, 40])) > 0.3 * (top - bottom)


def test_rounding_is_no_reason_for_a_taller_axis():
    """S(k) of a perfect lattice is 0 between its peaks, up to rounding."""
    values = np.full(len(WAVES), 1e-30)
    values[[0, 30, 40]] = 0.0, 256.0, 256.0
    low, high = structure(values).get_ylim()
    assert high > 256
    assert high / low < 1e8


def test_a_liquid_has_a_linear_axis_from_zero():
    axes = structure(1 + 1.8 * np.exp(-((WAVES - 7) ** 2)) - 0.95 * np.exp(-WAVES))
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(("first", "last"), [(0.05, 0.75), (0.1, 5.0), (0.01, 40.0)])
def test_labels_of_logarithmic_axes_do_not_overlap(first, last):
    lag = np.linspace(first, last, 40)
    about = {"units": "σ^2/τ", "fitted_from": lag[10], "fitted_to": lag[30]}
    variables = {
        "D": ("D_lag", 0.06 * lag, {"units": "σ^2", "long_name": "mean-square displacement"}),
        "D_stderr": ("D_lag", 0 * lag),
        "D_diffusion": ((), 0.01, about),
        "D_diffusion_stderr": ((), 0.001),
        "D_exponent": ((), 1.0),
    }
    axes = drawn(variables, {"D_lag": ("D_lag", lag, {"units": "τ"})}, "D")
    ticks = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    boxes = sorted((tick.get_window_extent() for tick in ticks if tick.get_text()), key=lambda box: box.x0)
    assert len(boxes) >= 2
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


@pytest.fixture(scope="module")
def overlaid():
    changes = {"S": {"structure_factor": {"max": 8.0, "every": 4}}, "C": {"vacf": {}}, "T": "temperature"}
    experiment = fluid(time__steps=40, save__every=2, observe=changes)
    return simkit.run(experiment | {"variants": {"short": {}, "long": {"time": {"dt": 0.004}}}})


def test_legends_of_overlays_cover_no_curve(overlaid):
    figure = plot_particles(overlaid)
    figure.draw_without_rendering()
    assert len(figure.axes) == 3
    for axes in figure.axes:
        legend = axes.get_legend().get_window_extent()
        assert legend.x0 >= axes.get_window_extent().x1
        assert legend.x1 <= figure.bbox.x1
    assert_nothing_overlaps(figure)


def test_nothing_joins_wave_numbers(overlaid):
    """A box has no others, and lines would make triangles of the peaks of a crystal."""
    (axes,) = (axes for axes in plot_particles(overlaid).axes if axes.get_ylabel() == "S")
    points = [line for line in axes.get_lines() if len(line.get_xdata()) > 2]
    assert {(line.get_linestyle(), line.get_marker()) for line in points} == {("None", "o")}
    assert len(points) == 2


def test_numbers_in_pictures_have_minus_signs_and_raised_exponents():
    assert number_in_print("(-1.53 ± 0.12)e-05") == "(−1.53 ± 0.12)×10⁻⁵"
    assert number_in_print("2e+06") == "2×10⁶"
    assert figure_text(-0.28, np.nan, "epsilon") == "−0.28 ± ? ε"
