"""Titles and axes in the user's words: the file, the model, the unit of time; nothing is drawn twice."""

import io

import pytest
from dataset_examples import gbm_dataset
from pictures import assert_nothing_overlaps

import simkit
from simkit import plot_dataset
from simkit.results.table import print_table
from simkit.results.titles import end_of

pytestmark = pytest.mark.more

DECAY = """
model: {ode: {gut: -k*gut}, parameters: {k: 0.5}}
initial: {gut: 1}
time: {t1: 2, steps: 10, unit: h}
ensemble: {paths: 1}
"""


def titled(**attributes):
    dataset = gbm_dataset().copy()
    dataset.attrs = dataset.attrs | attributes
    return plot_dataset(dataset)._suptitle.get_text().split("   ")[0]


@pytest.mark.parametrize(
    ("attributes", "title"),
    [
        ({}, "GBM"),
        ({"file": "asset.yaml"}, "asset.yaml: GBM"),
        ({"model": "InlineSDE", "file": "asset.yaml"}, "asset.yaml"),
        ({"model": "InlineSDE"}, "stochastic equations of S"),
        ({"file": "x" * 99}, "x" * 39 + "…: GBM"),
    ],
)
def test_a_title_names_the_file_or_the_model(attributes, title):
    assert titled(**attributes) == title


def test_the_dataset_knows_its_file_and_the_unit_of_time(tmp_path):
    (tmp_path / "decay.yaml").write_text(DECAY)
    dataset = simkit.run(tmp_path / "decay.yaml")
    assert dataset.attrs["file"] == "decay.yaml"
    assert dataset["time"].attrs["units"] == "h"
    figure = plot_dataset(dataset)
    assert figure._suptitle.get_text().startswith("decay.yaml   1 path")
    assert figure.axes[0].get_xlabel() == "time [h]"
    assert end_of(dataset) == "t = 2 h"
    with io.StringIO() as text:
        print_table(dataset, text)
        assert ", at t = 2 h" in text.getvalue().splitlines()[0]
    again = simkit.run(dataset.attrs["configuration"])
    assert "file" not in again.attrs
    assert plot_dataset(again)._suptitle.get_text().startswith("ordinary equations of gut   1 path")
    assert plot_dataset(again).axes[0].get_xlabel() == "time [h]"
    derivatives = simkit.sensitivity(tmp_path / "decay.yaml", "k")
    assert plot_dataset(derivatives)._suptitle.get_text().startswith("decay.yaml, ")


def beyond_the_rows(**sections):
    experiment = {
        "model": {"ode": {name: f"-{rate}*{name}" for rate, name in enumerate("abcd", 1)}},
        "initial": {name: {"normal": [3, 0.1]} for name in "abcd"},
        "time": {"t1": 2, "steps": 10},
        "ensemble": {"paths": 100},
        "observe": {name: {"value": f"{name[-1]}**2", "at": "each"} for name in ("square_a", "square_b")},
    }
    return plot_dataset(simkit.run(experiment | {"save": {"points": 10}} | sections))


@pytest.mark.parametrize("sections", [{}, {"variants": {"one": {}, "two": {"initial.a": 5}}}])
def test_a_quantity_over_time_without_room_for_a_row_says_so(sections):
    figure = beyond_the_rows(**sections)
    assert [axes.get_ylabel() for axes in figure.axes[0:10:2]] == ["a", "b", "c", "d", "square_a"]
    (last,) = figure.axes[10:]
    assert last.get_xlabel() == "square_b"
    assert last.get_title("left").endswith("at t = 2; over time with plot.over_time")
    assert_nothing_overlaps(figure)
    chosen = beyond_the_rows(**sections, plot={"over_time": ["a", "square_b"]})
    assert [axes.get_ylabel() for axes in chosen.axes[0:4:2]] == ["a", "square_b"]
    assert chosen.axes[4].get_title("left").endswith("at t = 2")


def test_the_picture_of_a_study_names_its_file(tmp_path):
    uncertain = DECAY.replace("k: 0.5", "k: {uniform: [1, 2]}") + "uncertainty: {points: 8}"
    (tmp_path / "uncertain.yaml").write_text(uncertain)
    for method, title in (("propagate", "propagation"), ("morris", "elementary effects")):
        overrides = {"uncertainty.method": method}
        study = simkit.uncertainty(tmp_path / "uncertain.yaml", overrides=overrides)
        assert plot_dataset(study)._suptitle.get_text().startswith(f"uncertain.yaml: {title}   ")
        unnamed = plot_dataset(simkit.uncertainty(uncertain, overrides=overrides))
        assert unnamed._suptitle.get_text().startswith(f"{title}   ")


def test_an_observable_that_is_a_variable_is_not_drawn_again():
    dataset = gbm_dataset().copy(deep=True)
    count = len(plot_dataset(dataset).axes)
    for name, panels in (("level", 2), ("call", 3)):
        dataset[f"{name}_mean"].attrs["description"] = "S"
        count -= panels - (name == "call") * 2
        assert len(plot_dataset(dataset).axes) == count


def test_an_exact_value_that_only_an_observable_has_is_drawn():
    """`L` is the variable with an exact mean, which has a panel of its own; `again` is drawn already."""
    rates = {"arrival": {"equation": "0 -> Q", "rate": 1.5}, "service": {"equation": "Q -> 0", "rate": 1.0}}
    experiment = {"model": {"reactions": rates}, "initial": {"Q": 0}, "time": {"t1": 5}}
    experiment |= {"save": {"points": 5}, "ensemble": {"paths": 200}}
    dataset = simkit.run(experiment | {"observe": {"L": {"value": "Q", "exact": 1.48989}, "again": "Q"}})
    figure = plot_dataset(dataset)
    assert [axes.get_xlabel() for axes in figure.axes][2:] == ["L"]
    lines = {line.get_label(): line.get_xdata()[0] for line in figure.axes[2].lines}
    assert lines["exact mean"] == 1.48989
    assert_nothing_overlaps(figure)
