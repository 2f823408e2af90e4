"""All errors of an experiment at once, of a file and of a dictionary."""

import pytest

from simkit import InputError, load


def test_every_error_at_once_in_the_order_of_the_file(messages):
    text = """constants: {r: 0.05, K: 2*J, J: 3, t: 3}
model: {type: GBM, mu: rr, sgima: 0.2, sigma: -0.2}
initial: {s: 100.0}
solver: EulerMaryama
time: {t1: "1e-3", steps: 250, stpes: 3}
ensemble: {paths: 5000000000, failures: stpo}
save: {points: 12}
observe:
  call: {value: S - k, exact: gbm_mean(S=1, m=2), at: never}
  empty: {unit: currency}
output: gbm.xls
time: 3
"""
    assert messages(text, ["save.foo=1"]) == [
        "gbm.yaml:1:25: constants.K: uses J, which is defined further down; move J up",
        "gbm.yaml:1:36: constants.t: 't' is the time; choose another name",
        "gbm.yaml:2:24: model.mu: unknown name 'rr' (column 1 of the expression); did you mean 'r'?",
        "gbm.yaml:2:28: model.sgima: unknown parameter of GBM; did you mean 'sigma'?",
        "gbm.yaml:2:47: model.sigma: must be >= 0, got -0.2",
        "gbm.yaml:3:11: initial.s: unknown variable of the model; did you mean 'S'?",
        "gbm.yaml:4:9: solver: unknown solver 'EulerMaryama'; did you mean 'EulerMaruyama'?",
        "gbm.yaml:5:12: time.t1: '1e-3' is text, not a number; remove the quotes",
        "gbm.yaml:5:32: time.stpes: unknown key; did you mean 'steps'?",
        "gbm.yaml:6:19: ensemble.paths: must be at most 4294967296 (the path counter has 32 bits), "
        "got 5000000000",
        "gbm.yaml:6:41: ensemble.failures: must be stop or exclude, got 'stpo'; did you mean 'stop'?",
        "gbm.yaml:7:16: save.points: 12 does not divide the 250 steps; use points: 10 or 25, "
        "or steps: 240 or 252",
        "gbm.yaml:9:17: observe.call.value: unknown name 'k' (column 5 of the expression); did you mean 'K'?",
        "gbm.yaml:9:31: observe.call.exact: gbm_mean has no argument 'm' (column 15); did you mean 'mu'?",
        "gbm.yaml:9:55: observe.call.at: must be end or each, got 'never'",
        "gbm.yaml:10:3: observe.empty.value: is missing; an expression of state variables, parameters, "
        "constants, t, closed forms and path functionals such as mean(x), max(x) and hitting_time(c), all of "
        "which `simkit list` names",
        "gbm.yaml:11:9: output: must end in .zarr, .nc or .csv, got 'gbm.xls'",
        "gbm.yaml:12:1: time: duplicate key; it was first given in line 5",
        "override save.foo: unknown key; known: points, every, paths, quantiles",
    ]


def test_a_dictionary_gives_keys_without_places():
    with pytest.raises(InputError) as caught:
        load({"model": {"type": "GBM", "mu": object(), "sigma": -1}, "initial": {"S": "x"}, 3: 4})
    assert set(caught.value.problems) == {
        "a key must be a string, got 3",
        "model.mu: must be a number, text, list or dict, got a value of type object",
        "model.sigma: must be >= 0, got -1",
        "time: is missing; the grid of times, such as {t1: 1.0, steps: 252}",
        "initial.S: unknown name 'x' (column 1 of the expression); known: pi, e",
    }


def test_a_mistake_brings_no_second_message_about_what_uses_it():
    """A faulty observable is defined, and an SDE without its faulty noise is still no ordinary equation."""
    with pytest.raises(InputError) as caught:
        load(
            {
                "model": {"sde": {"S": {"drift": "S", "noise": "S"}}},
                "initial": {"S": 1},
                "solver": "Milstein",
                "time": {"t1": 1, "steps": 5},
                "observe": {"call": "max(S, 0)", "put": "maximum(1 - S, 0)"},
                "derived": {"parity": "call - put", "other": "put + cal"},
            }
        )
    wrong = {problem.split(":")[0] for problem in caught.value.problems}
    assert wrong == {"model.sde.S.noise", "derived.other", "observe.call"}
