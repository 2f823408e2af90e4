"""What newcomers do wrong gives one message each, which says what to do."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from price_examples import PRICE, REST
from simkit_physics import GBM

from simkit import InputError, OutputError, load
from simkit.engines.loaded import load_each
from simkit.suggestions import shown

ASSETS = (
    "model: {{type: MultiAssetGBM, size: 3, mu: 0, sigma: {sigma}, rho: {rho}}}\n"
    "initial: {{S: {start}}}\ntime: {{t1: 1, steps: 4}}\n"
)

MERTON = {"type": "Merton", "mu": 0.08, "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.1}

CASES = {
    "a parameter of another model": (
        PRICE | {"model": {"type": "CIR", "kappa": 1, "theta": 1, "mu": 0}, "initial": {"r": 1}},
        [
            "model.mu: unknown parameter of CIR; known: kappa, theta, sigma",
            "model.sigma: is missing; volatility (1/time)",
        ],
    ),
    "no space after the colon": (
        "model: {type: GBM, mu:0.05, sigma: 0.2}\n" + REST,
        ["<text>:1:20: model.mu: a space is missing after the colon; write mu: 0.05"],
    ),
    "a name and equations": (
        "model: {type: GBM, sde: {S: {drift: -S, noise: {W: 1}}}}\n" + REST,
        ["<text>:1:20: model.sde: give type or sde, not both"],
    ),
    "the time as a variable": (
        "model: {ode: {t: -t}}\ninitial: {t: 1}\ntime: {t1: 1, steps: 4}\n",
        ["<text>:1:15: model.ode.t: 't' is the time; choose another name"],
    ),
    "a Greek letter": (
        "model: {ode: {S: -α*S}}\n" + REST,
        [
            "<text>:1:18: model.ode.S: names are in plain letters: spell α out as alpha"
            " (column 2 of the expression)"
        ],
    ),
    "another type": (
        3,
        ["an experiment is the path of a YAML file, its text or a dictionary, not a value of type int"],
    ),
    "a solver that nobody named": (
        {"model": MERTON, "initial": {"S": 100}, "time": {"t1": 1, "rtol": 1e-3, "atol": 1e-4}},
        [
            "solver: Milstein is what rtol and atol mean without a solver: Merton jumps, and adaptive steps "
            "cannot assign a jump to one half of an interval; give steps of equal length"
        ],
    ),
    "a dictionary from PyYAML": (
        PRICE | {"time": {"t1": 1.0, "rtol": "1e-6", "atol": "1e6"}},
        [
            "time.rtol: '1e-6' is text, not a number; PyYAML takes this for text: write 1.0e-6 in the "
            "file, or give simkit the file's name",
            "time.atol: '1e6' is text, not a number; PyYAML takes this for text: write 1.0e+6 in the "
            "file, or give simkit the file's name",
        ],
    ),
    "dates as times": (
        "model: {type: GBM, mu: 0.05, sigma: 0.2}\ninitial: {S: 100}\ntime: {t1: 2026-12-31, steps: 4}\n"
        "events: {cut: {at: [2026-06-30], set: {S: 0.9*S}}}\n",
        [
            "<text>:3:12: time.t1: '2026-12-31' looks like a date; times are numbers, such as years since "
            "t0, and arithmetic has spaces around its operators (column 1 of the expression)",
            "<text>:4:21: events.cut.at[0]: '2026-06-30' looks like a date; times are numbers, such as years "
            "since t0, and arithmetic has spaces around its operators (column 1 of the expression)",
        ],
    ),
    "underscores in numbers": (
        "model: {type: GBM, mu: 0.05, sigma: 0.2}\ninitial: {S: 1_000}\ntime: {t1: 1, steps: 4}\n"
        "ensemble: {paths: 1_000}\n",
        [
            "<text>:2:14: initial.S: must be a number or an expression, got '1_000'; write 1000, without "
            "underscores",
            "<text>:4:19: ensemble.paths: must be a whole number, got '1_000'; write 1000, without "
            "underscores",
        ],
    ),
    "decimal commas": (
        "model: {type: GBM, mu: 0,05, sigma: 0.2}\ninitial: {S: 1,000}\ntime: {t1: 1, steps: 4}\n"
        "solver:\n  type: EulerMaruyama\nensemble:\n  paths: 10,000\nobserve:\n  x: 1,5e3\n",
        [
            "<text>:1:24: model.mu: 0,05 is not a number; write a decimal point: 0.05",
            "<text>:2:14: initial.S: 1,000 is not a number; write 1000, or with a decimal point 1.000",
            "<text>:7:10: ensemble.paths: must be a whole number, got '10,000'; write 10000, or with a "
            "decimal point 10.000",
            "<text>:9:6: observe.x: must be a number or an expression, got '1,5e3'; write a decimal "
            "point: 1.5e3",
        ],
    ),
    "an arrow that is none": (
        "model: {reactions: {a: {equation: A + B => C, rate: 1}, b: {equation: C -> 0, propensity: A*C}}}\n"
        "initial: {A: 10, B: 5, C: 0}\ntime: {t1: 1}\nobserve: {all: A + B + C}\n",
        [
            "<text>:1:35: model.reactions.a.equation: 'A + B => C' is not a reaction: write reactants -> "
            "products, such as S + I -> 2 I, and two directions as two reactions",
        ],
    ),
    "two assets of a model of three": (
        {
            "model": {"type": "MultiAssetGBM", "mu": 0.05, "sigma1": 0.3, "sigma2": 0.2, "rho12": 0.5},
            "initial": {"S1": 100, "S2": 95},
            "time": {"t1": 1, "steps": 4},
        },
        ["model.size: is missing: these are the parameters of size 2, not of 3; add size: 2"],
    ),
    "lists that are too short": (
        ASSETS.format(sigma="[0.2, 0.3]", rho=0.5, start="[100, 100]"),
        [
            "<text>:1:53: model.sigma: has 2 values, and there are 3, sigma1 to sigma3",
            "<text>:2:14: initial.S: has 2 values, and there are 3, S1 to S3",
        ],
    ),
    "a correlation of all pairs": (
        ASSETS.format(sigma=0.2, rho=1.5, start=100),
        ["<text>:1:63: model.rho: must be >= -1 and <= 1, got 1.5"],
    ),
    "an entry of a list": (
        ASSETS.format(sigma="[0.2, -0.3, 0.1]", rho=0.5, start=100),
        ["<text>:1:59: model.sigma[1]: must be >= 0, got -0.3"],
    ),
    "a pair the other way round": (
        ASSETS.format(sigma=0.2, rho="0.5, rho21: 0.1", start=100),
        ["<text>:1:68: model.rho21: unknown parameter of MultiAssetGBM; did you mean 'rho12'?"],
    ),
    "several distributions": (
        "model: {type: GBM, mu: 0.05, sigma: {uniform: [0.1, 0.2]}}\nconstants: {K: {normal: [100, 1]}}\n"
        + REST,
        [
            "<text>:2:16: constants.K: study this file by `simkit uncertainty`, which takes distributions; "
            "to run it, give one number here, as by --set constants.K=NUMBER, and so for model.sigma",
        ],
    ),
    "a rate in quotes": (
        {
            "model": {"reactions": {"decay": {"equation": "X -> 0", "rate": "0.5"}}},
            "initial": {"X": 10},
            "time": {"t1": 1},
        },
        ["model.reactions.decay.rate: '0.5' is text, not a number; remove the quotes"],
    ),
    "a solver as an object": (
        PRICE | {"solver": diffrax.Euler()},
        [
            "solver: must be a number, text, list or dict, got a value of type Euler; give it by name: "
            "{type: Euler, ...}"
        ],
    ),
    "a solver as its class": (
        PRICE | {"solver": diffrax.Euler},
        ["solver: must not be a class; give its name: {type: Euler, ...}"],
    ),
    "an object in a list": (
        PRICE | {"save": {"quantiles": [0.1, object()]}},
        ["save.quantiles[1]: must be a number, text, list or dict, got a value of type object"],
    ),
    "a model as its class": (
        PRICE | {"model": GBM},
        [
            "model: must not be a class; give an instance, GBM(mu=…, sigma=…), or its name, {type: GBM, ...}",
        ],
    ),
    "a model as a class of another kind": (
        PRICE | {"model": dict},
        ["model: the class dict is no model"],
    ),
    "a solver by its name elsewhere": (
        PRICE | {"solver": "LSODA"},
        ["solver: unknown solver 'LSODA'; use EulerMaruyama, which fits this model"],
    ),
    "a solver that nobody knows": (
        PRICE | {"solver": "Qqq"},
        [
            "solver: unknown solver 'Qqq'; `simkit list solvers` shows all; `simkit --import MODULE run ...` "
            "enters your own"
        ],
    ),
    "a model of two kinds": (
        PRICE | {"model": {"sde": {"S": {"drift": "S"}}, "ode": {"S": "S"}}},
        ["model.ode: give sde or ode, not both"],
    ),
    "a list of initial values": (
        PRICE | {"initial": {"S": [99.0, 101.0]}},
        [
            "initial.S: must be a single value: a list is for numbered names, and `variants` are for one run "
            "after the other; write {values: […]} for one value for each path"
        ],
    ),
    "a table of initial values": (
        PRICE | {"initial": {"S": np.ones((2, 2))}},
        ["initial.S: must be a number, or an array (paths,) of one for each path, got the shape (2, 2)"],
    ),
    "a solver of networks for another model": (
        PRICE | {"solver": "TauLeaping", "save": {"every": 2}, "observe": {"top": "max(S)"}},
        ["solver: solver TauLeaping is for reaction networks, and GBM is not one; use EulerMaruyama"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_is_named_once(name):
    source, lines = CASES[name]
    with pytest.raises(InputError) as caught:
        load(source)
    assert caught.value.problems == lines


def test_a_missing_file_is_what_python_calls_one():
    with pytest.raises(FileNotFoundError, match=r"^missing\.yaml: no such file"):
        load("missing.yaml")
    with pytest.raises(OutputError):
        load("missing.yaml")


@pytest.mark.parametrize("number", [jnp.float32(0.5), jnp.asarray(0.5), np.array(0.5), np.float32(0.5)])
def test_a_single_number_in_an_array_is_a_number(number):
    problem = load(PRICE | {"model": {"type": "GBM", "mu": number, "sigma": 0.2}}).problem
    assert problem.mu == 0.5  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InputError, match=r"model\.mu: must be a single value: a list is for"):
        load(PRICE | {"model": {"type": "GBM", "mu": jnp.zeros(2), "sigma": 0.2}})


def test_a_list_in_a_message_is_shown():
    assert shown([]) == "an empty list"
    assert shown([1, "S", [None, True, {}]]) == "[1, 'S', [nothing, true, a mapping]]"
    assert shown(list(range(10**6))) == shown(list(range(100)))
    assert shown(list(range(100))).startswith("[0, 1, 2, ")
    assert shown(list(range(100))).endswith("…]")
    assert len(shown([[1] * 1000] * 1000)) <= 60


@pytest.mark.parametrize("name", ["gbm.zarr", "gbm.nc"])
def test_a_dataset_is_no_experiment_and_has_a_command(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(
        InputError, match=rf"{name}: is a dataset, not an experiment; `simkit plot .*{name}` draws"
    ):
        load(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "what"), [("sigma", "a parameter or constant"), ("t", "time"), ("pi", "a number")]
)
def test_an_observable_with_the_name_of_something_else_is_remarked(name, what):
    """Its name would mean itself in `derived`, and the other in `observe`."""
    loaded = load_each(PRICE | {"observe": {name: "S", "plain": "S"}})
    said = f"observe.{name}: is {what} too, which it means in other expressions; choose another name"
    assert [line for line in loaded.remarks if line.startswith("observe.")] == [said]


def test_steps_behind_the_last_one_watched_are_remarked():
    """Those of an integral are an error; a divisor leaves none."""
    steps = PRICE | {"time": {"t1": 1.0, "steps": 50}}
    average = {"mean": {"value": "mean(S)", "every": 7}}
    (remark,) = load_each(steps | {"observe": average}).remarks
    assert remark == "observe.mean.every: 7 does not divide the 50 steps: none after step 49 is watched"
    assert not load_each(steps | {"observe": average}, {"observe.mean.every": 5}).remarks
