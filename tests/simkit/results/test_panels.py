"""Single panels show the numbers of the dataset, in a figure of their own or in the user's axes."""

import io
import itertools

import numpy as np
import pytest
from dataset_examples import gbm_dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import image
from matplotlib.figure import Figure
from pictures import assert_nothing_overlaps

import simkit
from simkit import InputError, plot_dataset
from simkit.results.plots.plot_layout import columns_for, spread_numbers, titled_figure
from simkit.results.variant_dataset import combined

pytestmark = pytest.mark.more


def panel(dataset, name, **options):
    figure = Figure()
    axes = figure.add_subplot()
    assert plot_dataset(dataset, name, ax=axes, **options) is figure
    return axes


def band(axes):
    """The lower and the upper edge of the band, at each time but the ends."""
    (path,) = axes.collections[0].get_paths()
    times = np.unique(path.vertices[:, 0])[1:-1]
    edges = [path.vertices[path.vertices[:, 0] == t, 1] for t in times]
    return np.array([(each.min(), each.max()) for each in edges]).T


def test_the_mean_has_a_band_of_two_standard_errors():
    dataset = gbm_dataset()
    axes = panel(dataset, "S", kind="mean")
    mean, stderr = dataset["S_mean"].values, dataset["S_stderr"].values
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), mean)
    np.testing.assert_allclose(band(axes), [(mean - 2 * stderr)[1:-1], (mean + 2 * stderr)[1:-1]])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["mean", "± 2 standard errors"]


def test_quantiles_and_paths_are_those_of_the_dataset():
    dataset = gbm_dataset()
    axes = panel(dataset, "S")
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), dataset["S_quantile"].sel(quantile=0.5))
    np.testing.assert_allclose(band(axes), dataset["S_quantile"].values[1:-1, [0, -1]].T)
    lines = panel(dataset, "S", kind="paths").get_lines()
    np.testing.assert_array_equal([line.get_ydata() for line in lines], dataset["S_path"][:8])


def test_density_and_distribution_at_the_end_sum_to_all_paths_within_the_bins():
    dataset = gbm_dataset()
    inside = float(dataset["S_histogram"].sum()) / 2000
    for kind, unit in (("density", 1.0), ("distribution", 100.0)):
        bars = panel(dataset, "S", kind=kind).patches[0].get_data()
        width = np.diff(bars.edges) if kind == "density" else 1.0
        assert (bars.values * width).sum() == pytest.approx(unit * inside)
    assert panel(dataset, "S", kind="density").get_ylabel() == "density [1/(currency)]"
    assert panel(dataset, "call").get_ylabel().startswith("% of paths")


def wider(dataset, factor):
    """The dataset with values at the end, and so their bins, so many times as wide."""
    copy = dataset.copy(deep=True)
    copy["S_histogram_edge"][:] = 100 + factor * (copy["S_histogram_edge"] - 100)
    return copy


def of_variants(**variants):
    none = {name: np.zeros(4) for name in ("S", "call", "level")}
    return combined(variants, dict.fromkeys(variants, none), "")


def test_distributions_of_variants_have_areas_that_compare_whatever_their_bins():
    one = gbm_dataset()
    inside = 100 * float(one["S_histogram"].sum()) / 2000
    axes = panel(of_variants(low=one, high=wider(one, 3)), "S", kind="distribution")
    low, high = (patch.get_data() for patch in axes.patches)
    for bars in (low, high):
        assert (bars.values * np.diff(bars.edges)).sum() == pytest.approx(inside)
    np.testing.assert_allclose(high.values, low.values / 3)
    assert axes.get_ylabel() == "% of paths per unit"


def test_of_a_variant_whose_values_are_equal_there_is_a_line():
    one = gbm_dataset()
    none = one.copy(deep=True)
    none["call_variance"][...] = none["call_mean"][...] = 0.0
    axes = panel(of_variants(some=one, none=none), "call")
    assert len(axes.patches) == 1
    assert list(axes.get_lines()[0].get_xdata()) == [0, 0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["some", "none"]


def test_the_ecdf_passes_through_the_quantiles():
    dataset = gbm_dataset()
    (line,) = panel(dataset, "S", kind="ecdf").get_lines()
    ends = dataset["S_quantile"].values[-1]
    found = np.interp(ends, line.get_xdata(), line.get_ydata())
    # Both are interpolated, in bins of at most 1/50 of the paths.
    np.testing.assert_allclose(found, dataset["quantile"], atol=0.01)
    assert 1 - line.get_ydata()[-1] <= 1.1e-3


def test_the_ecdf_of_counts_rises_at_whole_numbers():
    """Of 1, 1, 2, 4 it is 1/2 from 1 on, 3/4 from 2 on and 1 from 4 on, where it ends."""
    dataset = gbm_dataset().copy(deep=True)
    counts = np.zeros(100, int)
    counts[[0, 1, 3]] = 2, 1, 1
    dataset["S_histogram"] = ("S_bin", counts, {"n": 4})
    dataset["S_histogram_edge"] = ("S_edge", 0.5 + np.arange(101))
    dataset["S_min"][-1], dataset["S_max"][-1] = 1, 4
    (line,) = panel(dataset, "S", kind="ecdf").get_lines()
    assert line.get_drawstyle() == "steps-post"
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(line.get_ydata(), [0, 0.5, 0.75, 0.75, 1])


def test_the_ecdf_of_times_on_fixed_steps_rises_at_them():
    """At each step it is the fraction of paths that have met the condition by then."""
    steps = 50
    experiment = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": steps},
        "ensemble": {"paths": 4000},
        "save": {"points": steps, "paths": 0},
        "observe": {"hit": "hitting_time(S > 110)", "met": {"value": "max(S) > 110", "at": "each"}},
    }
    dataset = simkit.run(experiment)
    (line,) = panel(dataset, "hit", kind="ecdf").get_lines()
    assert line.get_drawstyle() == "steps-post"
    x, y = line.get_data()
    at = np.rint(x * steps).astype(int)
    np.testing.assert_allclose(x, at / steps, atol=1e-9)
    np.testing.assert_allclose(y, dataset["met_mean"].values[at], atol=1e-12)


def test_the_autocorrelation_is_that_of_the_process():
    """A stationary process with the correlation 0.8 from row to row, of 400 paths."""
    rows, paths, rho = 53, 400, 0.8
    dataset = gbm_dataset(rows=rows).copy(deep=True)
    rng = np.random.default_rng(5)
    values = [rng.standard_normal(paths)]
    for _ in range(rows - 1):
        values.append(rho * values[-1] + np.sqrt(1 - rho**2) * rng.standard_normal(paths))
    dataset = dataset.drop_dims("path")
    dataset["S_path"] = (("path", "time"), 100 + np.transpose(values))
    dataset["S_mean"][:] = 100.0
    axes = panel(dataset, "S", kind="autocorrelation")
    (line,) = axes.get_lines()
    lags, found = line.get_xdata(), line.get_ydata()
    low, high = band(axes)
    errors = (high - low) / 4
    np.testing.assert_allclose(lags * (rows - 1), np.arange(rows // 2), atol=1e-9)
    assert np.all(np.abs(found[1:-1] - rho ** np.arange(1, rows // 2 - 1)) < 5 * errors)
    assert 0.002 < errors.min() < errors.max() < 0.05
    assert axes.get_xlabel() == "lag"


def test_several_names_log_axes_colours_and_the_size():
    figure = plot_dataset(gbm_dataset(), ["S", "call"], figsize=(5, 6), dpi=70, log="y", colors=["black"])
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log"]
    assert figure.axes[0].get_lines()[0].get_color() == "black"
    assert (*figure.get_size_inches(), figure.dpi) == (5, 6, 70)
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize("names", [None, "call"])
def test_a_picture_is_saved_with_its_dpi(names):
    figure, file = plot_dataset(gbm_dataset(), names, figsize=(5, 6), dpi=30), io.BytesIO()
    figure.savefig(file)
    file.seek(0)
    assert image.imread(file).shape[:2] == (180, 150)


def test_variants_are_overlaid_and_a_band_is_explained_once():
    none = {name: np.zeros(4) for name in ("S", "call", "level")}
    dataset = combined({"a": gbm_dataset(), "b": gbm_dataset(rows=13)}, {"a": none, "b": none}, "")
    axes = panel(dataset, "S", kind="mean", colors=["red", "blue"])
    assert [line.get_color() for line in axes.get_lines()] == ["red", "blue"]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["a", "± 2 standard errors", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": "T"}, "T: not in this dataset, which has S, call, level"),
        ({"kind": "violin"}, "kind: 'violin' is none of mean, quantiles"),
        ({"names": "call", "kind": "paths"}, "call: is known at the end only; its kinds are distribution"),
        ({"names": ["S", "call"], "ax": Figure().add_subplot()}, "names: must be one name for a panel in ax"),
        (
            {"ax": Figure().add_subplot()},
            r"names: must be one name for a panel in ax, .*'S', 'call', 'level'",
        ),
        ({"names": "S", "ax": Figure()}, r"^ax: must be one Axes, got Figure; write ax=figure\.gca\(\)$"),
        (
            {"names": "S", "ax": Figure().subplots(2)},
            r"ax: .* one Axes, got an array of 2; write ax=axes\[0\]$",
        ),
        ({"names": "S", "ax": Figure().subplots(2, 3)}, r"got an array of 6; write ax=axes\[0, 0\]$"),
        ({"names": "S", "ax": Figure().add_subplot(), "dpi": 200}, "dpi: ax is in a figure that has its own"),
        ({"names": []}, "names: must be one name"),
        ({"names": "S", "log": "z"}, r"^log: 'z' is none of 'x', 'y', 'xy'$"),
        ({"log": "y"}, "give names or kind too"),
    ],
)
def test_what_cannot_be_drawn_says_why(options, message):
    with pytest.raises(InputError, match=message):
        plot_dataset(gbm_dataset(), **options)


def around_zero():
    """S less 100: on both sides of 0 at the end, 0 on every path at the start."""
    dataset = gbm_dataset().copy(deep=True)
    for key in ("mean", "min", "max", "quantile", "path", "histogram_edge"):
        dataset[f"S_{key}"] -= 100
    return dataset


@pytest.mark.parametrize(
    ("kind", "log", "axis", "message"),
    [
        ("mean", "y", "y", "the mean of S reaches -1,"),
        ("quantiles", "xy", "y", "the 5 % quantile of S reaches -"),
        ("paths", "y", "y", "a path of S reaches -"),
        ("distribution", "x", "x", "S reaches -"),
        ("density", "xy", "x", "S reaches -"),
        ("ecdf", "x", "x", "S reaches -"),
        ("autocorrelation", "y", "y", "the autocorrelation of S reaches -"),
    ],
)
def test_values_up_to_0_are_refused_on_logarithmic_axes_and_not_left_out(kind, log, axis, message):
    dataset = around_zero()
    dataset["S_mean"][1] = -1
    dataset["S_path"][:, 1::2] *= -1  # so that neighbours are anticorrelated
    with pytest.raises(
        InputError, match=f"^log: {message}.* needs values above 0; leave '{axis}' out of log"
    ):
        panel(dataset, "S", kind=kind, log=log)


@pytest.mark.parametrize("log", ["x", "y", "xy"])
def test_a_start_at_0_has_no_place_on_logarithmic_axes(log):
    """Neither time 0 nor values that are 0 on every path: the line and its band begin at the next row."""
    dataset = around_zero()
    rows = dataset.sizes["time"]
    dataset["S_mean"][:], dataset["S_stderr"][:] = np.arange(rows), 0.1 * np.arange(rows)
    axes = panel(dataset, "S", kind="mean", log=log)
    np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), dataset["time"][1:])
    assert axes.collections[0].get_paths()[0].vertices[:, 0].min() == dataset["time"][1]


def test_a_start_above_0_stays_on_a_logarithmic_axis_of_values():
    axes = panel(gbm_dataset(), "S", kind="mean", log="y")
    assert axes.get_lines()[0].get_xdata()[0] == 0


def test_the_autocorrelation_begins_at_the_first_lag_on_a_logarithmic_axis():
    lags = [panel(gbm_dataset(), "S", kind="autocorrelation", log=log).get_lines()[0] for log in (None, "x")]
    for every, later in zip(*(line.get_data() for line in lags), strict=True):
        np.testing.assert_array_equal(every[1:], later)


def test_an_error_band_is_cut_where_the_logarithmic_axis_begins():
    dataset = gbm_dataset().copy(deep=True)
    dataset["S_mean"][:], dataset["S_stderr"][:] = 4.0, 1.0
    dataset["S_stderr"][5] = 3.0
    axes = panel(dataset, "S", kind="mean", log="y")
    low, high = band(axes)
    np.testing.assert_allclose(low, 2)
    assert high.max() == 10
    assert axes.get_ylim()[0] == pytest.approx(2)
    assert axes.get_ylim()[1] > 10


def test_bins_of_positive_values_begin_at_the_least_on_a_logarithmic_axis():
    """Bins around values 1 apart, of which the least is 0.1, begin at -0.4."""
    dataset = gbm_dataset().copy(deep=True)
    dataset["S_histogram_edge"][:] = np.arange(101) - 0.4
    dataset["S_min"][-1] = 0.1
    edges = panel(dataset, "S", kind="distribution", log="x").patches[0].get_data().edges
    assert edges[0] == 0.1
    assert np.all(np.diff(edges) > 0)


def test_a_panel_of_the_end_says_when_that_is():
    dataset = gbm_dataset()
    for kind in ("distribution", "density", "ecdf"):
        assert panel(dataset, "S", kind=kind).get_xlabel().endswith(" at t = 1")
    assert panel(dataset, "call").get_xlabel() == "call [currency]"  # of a whole path


def test_a_single_quantity_needs_no_name_in_axes_of_yours():
    dataset = gbm_dataset()
    dataset.attrs["observables"] = ""
    assert panel(dataset, None).get_ylabel().startswith("S")


def test_paths_that_are_not_stored_are_asked_for():
    with pytest.raises(simkit.InputError, match=r"S: no path is stored; run with save: \{paths: 20\}"):
        plot_dataset(gbm_dataset(stored=0), "S", kind="paths")


def test_equal_panels_leave_no_gap_where_they_can():
    """Four stand two by two, others in rows of three."""
    assert [columns_for(n) for n in (0, 1, 2, 3, 4, 5, 6, 9)] == [1, 1, 2, 3, 2, 3, 3, 3]


@settings(max_examples=8)
@given(st.floats(-1e7, 1e7), st.floats(1e-6, 1e3))
def test_numbers_along_narrow_panels_do_not_touch(middle, part):
    """Whatever the layout makes of their width, and the resolution of the file."""
    spread = part * max(abs(middle), 1e-3)
    with titled_figure("three panels", (12, 3)) as figure:
        for axes in figure.subplots(1, 3):
            axes.set_xlim(middle - spread, middle + spread)
            spread_numbers(axes.xaxis, axes.bbox.width / figure.dpi)
    figure.set_dpi(150)
    figure.draw_without_rendering()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        shown = [box for box in boxes if axes.bbox.x0 - 1 < (box.x0 + box.x1) / 2 < axes.bbox.x1 + 1]
        assert len(shown) > 1
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(shown))
