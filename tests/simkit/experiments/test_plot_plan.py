"""The `plot` section names what there is over time."""

import pytest

from simkit import InputError, load


def experiment(plot):
    return {
        "model": {"ode": {"x": "v", "v": "-x"}},
        "initial": {"x": 1.0, "v": 0.0},
        "time": {"t1": 1.0, "steps": 10},
        "observe": {"energy": {"value": "(x**2 + v**2)/2", "at": "each"}, "last": "x"},
        "plot": plot,
    }


def test_names_and_pairs_reach_the_picture():
    picture = load(experiment({"over_time": ["energy", "v"], "portrait": ["x", "v"]})).picture
    assert picture.over_time == ("energy", "v")
    assert picture.portrait == (("x", "v"),)
    several = load(experiment({"portrait": [["x", "v"], ["v", "energy"]]})).picture
    assert several.portrait == (("x", "v"), ("v", "energy"))


def test_a_resolved_experiment_has_the_same_picture():
    loaded = load(experiment({"portrait": ["x", "v"]}))
    assert load(loaded.experiment.resolved()).picture == loaded.picture


@pytest.mark.parametrize(
    ("plot", "message"),
    [
        ({"over_time": ["enrgy"]}, "plot.over_time[0]: nothing is called 'enrgy'; did you mean 'energy'?"),
        ({"portrait": ["x", "q"]}, "plot.portrait[1]: nothing is called 'q'; known: x, v, energy, last"),
        ({"portrait": [["x", "q"]]}, "plot.portrait[0][1]: nothing is called 'q'; known: x, v, energy, last"),
        (
            {"over_time": ["x", "last"]},
            "plot.over_time[1]: last is evaluated at the end only; give it as last: {value: …, at: each}",
        ),
        ({"over_time": "x"}, "plot.over_time: must be a list of names such as [S, v], got 'x'"),
        (
            {"portrait": ["x"]},
            "plot.portrait: must be two names such as [x, y], or a list of such pairs, got ['x']",
        ),
        ({"portrait": [["x", 1]]}, "plot.portrait: must be two names such as [x, y]"),
        ({"phase": ["x", "v"]}, "plot.phase: unknown key"),
    ],
)
def test_an_error_is_named_with_its_remedy(plot, message):
    with pytest.raises(InputError) as caught:
        load(experiment(plot))
    assert str(caught.value).startswith(message)
