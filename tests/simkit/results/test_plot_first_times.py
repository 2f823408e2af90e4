"""Of a first time, pictures show only the paths that met the condition, and say how many had not."""

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from pictures import assert_nothing_overlaps

import simkit
from simkit import plot_dataset
from simkit.ensemble.reducers import Histogram
from simkit.results.plots.first_times import met_counts, unmet_note

pytestmark = pytest.mark.more

PATHS = 1000
STOCK = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 50},
    "ensemble": {"paths": PATHS, "seed": 3},
    "save": {"points": 10, "paths": PATHS},
    "observe": {
        "when": {"value": "hitting_time(S > 110)", "at": "each"},
        "late": "hitting_time(S > 110 and t > 0.5)",
        "price": "first(S, S > 110)",
        "never": "hitting_time(S > 1000)",
        "met": "max(S) > 110",
        "late_met": "max(where(t > 0.5, S, 0)) > 110",
    },
}


@pytest.fixture(scope="module")
def stock():
    return simkit.run(STOCK)


@pytest.fixture(scope="module")
def panels(stock):
    """The panels of the end by their quantity."""
    figure = plot_dataset(stock)
    assert_nothing_overlaps(figure)
    below = {axes.get_xlabel() or axes.get_title("left"): axes for axes in figure.axes[4:]}
    return below | {"when": figure.axes[3]}


@pytest.mark.parametrize(("name", "met"), [("when", "met"), ("late", "late_met"), ("price", "met")])
def test_the_bars_are_those_of_the_paths_that_met_the_condition(stock, panels, name, met):
    """Counted along every path; fine bins split between bars move a few paths to the next bar."""
    values = stock[f"{name}_path"].values.reshape(PATHS, -1)[:, -1]
    met = stock[f"{met}_path"].values == 1
    assert 0.2 < met.mean() < 0.8
    axes = panels[name]
    bars = axes.patches[0].get_data()
    expected, _ = np.histogram(values[met], bars.edges)
    assert bars.values.sum() == pytest.approx(100 * met.mean(), abs=0.3)  # but the outermost thousandths
    assert np.abs(np.cumsum(bars.values - 100 * expected / PATHS)).max() < 3
    assert bars.values[0] > 0 < bars.values[-1]  # nothing empty up to the value of those that did not
    assert f"{100 * (1 - met.mean()):.0f} % had not met it by t = 1" in axes.get_title("left")
    assert not axes.get_lines()  # the mean, in which those that never met it have a number


def test_where_no_path_met_it_the_panel_says_so(panels):
    assert not panels["never"].axison
    assert [text.get_text() for text in panels["never"].texts] == ["100 % had not met it by t = 1"]


@pytest.mark.parametrize("kind", ["distribution", "density", "ecdf"])
def test_single_panels_have_those_paths_alone_and_the_note(stock, kind):
    axes = Figure().add_subplot()
    plot_dataset(stock, "late", kind=kind, ax=axes)
    met = float(stock["late_met_mean"])
    if kind == "ecdf":
        total = axes.get_lines()[0].get_ydata()[-1]
    else:
        bars = axes.patches[0].get_data()
        total = (bars.values * (np.diff(bars.edges) if kind == "density" else 0.01)).sum()
    assert total == pytest.approx(met, abs=0.003)
    assert axes.get_title("left") == unmet_note(stock, "late")


@pytest.mark.parametrize(
    "attributes", [{"counts_as": "the time of the end"}, {}]
)  # files of earlier versions
def test_those_that_never_met_it_are_gone_though_their_fine_bin_is_split(attributes):
    """One of the fine bins begins at 30.094, and over it lie four of the picture's."""
    times = np.concatenate([np.linspace(29.5, 30.119, 10000), np.full(10000, 30.12)])
    reducer = Histogram((("T", 1),), (0.5,))
    with jax.enable_x64(True):
        partial = reducer.update({"T": times.reshape(1, 1, -1)}, np.ones((1, times.size), bool))
        counts = reducer.finish(reducer.merge(reducer.init(), reducer.on_host(partial)))
    waiting = xr.DataArray(0.5, attrs=attributes)
    paths = xr.DataArray(counts["T_histogram"], dims="bin", attrs={"n": times.size})
    edges = counts["T_histogram_edge"]
    dataset = xr.Dataset(
        {"T_histogram": paths, "T_histogram_edge": ("edge", edges), "T_censored": waiting},
        {"time": [0.0, 30.12]},
    )
    assert (paths > 200).sum() >= 4  # more than twice as many as meet it
    expected, _ = np.histogram(times[:10000], edges)
    assert np.abs(np.cumsum(met_counts(dataset, "T") - expected)).max() < 400
    assert met_counts(dataset, "T").sum() == pytest.approx(10000, abs=40)
    assert met_counts(dataset, "T").max() < 200  # one bar lies partly in that fine bin


def test_variants_leave_them_out_and_say_the_range():
    calm = {"low": {"model.sigma": 0.05}, "high": {"model.sigma": 0.3}}
    experiment = STOCK | {
        "variants": calm,
        "observe": {name: STOCK["observe"][name] for name in ("late", "never", "late_met")},
    }
    dataset = simkit.run(experiment)
    figure = plot_dataset(dataset)
    assert_nothing_overlaps(figure)
    late, never, _ = figure.axes[2:]
    parts = [float(part) for part in dataset["late_met_mean"]]
    for outline, part in zip(late.patches[::2], parts, strict=True):
        bars = outline.get_data()
        assert (bars.values * np.diff(bars.edges)).sum() == pytest.approx(100 * part, abs=0.3)
    low, high = sorted(100 - 100 * part for part in parts)
    assert late.get_title("left") == f"{low:.0f} to {high:.0f} % had not met it by t = 1"
    assert not late.get_lines()
    assert [text.get_text() for text in never.texts] == ["100 % had not met it by t = 1"]


@pytest.mark.parametrize(
    ("part", "text"),
    [(0.5, "50"), (0.3825, "38"), (0.0123, "1.2"), (0.99985, "99.985"), (0.00004, "0.0040"), (1.0, "100")],
)
def test_a_percentage_is_all_only_if_no_path_met_it(part, text):
    dataset = xr.Dataset({"T_censored": part}, {"time": [0.0, 2.5]})
    assert unmet_note(dataset, "T") == f"{text} % had not met it by t = 2.5"


def test_no_empty_bins_follow_the_last_time():
    """Bins as wide as a step reach far past the end of a run with few steps."""
    drifting = {
        "model": {"sde": {"X": {"drift": 1.0, "noise": {"W": 0.3}}}},
        "initial": {"X": 0.0},
        "time": {"t1": 4.0, "steps": 60},
        "ensemble": {"paths": PATHS, "seed": 3},
        "save": {"paths": PATHS},
        "observe": {"soon": "hitting_time(X > 0.8)"},
    }
    result = simkit.run(drifting)
    times = result["soon_path"].values
    assert times.max() < 3.0  # all paths have met it
    edges = plot_dataset(result).axes[-1].patches[0].get_data().edges
    assert edges[-1] <= times.max() + 4.0 / 60
