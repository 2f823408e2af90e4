"""Pictures of studies show fractions of runs, effects and pairs, and nothing overlaps."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.patches import StepPatch
from pictures import assert_nothing_overlaps

from simkit.studies import (
    elementary_effects,
    propagate,
    sobol_indices,
)
from simkit.studies.plot import plot_study


def test_bars_are_no_finer_than_the_runs_allow():
    """At most twice the cube root of their number (Rice); those of whole numbers end between two."""
    outputs = {"count": lambda a: jnp.floor(1000 * a), "square": lambda a: a * a}
    study = propagate(
        lambda a: {name: f(a) for name, f in outputs.items()},
        {"a": {"uniform": [0, 1]}},
        points=64,
        replicates=4,
    )
    for axes in plot_study(study).axes:
        bars = next(p for p in axes.patches if isinstance(p, StepPatch)).get_data()
        assert 4 <= len(bars.values) <= 2 * 256 ** (1 / 3), axes.get_title("left")
        assert sum(bars.values) == pytest.approx(100, abs=1), axes.get_title("left")
        if axes.get_title("left") == "count":
            assert np.all(bars.edges % 1 == 0.5)


def test_atoms_are_drawn_as_fractions_of_the_runs():
    """Those true and false with digits; where most pay nothing the axis is logarithmic."""
    outputs = {
        "above": lambda a: jnp.where(a > 0.8, 1.0, 0.0),
        "count": lambda a: jnp.floor(10 * a),
        "pays": lambda a: jnp.maximum(a - 0.8, 0),
    }
    study = propagate(
        lambda a: {name: f(a) for name, f in outputs.items()},
        {"a": {"uniform": [0, 1]}},
        points=1024,
        replicates=4,
    )
    figure = plot_study(study)
    above, count, pays = figure.axes
    bars = {
        axes.get_title("left"): next(p for p in axes.patches if isinstance(p, StepPatch)).get_data()
        for axes in figure.axes
    }
    assert bars["above"].values == pytest.approx([80, 0, 20], abs=0.3)
    assert bars["count"].values == pytest.approx(np.full(10, 10), abs=0.3)
    np.testing.assert_array_equal(bars["count"].edges, np.arange(11) - 0.5)
    assert [text.get_text() for text in above.texts] == ["80 %", "20 %"]
    assert pays.get_yscale() == "log"
    assert max(bars["pays"].values) == pytest.approx(80 + 0.992, abs=0.3)
    labels = ["% of runs", "% of runs\nper value", "% of runs\nper bin of 0.00994\n(logarithmic)"]
    assert [axes.get_ylabel() for axes in figure.axes] == labels
    assert len(above.patches) == 1  # no band between quantiles of nought and one
    assert len(count.patches) == 3
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize("part", [0.02, 0.06, 0.5, 0.95, 0.99])
def test_a_percentage_of_runs_does_not_lie_on_the_mean(part):
    outputs = {name: lambda a: jnp.where(a < part, 1.0, 0.0) for name in ("one", "two", "three")}
    study = propagate(
        lambda a: {name: f(a) for name, f in outputs.items()}, {"a": {"uniform": [0, 1]}}, points=256
    )
    figure = plot_study(study)
    assert_nothing_overlaps(figure)
    for axes in figure.axes:
        (mean,) = axes.get_lines()
        inside, line = axes.get_window_extent(), mean.get_window_extent()
        for text in axes.texts:
            box = text.get_window_extent()
            assert not line.x0 - 2 < box.x1 or not box.x0 < line.x1 + 2, text.get_text()
            assert inside.x0 < box.x0 < box.x1 < inside.x1


def test_the_deviation_of_elementary_effects_is_that_of_signed_ones_and_the_picture_says_so():
    """Effects of either sign, whose mean is near 0, deviate from it by more than their mean size."""
    distributions = {name: {"uniform": [-1, 1]} for name in ("a", "b")}
    study = elementary_effects(lambda a, b: a * b, distributions, walks=64)
    effects = study.isel(observable=0, parameter=0)
    assert abs(effects["mu"]) < effects["mu_star"] < effects["sigma"]
    (axes,) = plot_study(study).axes
    assert axes.get_ylabel() == "sigma, sd of signed effects"


def test_names_of_points_at_one_place_are_not_printed_over_each_other():
    distributions = {name: {"uniform": [0, 1]} for name in ("a", "idle", "b", "too")}
    study = elementary_effects(lambda a, idle, b, too: a + 3 * b + 0 * (idle + too), distributions, walks=8)
    (axes,) = plot_study(study).axes
    assert [each.get_text() for each in axes.texts] == ["a", "idle, too", "b"]


@pytest.mark.parametrize("count", [3, 5])
def test_the_largest_pairs_are_drawn_below_the_parameters(count):
    names = "abcde"[:count]
    distributions = {name: {"uniform": [-1, 1]} for name in names}

    def function(**x):
        return 4 * x["a"] * x["b"] + 2 * x["a"] * x["c"] + x["c"]

    study = sobol_indices(function, distributions, points=64, order=2)
    figure = plot_study(study)
    (axes,) = figure.axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    drawn = rows[count:]
    assert sorted(rows[:count]) == list(names)
    assert drawn[:2] == ["a × b", "a × c"]
    assert len(drawn) == min(count * (count - 1) // 2, 6)
    bars = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in axes.patches[2 * count :]}
    index = study["second"].isel(observable=0)
    for place, pair in enumerate(drawn, count):
        assert bars[place] == index.sel(
            dict(zip(("parameter", "parameter_2"), pair.split(" × "), strict=True))
        )
    assert axes.get_title("right") == ("the 6 largest of 10 pairs" if count == 5 else "")
    assert "second order" in [text.get_text() for text in figure.legends[0].get_texts()]
