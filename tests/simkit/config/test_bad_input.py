"""Every error in an experiment, with its place and the remedy: one change of a good file."""

import pytest

GOOD = {
    "constants": "{r: 0.05, K: 100.0}",
    "model": "{type: GBM, mu: r, sigma: 0.2}",
    "initial": "{S: 100.0}",
    "solver": "EulerMaruyama",
    "time": "{t1: 1.0, steps: 252}",
    "ensemble": "{paths: 1000}",
    "save": "{points: 12}",
    "observe": "{call: maximum(S - K, 0)}",
}


def text_with(**changes):
    return "".join(f"{key}: {value}\n" for key, value in (GOOD | changes).items() if value is not None)


CASES = [
    # keys and types
    ({"timme": "3"}, "9:1: timme: unknown key; did you mean 'time'?"),
    ({"time": "{t1: 1.0, stepps: 252, steps: 252}"}, "5:17: time.stepps: unknown key; did you mean 'steps'?"),
    ({"time": "{t1: 1.0}"}, "5:1: time.steps: is missing; steps of equal length between t0 and t1"),
    ({"time": None}, "1:1: time: is missing; the grid of times, such as {t1: 1.0, steps: 252}"),
    (
        {"time": "3"},
        "5:7: time: must be a mapping with the keys t0, t1, steps, unit, rtol, atol, first_step, max_steps, "
        "got 3",
    ),
    ({"save": ""}, "7:6: save: must be a mapping with the keys points, every, paths, quantiles, got nothing"),
    ({"ensemble": "{paths: ten}"}, "6:19: ensemble.paths: must be a whole number, got 'ten'"),
    ({"ensemble": "{paths: 1.5}"}, "6:19: ensemble.paths: must be a whole number, got 1.5"),
    ({"ensemble": "{paths: true}"}, "6:19: ensemble.paths: must be a whole number, got true"),
    ({"ensemble": "{paths: '100'}"}, "6:19: ensemble.paths: '100' is text, not a number; remove the quotes"),
    ({"model": "{type: 5}"}, "2:15: model.type: must be a name, got 5; `simkit list` shows all"),
    ({"ensemble": "{paths: 0}"}, "6:19: ensemble.paths: must be at least 1, got 0"),
    ({"ensemble": "{threads: 0}"}, "6:21: ensemble.threads: must be at least 1, got 0"),
    ({"ensemble": "{threads: 99999999999}"}, "6:21: ensemble.threads: must be at most 1024, got 99999999999"),
    ({"ensemble": "{seed: -1}"}, "6:18: ensemble.seed: must be at least 0, got -1"),
    (
        {"observe": "{S_bias: S}"},
        "8:11: observe.S_bias: S and S_bias would both have a result S_bias_stderr in the dataset; choose "
        "another name",
    ),
    (
        {"ensemble": "{paths: 5000000000}"},
        "6:19: ensemble.paths: must be at most 4294967296 (the path counter has 32 bits), got 5000000000",
    ),
    (
        {"time": "{t1: 1.0, steps: 2147483648}"},
        "5:24: time.steps: must be at most 2147483647 (the step counter has 31 bits), got 2147483648",
    ),
    (
        {"ensemble": "{failures: stopp}"},
        "6:22: ensemble.failures: must be stop or exclude, got 'stopp'; did you mean 'stop'?",
    ),
    (
        {"precision": "double"},
        "9:12: precision: must be float32 or float64, got 'double'; did you mean 'float64'?",
    ),
    (
        {"observe": "{a: {value: S, exact: 1}, a_exact: S, innocent: S**2}"},
        "8:36: observe.a_exact: a and a_exact would both have a result a_exact_variance in the dataset; "
        "choose another name",
    ),
    ({"output": "gbm.xls"}, "9:9: output: must end in .zarr, .nc or .csv, got 'gbm.xls'"),
    ({"save": "{paths: some}"}, "7:15: save.paths: must be a whole number of paths or all, got 'some'"),
    ({"save": "{quantiles: [0.5, 1.5]}"}, "7:19: save.quantiles: each must be between 0 and 1, got 1.5"),
    ({"save": "{quantiles: [0.5, 0.1]}"}, "7:19: save.quantiles: must increase from one to the next"),
    # numbers
    ({"model": "{type: GBM, mu: r, sigma: -0.2}"}, "2:34: model.sigma: must be >= 0, got -0.2"),
    ({"model": "{type: GBM, mu: r, sigma: r - 1}"}, "2:34: model.sigma: must be >= 0, got -0.95"),
    (
        {"model": "{type: GBM, mu: r, sigma: '1e-3'}"},
        "2:34: model.sigma: '1e-3' is text, not a number; remove the quotes",
    ),
    ({"constants": "{r: '0.1', K: 1}"}, "1:16: constants.r: '0.1' is text, not a number; remove the quotes"),
    ({"constants": "{r: .nan, K: 1}"}, "1:16: constants.r: must be finite, got nan"),
    ({"constants": "{r: 1e999, K: 1}"}, "1:16: constants.r: must be finite, got inf"),
    ({"constants": "{r: 1/0, K: 1}"}, "1:16: constants.r: must be finite, but 1/0 is inf"),
    (
        {"constants": "{r: [1], K: 1}"},
        "1:16: constants.r: must be a number or an expression, got [1]",
    ),
    ({"constants": "{r: , K: 1}"}, "1:15: constants.r: must be a number or an expression, got nothing"),
    # constants
    (
        {"constants": "{r: K, K: 1}"},
        "1:16: constants.r: uses K, which is defined further down; move K up",
    ),
    ({"constants": "{r: 0.1, K: K + 1}"}, "1:24: constants.K: K is defined by itself"),
    ({"constants": "{r: 0.1, K: 1, t: 2}"}, "1:27: constants.t: 't' is the time; choose another name"),
    (
        {"constants": "{r: 0.1, K: 1, exp: 2}"},
        "1:27: constants.exp: 'exp' is a function; choose another name",
    ),
    (
        {"constants": "{r: 0.1, K: 1, S: 2}"},
        "1:27: constants.S: S is a state variable of the model; choose another name",
    ),
    (
        {"constants": "{r: 0.1, K: 1, lambda: 2}"},
        "1:27: constants.lambda: 'lambda' is a reserved word; choose another name, such as 'lambda_'",
    ),
    # models
    ({"model": "{type: GBN, mu: r, sigma: 1}"}, "2:15: model.type: unknown model 'GBN'; did you mean 'GBM'?"),
    (
        {"model": "{type: GBM, mu: r, sigma: 1, sgima: 1}"},
        "2:37: model.sgima: unknown parameter of GBM; did you mean 'sigma'?",
    ),
    ({"model": "{type: GBM, mu: r}"}, "2:1: model.sigma: is missing; volatility (1/time^0.5)"),
    (
        {"model": "{type: GBM, mu: rr, sigma: 1}"},
        "2:24: model.mu: unknown name 'rr' (column 1 of the expression); did you mean 'r'?",
    ),
    (
        {"model": "GBM"},
        "2:8: model: must be a mapping such as {type: GBM, mu: 0.05, sigma: 0.2}, got 'GBM'",
    ),
    (
        {"model": "{mu: 1}"},
        "2:1: model.type: is missing; a model has a type, equations under sde or ode, energies under "
        "hamiltonian, or reactions",
    ),
    ({"solver": "EulerMaryama"}, "4:9: solver: unknown solver 'EulerMaryama'; did you mean 'EulerMaruyama'?"),
    (
        {"solver": "{type: EulerMaruyama, rtol: 1}"},
        "4:31: solver.rtol: solver EulerMaruyama has no option 'rtol'; tolerances stand under "
        "time, in place of steps: time: {t1: …, rtol: …, atol: …}",
    ),
    # initial values
    ({"initial": "{s: 1, S: 1}"}, "3:11: initial.s: unknown variable of the model; did you mean 'S'?"),
    ({"initial": "{}"}, "3:1: initial.S: is missing; the value of S at t0"),
    ({"initial": "{S: -1}"}, "3:14: initial.S: must be >= 0, asset price; got -1"),
    (
        {"initial": "{S: {uniform: [-1, 2]}}"},
        "3:25: initial.S.uniform[0]: must be >= 0, asset price; got -1",
    ),
    (
        {"initial": "{S: {normal: [1, -2]}}"},
        "3:23: initial.S.normal: sd must be >= 0, got -2",
    ),
    (
        {"initial": "{S: {normal: 1}}"},
        "3:23: initial.S.normal: must be a list of numbers such as [0, 1], or their names and values, got 1",
    ),
    (
        {"initial": "{S: {normal: [1]}}"},
        "3:23: initial.S.normal: sd is missing; write normal: {mean: …, sd: …}",
    ),
    (
        {"initial": "{S: {truncated_normal: {mean: 1, sd: 1, lo: 0, high: 2}}}"},
        "3:33: initial.S.truncated_normal: truncated_normal has no 'lo'; did you mean 'low'?",
    ),
    ({"initial": "{S: {norml: [1, 2]}}"}, "3:15: initial.S.norml: unknown key; did you mean 'normal'?"),
    (
        {"initial": "{S: {normal: [1, 2], uniform: [1, 2]}}"},
        "3:11: initial.S: must have exactly one of normal, lognormal, uniform, triangular and "
        "truncated_normal",
    ),
    # times
    ({"time": "{t0: 1, t1: 1.0, steps: 252}"}, "5:19: time.t1: must be after t0 = 1, got 1"),
    (
        {"time": "{t1: 1.0, steps: 250}"},
        "7:16: save.points: 12 does not divide the 250 steps; use points: 10 or 25, or steps: 240 or 252",
    ),
    (
        {"save": "{every: 1000}"},
        "7:15: save.every: 1000 does not divide the 252 steps; use every: 252, or steps: 1000",
    ),
    ({"save": "{points: 12, every: 21}"}, "7:27: save.every: give points or every, not both"),
    ({"save": "{paths: 2000}"}, "7:15: save.paths: must be at most the 1,000 paths, or all, got 2000"),
    # observables
    (
        {"observe": "{S: S}"},
        "8:11: observe.S: S is a state variable, whose statistics are given anyway; choose another name",
    ),
    (
        {"observe": "{x: S.real}"},
        "8:14: observe.x: attributes (a.b) are not allowed; a function is called as max(S)"
        " (column 2 of the expression)",
    ),
    (
        {"observe": "{x: import os}"},
        "8:14: observe.x: 'import' is a reserved word and not allowed (column 1 of the expression)",
    ),
    (
        {"observe": "{x: maximun(S - K, 0)}"},
        "8:14: observe.x: unknown function 'maximun' (column 1 of the expression); did you mean 'maximum'?",
    ),
    (
        {"observe": "{x: S - k}"},
        "8:14: observe.x: unknown name 'k' (column 5 of the expression); did you mean 'K'?",
    ),
    (
        {"observe": "{x: " + "(" * 10_000 + "S" + ")" * 10_000 + "}"},
        "8:14: observe.x: an expression of 20001 characters; at most 2000 are allowed",
    ),
    (
        {"observe": "{x: " + "(" * 900 + "S" + ")" * 900 + "}"},
        "8:14: observe.x: nested more than 50 levels deep (column 51 of the expression)",
    ),
    ({"observe": "{x: {vale: S, value: S}}"}, "8:15: observe.x.vale: unknown key; did you mean 'value'?"),
    (
        {"observe": "{x: {value: S, every: 2}}"},
        "8:32: observe.x.every: has no effect: value has no path functional that monitors every step",
    ),
    (
        {"observe": "{x: {value: max(S), every: 300}}"},
        "8:37: observe.x.every: must be at most the 252 steps, got 300",
    ),
    (
        {"observe": "{x: {value: integral(S), every: 5}}"},
        "8:42: observe.x.every: 5 does not divide the 252 steps, and the integral would end early",
    ),
    (
        {"observe": "{x: {value: S, exact: black_scholes_cal(S=1)}}"},
        "8:32: observe.x.exact: unknown function 'black_scholes_cal' (column 1 of the expression); "
        "did you mean 'black_scholes_call'?",
    ),
    (
        {"observe": "{x: {value: S, exact: gbm_mean(S=1, mu=r, T=-1)}}"},
        "8:32: observe.x.exact: gbm_mean: T: must be >= 0, got -1",
    ),
    (
        {"observe": "{x: {value: S, exact: S}}"},
        "8:32: observe.x.exact: unknown name 'S'"
        " (column 1 of the expression); known: mu, sigma, r, K, t, pi, e",
    ),
    (
        {"constants": "{r: 1, K: 1, mu: 2}", "observe": "{x: mu*S}"},
        "8:14: observe.x: mu is a constant and also a parameter of the model; rename the constant, or give "
        "the parameter as mu: mu",
    ),
    # the document itself
    (
        {"model": "{type: GBM, mu: r, sigma: 0.2, mu: r}"},
        "2:39: model.mu: duplicate key; it was first given in line 2",
    ),
]


@pytest.mark.parametrize(("changes", "message"), CASES, ids=range(len(CASES)))
def test_one_error_gives_one_message(messages, changes, message):
    assert messages(text_with(**changes)) == [f"gbm.yaml:{message}"]


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (
            "EulerMaruyama",
            "4:9: solver: adaptive steps are chosen by looking at the increments, which can make "
            "EulerMaruyama converge to a wrong limit on scalar noise (Gaines & Lyons 1997); use Milstein, "
            "or give steps of equal length",
        ),
        (
            "{type: ReversibleHeun, convert: true}",
            "4:16: solver.type: solver ReversibleHeun carries more than the state from step to step, and "
            "adaptive steps change their length; use SPaRK or Heun, or give steps of equal length",
        ),
        (
            "SPaRK",
            "4:9: solver: solver SPaRK converges to the Stratonovich solution, GBM is an Itô model; use "
            "Milstein, or let it convert the model: {type: SPaRK, convert: true}",
        ),
    ],
)
def test_adaptive_steps_do_not_fit_every_stochastic_solver(messages, solver, message):
    text = text_with(solver=solver, time="{t1: 1.0, rtol: 1e-6, atol: 1e-9}", save=None)
    assert messages(text) == [f"gbm.yaml:{message}"]


def test_a_solver_that_does_not_fit(messages):
    assert messages(text_with(solver="Tsit5")) == [
        "gbm.yaml:4:9: solver: solver Tsit5 is for ordinary problems, GBM is stochastic; use SRIW1 "
        "(strong order 1.5)"
    ]


def test_options_are_named_as_the_place(messages):
    overrides = ["model.sgima=0.3", "model.sigma=-1", "ensemble={paths: 0}", "observe.call.at=never"]
    assert messages(text_with(), overrides) == [
        "override ensemble: ensemble.paths: must be at least 1, got 0",
        "override observe.call.at: must be end or each, got 'never'",
        "override model.sgima: unknown parameter of GBM; did you mean 'sigma'?",
        "override model.sigma: must be >= 0, got -1",
    ]
