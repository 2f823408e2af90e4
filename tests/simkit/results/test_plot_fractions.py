"""Final distributions in pictures: bars that can be seen, numbers that can be read, fractions that add up."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from dataset_examples import gbm_dataset
from matplotlib.backends.backend_agg import FigureCanvasAgg
from pictures import assert_nothing_overlaps

import simkit
from simkit import plot_dataset
from simkit.results.plots.final_histograms import scale_bars
from simkit.results.variant_dataset import combined
from simkit.results.variants import each_variant

pytestmark = pytest.mark.more


def as_in_a_file(figure):
    figure.set_dpi(150)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def thickness(axes, upright):
    """Pixels between the edges of the bars."""
    edges = axes.patches[0].get_data().edges
    points = np.column_stack([edges, 0 * edges] if upright else [0 * edges, edges])
    return np.diff(axes.transData.transform(points)[:, 0 if upright else 1])


def ending(dataset, name, edges, counts, n):
    """The dataset with another final distribution of a quantity."""
    copy = dataset.copy(deep=True)
    copy[f"{name}_histogram_edge"][:] = edges
    copy[f"{name}_histogram"][:] = counts
    copy[f"{name}_histogram"].attrs["n"] = n
    return copy


@pytest.mark.parametrize(
    "fraction",
    [
        0.001,
        pytest.param(0.05, marks=pytest.mark.slow),
        pytest.param(0.15, marks=pytest.mark.slow),
        0.3,
        pytest.param(1.0, marks=pytest.mark.slow),
    ],
)
def test_no_bar_next_to_a_row_is_thinner_than_two_pixels(fraction):
    plain = gbm_dataset()
    bottom, top = plot_dataset(plain).axes[0].get_ylim()
    middle = float(plain["S_mean"][-1])
    ends = middle - fraction * (middle - bottom), middle + fraction * (top - middle)
    dataset = ending(plain, "S", np.linspace(*ends, 101), 10_000, 1_000_000)
    dataset["S_exact"][-1] = middle
    figure = plot_dataset(dataset)
    row, end = figure.axes[:2]
    as_in_a_file(figure)
    assert thickness(end, upright=False).min() >= 2
    assert end.patches[0].get_data().values.sum() == pytest.approx(100)
    assert end.get_title("left") == ("at t = 1, enlarged" if fraction < 0.1 else "at t = 1")
    own = np.ptp(end.get_ylim()) < 2 * (ends[1] - ends[0])
    assert own if fraction < 0.1 else end.get_ylim() == row.get_ylim()
    assert_nothing_overlaps(figure)


def test_equal_values_at_the_end_are_a_number_not_an_empty_panel():
    dataset = ending(gbm_dataset(), "S", np.linspace(99.9, 100.1, 101), 0, 2000)
    dataset["S_histogram"][50] = 2000
    dataset["S_variance"][-1] = 0.0
    dataset["S_mean"][-1] = 100.0
    end = plot_dataset(dataset).axes[1]
    assert not end.axison
    assert [text.get_text() for text in end.texts] == ["all paths at t = 1: 100"]
    dataset["call_variance"][...] = 0.0
    dataset["call_mean"][...] = dataset["call_exact"][...] = 12.5
    call = plot_dataset(dataset).axes[4]
    assert not call.axison
    assert [text.get_text() for text in call.texts] == ["all paths: 12.5"]


def test_no_bar_is_thinner_where_the_mean_lies_far_outside_the_bins():
    dataset = ending(gbm_dataset(), "call", np.linspace(0, 10, 101), 10_000, 1_000_000)
    dataset["call_mean"][...] = 300.0
    figure = plot_dataset(dataset)
    as_in_a_file(figure)
    assert thickness(figure.axes[4], upright=True).min() >= 2


def test_bars_have_lengths_in_proportion_however_unequal():
    """A payoff, of which half the paths pay nothing: no bar is cut off."""
    dataset = ending(gbm_dataset(), "call", gbm_dataset()["call_histogram_edge"].values, 20, 2000)
    dataset["call_histogram"][:4] += 150
    call = plot_dataset(dataset).axes[4]
    bars = call.patches[0].get_data().values
    assert call.get_yscale() == "linear"
    assert call.get_ylim() == (0, pytest.approx(1.08 * bars.max()))


@pytest.mark.parametrize(("name", "panel", "side"), [("S", 1, "x"), ("call", 4, "y")])
def test_where_a_bar_towers_over_all_others_the_axis_is_logarithmic_and_says_so(name, panel, side):
    plain = gbm_dataset()
    dataset = ending(plain, name, plain[f"{name}_histogram_edge"].values, 1, 2000)
    dataset[f"{name}_histogram"][0] = 1901
    figure = plot_dataset(dataset)
    as_in_a_file(figure)
    axes = figure.axes[panel]
    bars = axes.patches[0].get_data().values
    scale, limits, ticks, label = (
        getattr(axes, f"get_{side}{what}")() for what in ("scale", "lim", "ticklabels", "label")
    )
    assert scale == "log"
    assert limits[0] < bars.min() < bars.max() < limits[1]
    assert {"1", "10"} <= {tick.get_text() for tick in ticks}
    assert label.endswith("(logarithmic)")
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize(("wide", "narrow"), [(30.0, 0.6), (30.0, 3e-8), (0.3, 3e-11)])
def test_numbers_on_a_logarithmic_axis_do_not_overlap(wide, narrow):
    """One variant is all but equal at the end: its percentage per unit is larger by many powers of ten."""
    wide, narrow = (
        ending(gbm_dataset(), "S", np.linspace(100 - half, 100 + half, 101), 20, 2000)
        for half in (wide, narrow)
    )
    figure = plot_dataset(together(wide=wide, narrow=narrow))
    renderer = as_in_a_file(figure)
    axis = figure.axes[1].xaxis
    low, high = figure.axes[1].get_xlim()
    ticks = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [label.get_window_extent(renderer) for label in ticks]
    gaps = [after.x0 - before.x1 for before, after in itertools.pairwise(boxes)]
    assert axis.get_scale() == "log"
    assert len(gaps) >= 1
    assert min(gaps) > 8, [label.get_text() for label in ticks]


def test_the_width_of_a_bin_stands_on_the_axis():
    figure = plot_dataset(gbm_dataset())
    for axes, label in ((figure.axes[1], "xlabel"), (figure.axes[4], "ylabel")):
        edges = axes.patches[0].get_data().edges
        assert getattr(axes, f"get_{label}")() == f"% of paths\nper bin of {edges[1] - edges[0]:.3g}"


def whether(dataset, fraction, stored):
    """The dataset with a level that is 1 on a fraction of the paths and 0 on all others."""
    copy = dataset.copy(deep=True)
    copy["level_path"][:] = stored
    copy["level_min"][:], copy["level_max"][:] = stored.min(), stored.max()
    copy["level_mean"][:] = fraction
    copy["level_variance"][:] = fraction * (1 - fraction)
    counts = np.zeros(100, int)
    counts[[0, -1]] = np.rint([2000 * (1 - fraction), 2000 * fraction])
    return ending(copy, "level", np.linspace(0, 1, 101), counts, 2000)


def half(dataset):
    return np.arange(dataset["level_path"].size).reshape(dataset["level_path"].shape) % 2


def test_of_a_condition_the_fractions_stand_at_its_two_values():
    dataset = gbm_dataset()
    figure = plot_dataset(whether(dataset, 0.0043, half(dataset)))
    end = figure.axes[3]
    bars = end.patches[0].get_data()
    np.testing.assert_allclose(bars.values, [99.57, 0, 0.43])
    assert end.get_xlim() == (0, pytest.approx(1.08 * 99.57))
    assert [text.get_text() for text in end.texts] == ["99.6 %", "0.43 %"]
    np.testing.assert_allclose((bars.edges[1:] + bars.edges[:-1]) / 2, [0, 0.5, 1])


def together(**variants):
    none = {name: np.zeros(4) for name in ("S", "call", "level")}
    return combined(variants, dict.fromkeys(variants, none), "")


def outlines(axes):
    """What was drawn of each variant; the fills repeat the lines."""
    return [patch.get_data() for patch in axes.patches[::2]]


def test_of_a_condition_variants_show_the_fraction_of_each_value():
    one = gbm_dataset()
    none = np.zeros_like(one["level_path"].values)
    fractions = {"mixed": 0.3, "never": 0.0, "rare": 0.004}
    paths = {"mixed": half(one), "never": none, "rare": half(one)}
    figure = plot_dataset(together(**{k: whether(one, p, paths[k]) for k, p in fractions.items()}))
    row, end = figure.axes[2:4]
    assert end.get_xlabel() == "% of paths per value"
    assert figure.axes[1].get_xlabel() == figure.axes[4].get_ylabel() == "% of paths per unit"
    assert len(row.collections) == 3  # errors of means, and no quantiles, which jump
    for fraction, bars in zip(fractions.values(), outlines(end), strict=True):
        np.testing.assert_allclose(bars.values, [100 - 100 * fraction, 0, 100 * fraction])
    assert_nothing_overlaps(figure)


def test_of_a_condition_no_bar_of_variants_is_cut_off():
    """Nothing would say how long it is."""
    one = gbm_dataset()
    figure = plot_dataset(together(rare=whether(one, 0.004, half(one)), rarer=whether(one, 0.002, half(one))))
    assert figure.axes[3].get_xlim()[1] > 99.8


def test_of_counts_variants_show_the_fraction_of_each_value():
    """In bins of 1 and of 3 numbers, of which the second hold three times as many paths."""
    few, many = (ending(gbm_dataset(), "call", -0.5 + width * np.arange(101), 20, 2000) for width in (1, 3))
    call = plot_dataset(together(few=few, many=many)).axes[4]
    assert call.get_ylabel() == "% of paths per value"
    for bars, width in zip(outlines(call), (1, 3), strict=True):
        np.testing.assert_allclose(bars.values, 1 / width)
        assert (bars.values * np.diff(bars.edges)).sum() == pytest.approx(100)


def test_variants_have_bars_that_can_be_seen():
    wide, narrow = (
        ending(gbm_dataset(), "call", np.linspace(0, top, 101), 10_000, 1_000_000) for top in (1000, 20)
    )
    for one in (wide, narrow):
        one.attrs["paths"] = 1_000_000
    figure = plot_dataset(together(wide=wide, narrow=narrow))
    as_in_a_file(figure)
    call = figure.axes[4]
    for bars in outlines(call):
        pixels = call.transData.transform(np.column_stack([bars.edges, 0 * bars.edges]))[:, 0]
        assert np.diff(pixels).min() >= 2


@pytest.mark.parametrize("observables", [1, 2])
def test_a_heading_is_cut_only_where_there_is_no_room(observables):
    dataset = gbm_dataset()
    formula = "integral(central)/V + (gut + central + tissue)/CL"
    dataset["call_mean"].attrs["description"] = formula
    if observables == 2:
        names = [str(key) for key in dataset.variables if str(key).startswith("call_")]
        dataset = dataset.merge(dataset[names].rename({name: f"other_{name}" for name in names}))
        dataset.attrs["observables"] += " other_call"
    figure = plot_dataset(dataset)
    assert [axes.get_title("left") for axes in figure.axes[4:]] == [formula] * observables
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize(("tallest", "scale"), [(9.0, "linear"), (11.0, "log")])
def test_distributions_of_very_different_height_share_a_logarithmic_axis(tallest, scale):
    """In proportion, that of a volatility of 0.8 is a line beside that of 0.005, which is one bar."""
    figure, axes = plt.subplots()
    assert scale_bars(axes, "y", [np.array([0.5, 1.0]), np.array([tallest])]) == (scale == "log")
    assert axes.get_yscale() == scale
    plt.close(figure)


CROSSED = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 12},
    "ensemble": {"paths": 200, "seed": 1},
    "save": {"points": 12},
    "observe": {"above": {"value": "S > 110", "at": "each"}},
}


@pytest.mark.parametrize("variants", [{}, {"variants": {"low": {"model.sigma": 0.1}, "high": {}}}])
def test_a_fraction_over_time_has_a_band_of_two_standard_errors(variants):
    """In place of the quantiles of noughts and ones."""
    dataset = simkit.run(CROSSED | variants)
    figure = plot_dataset(dataset)
    panel = next(axes for axes in figure.axes if axes.get_ylabel() == "above" and axes.lines)
    bands = [band.get_paths()[0].vertices[:, 1].max() for band in panel.collections]
    each = each_variant(dataset).values()
    tops = [float((one["above_mean"] + 2 * one["above_stderr"]).max()) for one in each]
    assert bands == pytest.approx(tops)


def test_every_panel_on_another_scale_than_its_neighbour_says_what_its_bars_are():
    """Of a call most paths pay nothing: its axis is logarithmic, that of a root of the price is not."""
    experiment = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 4000},
        "observe": {"call": "maximum(S - 130, 0)", "root": "sqrt(S)", "square": "S**2"},
        "variants": {"low": {"model.sigma": 0.19}, "high": {"model.sigma": 0.21}},
    }
    call, root, square = simkit.plot_dataset(simkit.run(experiment)).axes[-3:]
    assert [axes.get_yscale() for axes in (call, root, square)] == ["log", "linear", "linear"]
    assert call.get_ylabel() == "% of paths per unit\n(logarithmic)"
    assert (root.get_ylabel(), square.get_ylabel()) == ("% of paths per unit", "")
