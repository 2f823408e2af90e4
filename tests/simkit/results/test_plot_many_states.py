"""A picture leaves no quantity out without a word: it has panels for a dozen, and a note on the rest."""

import pytest
from pictures import assert_nothing_overlaps

import simkit
from simkit import plot_dataset


def decays(count, paths=1, **changes):
    """So many variables, each of which decays on its own; with noise where there are several paths."""
    names = [f"x{i}" for i in range(count)]
    if paths == 1:
        model = {"ode": {name: f"-{name}*{i + 1}/4" for i, name in enumerate(names)}}
    else:
        terms = {name: {"drift": f"-{name}", "noise": {f"W{i}": 0.5}} for i, name in enumerate(names)}
        model = {"sde": terms}
    return {
        "model": model,
        "initial": dict.fromkeys(names, 1.0),
        "solver": "Euler" if paths == 1 else "EulerMaruyama",
        "time": {"t1": 2.0, "steps": 100},
        "save": {"points": 50},
        "ensemble": {"paths": paths},
    } | changes


def over_time(figure):
    return [axes for axes in figure.axes if len(axes.get_lines()) and axes.get_ylabel()]


@pytest.mark.parametrize("paths", [1, 64])
@pytest.mark.parametrize("count", [5, 6, 9, 12])
def test_up_to_a_dozen_state_variables_have_a_panel(count, paths):
    figure = plot_dataset(simkit.run(decays(count, paths)))
    labels = [axes.get_ylabel() for axes in over_time(figure)]
    assert labels == [f"x{i}" for i in range(count)]
    assert not any("not drawn" in axes.get_title("left") for axes in figure.axes)
    assert_nothing_overlaps(figure)
    columns = 1 if count == 5 else 2
    timed = [axes for axes in over_time(figure) if axes.get_xlabel() == "time"]
    assert len(timed) == columns  # the lowest of each column


@pytest.mark.more
@pytest.mark.parametrize("paths", [1, 64])
def test_what_has_no_panel_is_named_with_the_remedy(paths):
    dataset = simkit.run(decays(15, paths))
    figure = plot_dataset(dataset)
    panels = over_time(figure)
    assert len(panels) == 12
    note = "not drawn: x12, x13 and 1 more; choose by plot.over_time"
    assert panels[0].get_title("left") == note
    assert_nothing_overlaps(figure)
    chosen = plot_dataset(simkit.run(decays(15, paths, plot={"over_time": ["x14", "x0"]})))
    assert [axes.get_ylabel() for axes in over_time(chosen)] == ["x14", "x0"]
    assert not any("not drawn" in axes.get_title("left") for axes in chosen.axes)


def test_of_a_single_path_observables_are_named_too():
    """Of many they have a distribution in its place."""
    observed = {f"y{i}": {"value": f"x0 + {i}", "at": "each"} for i in range(1, 6)}
    few = decays(2, observe=observed | {"same": {"value": "x0", "at": "each"}})
    panels = over_time(plot_dataset(simkit.run(few)))
    assert [axes.get_ylabel() for axes in panels] == ["x0", "x1", "y1", "y2", "y3"]
    assert panels[0].get_title("left") == "not drawn: y4, y5; choose by plot.over_time"
    many = plot_dataset(simkit.run(few | {"ensemble": {"paths": 64}, "initial": {"x0": 1, "x1": 1}}))
    assert not any("not drawn" in axes.get_title("left") for axes in many.axes)


def test_next_to_a_portrait_four_have_a_row_and_the_others_a_note():
    figure = plot_dataset(simkit.run(decays(7, plot={"portrait": ["x5", "x0"]})))
    panels = over_time(figure)
    assert [axes.get_ylabel() for axes in panels] == ["x0", "x1", "x2", "x3", "x0"]
    assert panels[0].get_title("left") == "not drawn: x4, x6; choose by plot.over_time"
    assert_nothing_overlaps(figure)


def test_the_note_lies_above_another_note():
    few_rows = decays(15, 64, save={"points": 2})
    figure = plot_dataset(simkit.run(few_rows))
    first = figure.axes[0]
    assert first.get_title("right").startswith("only 3 times")
    figure.canvas.draw()
    assert first._left_title.get_text().endswith("plot.over_time\n")
    assert_nothing_overlaps(figure)


def test_variants_of_many_state_variables_fill_the_same_panels():
    variants = {"one": {}, "two": {"time": {"steps": 50}}}
    figure = plot_dataset(simkit.run(decays(14, 64, variants=variants)))
    panels = over_time(figure)
    assert [axes.get_ylabel() for axes in panels][:12] == [f"x{i}" for i in range(12)]
    assert panels[0].get_title("left").startswith("not drawn: x12, x13;")
    assert_nothing_overlaps(figure)
