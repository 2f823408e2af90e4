"""What a sweep may take: keys, values and lists side by side, and what it remarks."""

import pytest

import simkit
from simkit import InputError
from simkit.config.overrides import opened
from simkit.experiments.variants import build_changed
from simkit.sweeps.plan import load_sweep

ODE = {
    "model": {"ode": {"x": "-k*x + c"}, "parameters": {"k": 1.0, "c": 0.0}},
    "initial": {"x": 1.0},
    "time": {"t1": 1.0, "steps": 8},
}


def test_side_by_side_a_value_may_come_again():
    over = {"model.parameters.k": [1.0, 1.0, 2.0], "model.parameters.c": [0.0, 1.0, 1.0]}
    loaded = load_sweep(ODE, over=over, side_by_side=True)
    assert loaded.axes.points == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(InputError, match=r"has the value 1\.0 twice"):
        load_sweep(ODE, over=over)


def test_only_combinations_are_limited_and_not_lists_side_by_side(monkeypatch):
    monkeypatch.setattr("simkit.sweeps.plan.MOST", 5)
    over = {"model.parameters.k": [1.0, 2.0, 3.0], "model.parameters.c": [0.0, 1.0, 2.0]}
    assert len(load_sweep(ODE, over=over, side_by_side=True).points.each) == 3
    with pytest.raises(InputError, match="has 9 combinations, and 5 are the most"):
        load_sweep(ODE, over=over)


@pytest.mark.parametrize(("count", "shown"), [(5, 3), (6, 4), (7, 3), (100, 3)])
def test_errors_that_differ_in_numbers_only_are_counted_after_the_first(count, shown):
    """The ends of a range are whole numbers, and all between are not."""
    with pytest.raises(InputError) as wrong:
        simkit.sweep(ODE, {"time.steps": f"500:{500 + 2 * count - 3}:{count}"})
    lines, left = wrong.value.problems, count - 2 - shown
    assert all("must be a whole number" in line for line in lines[:shown])
    assert lines[shown:] == ([f"and {left} more lines like these"] if left else [])


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"model..k": [1, 2]}, r"^sweep.over: model..k: must be a key such as model.sigma$"),
        ({"plot.dpi": [100, 200]}, r"^sweep.over: plot.dpi: is the same at all points, and cannot be swept$"),
        ({"sweep": [1, 2]}, r"^sweep.over: sweep: is the same at all points, and cannot be swept$"),
        (
            {"solver": ["Euler", object]},
            r"^over solver\[1\]: must be a number, text, list or dict, got a",
        ),
        ({"solver": object}, r"^over solver: must not be a class; give its name: {type: object, ...}"),
        ({"a.b": [1, {"c": object}]}, r"^over a\.b\[1\]\.c: must be a number, text, list or dict, got"),
        ({1: [1, 2]}, r"^over: a key must be a string, got 1$"),
    ],
)
def test_keys_and_values_that_cannot_be_swept_are_the_only_message(over, message):
    with pytest.raises(InputError, match=message) as caught:
        load_sweep(ODE, over=over)
    assert len(caught.value.problems) == 1


def test_a_swept_constant_that_no_expression_uses_is_refused():
    experiment = {
        "constants": {"vol": 0.2, "two": 2},
        "model": {"type": "GBM", "mu": 0.0, "sigma": "vol"},
        "initial": {"S": 1.0},
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 10},
    }
    message = "sweep.over: constants.vl: no expression uses it, so that all points would be the same"
    with pytest.raises(simkit.InputError, match=message) as refused:
        simkit.sweep(experiment, {"constants.vl": [0.1, 0.2], "constants.two": [1, 2]})
    assert "did you mean 'vol'?" in refused.value.problems[0]
    assert len(refused.value.problems) == 2
    assert simkit.sweep(experiment, {"constants.vol": [0.1, 0.2]}).sizes["constants.vol"] == 2


def test_a_swept_parameter_that_no_expression_uses_is_refused():
    refusal = r"^sweep\.over: model\.parameters\.kk: no expression uses it, .* the same; did you mean 'k'\?$"
    with pytest.raises(InputError, match=refusal):
        load_sweep(ODE, over={"model.parameters.kk": [1.0, 2.0]})
    into_it = {"model.parameters.kk": [1.0, 2.0], "model.ode.x": ["-kk*x", "-kk*x*c"]}
    assert len(load_sweep(ODE, over=into_it).points.each) == 4


@pytest.mark.parametrize("reverse", [False, True])
def test_a_key_within_another_is_swept_twice_wherever_it_stands(reverse):
    """But not one that only begins as another, which would change nothing of it."""
    pairs = {"model.parameters.k": [1.0, 2.0], "model.parameters": [{"k": 1.0, "c": 0.0}]}.items()
    over = dict(reversed(pairs) if reverse else pairs)
    with pytest.raises(InputError) as refused:
        load_sweep(ODE, over=over)
    assert refused.value.problems == ["sweep.over: model.parameters.k: is swept twice"]
    named = ODE | {"model": {"ode": {"x": "-k*x + kk"}, "parameters": {"k": 1.0, "kk": 0.0}}}
    over = {"model.parameters.k": [1.0, 2.0], "model.parameters.kk": [1.0, 2.0]}
    assert len(load_sweep(named, over=over).points.each) == 4


def test_each_point_is_compared_with_few_others_however_many_there_are():
    """Compared with all of them, ten thousand points would take minutes to read."""
    iterations = []

    class Counted(dict):
        def __iter__(self):
            iterations.append(1)
            return super().__iter__()

    k = ("model", "parameters", "k")
    for number in (10, 100):
        changes = {str(i): Counted({k: (float(i), ("sweep", "over"))}) for i in range(number)}
        build_changed(opened(ODE), changes, lambda document: document.data["model"]["parameters"]["k"])
    assert len(iterations) <= 10 * (10 + 100)


def test_a_constant_that_no_point_uses_is_remarked():
    """One that a value of the sweep uses is not."""
    over = {"model.parameters.k": ["2*used", 1.0]}
    remarks = load_sweep(ODE | {"constants": {"used": 1.0, "idle": 2.0}}, over=over).points.remarks
    assert remarks == ["constants.idle: no expression uses it; use it, or remove it"]
