"""Overrides change keys, `null` removes them, and errors name the option that gave a value."""

import pytest
from price_examples import PRICE, REST

from simkit import InputError, load
from simkit.config import read_document
from simkit.config.diagnostics import placed
from simkit.config.option import set_option
from simkit.config.overrides import apply_overrides
from simkit.engines.loaded import load_each


def test_an_override_from_python_is_not_called_an_option():
    with pytest.raises(InputError, match=r"^override model\.sigm: unknown parameter of GBM"):
        load(PRICE, {"model.sigm": 0.3})
    for overrides in ("model.sigm=0.3", ["model.sigm=0.3"], [("model.sigm", 0.3)]):
        with pytest.raises(InputError, match=r"^override model\.sigm: unknown parameter of GBM"):
            load(PRICE, overrides)
    with pytest.raises(InputError, match=r"^--set model\.sigm: unknown parameter of GBM"):
        load(PRICE, [set_option("model.sigm=0.3")])


def test_an_error_inside_an_option_has_no_place_in_the_file():
    text = "model: {type: GBM, mu: 0.05, sigma: 0.2}\ninitial: {S: 1}\ntime: {t1: 1, steps: 4}\n"
    with pytest.raises(InputError) as caught:
        load(text, ["initial={S: 1,5}"])
    assert caught.value.problems == [
        "override initial: initial.S: 1,5 is not a number; write a decimal point: 1.5"
    ]


OPTIONAL = {
    "constants": {"K": 100.0, "unused": 1.0},
    "ensemble": {"paths": 8},
    "save": {"points": 2},
    "observe": {"call": "maximum(S - K, 0)", "put": {"value": "maximum(K - S, 0)", "unit": "EUR"}},
    "sensitivity": {"wrt": ["S"]},
    "output": "price.zarr",
}


@pytest.mark.parametrize(
    "key",
    [
        "constants.unused",
        "ensemble",
        "ensemble.paths",
        "save",
        "observe",
        "observe.put",
        "observe.put.unit",
        "sensitivity",
        "output",
        "variants",
    ],
)
def test_null_takes_away_any_key_that_is_there(key):
    source = PRICE | OPTIONAL | ({"variants": {"calm": {"model.sigma": 0.1}}} if key == "variants" else {})
    expected = {name: dict(part) if isinstance(part, dict) else part for name, part in source.items()}
    *above, last = key.split(".")
    section = expected
    for part in above:
        section = section[part]
        if part == "observe" and key == "observe.put.unit":
            section["put"] = dict(section["put"])
    del section[last]
    assert load(source, [f"{key}=null"]).experiment.resolved() == load(expected).experiment.resolved()


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("observe.pot", "observe.pot: cannot be removed: there is no such key; did you mean 'put'?"),
        ("ensembel", "ensembel: unknown key; did you mean 'ensemble'?"),
        ("curves.rate", "curves.rate: cannot be removed: there is no such key"),
        ("time", "time: is missing; the grid of times, such as {t1: 1.0, steps: 252}"),
        (
            "constants.K",
            "observe.call: unknown name 'K'"
            " (column 13 of the expression); known: S, mu, sigma, unused, t, pi, e",
        ),
    ],
)
def test_null_for_what_is_not_there_or_is_needed_is_refused(key, line):
    with pytest.raises(InputError) as caught:
        load(PRICE | OPTIONAL, [f"{key}=null"])
    assert caught.value.problems[0].removeprefix("override ") == line


def test_a_variant_takes_away_what_is_there_only():
    source = PRICE | OPTIONAL | {"variants": {"bare": {"observe.pot": None}}}
    with pytest.raises(
        InputError,
        match=r"^variant bare: observe\.pot: must be a mapping with the keys value, .*, got nothing",
    ):
        load_each(source)


@pytest.mark.parametrize(
    ("override", "problem", "line"),
    [
        ("sensitivity.method=score", "sensitivity.method: no", "override sensitivity.method: no"),
        ("model.sigma=0.3", "model.sigma: no", "override model.sigma: no"),
        (
            "sensitivity={wrt: [S], method: score}",
            "sensitivity.method: no",
            "override sensitivity: sensitivity.method: no",
        ),
        ("time.steps=8", "model.sigma: no", "<text>:1:34: model.sigma: no"),
        ("time.steps=8", "path 3, 4: no", "<text>:1:1: path 3, 4: no"),
    ],
)
def test_later_errors_name_where_the_value_was_given(override, problem, line):
    document = read_document("model: {type: GBM, mu: 0, sigma: 0.2}\n" + REST)
    apply_overrides(document, [override])
    with pytest.raises(InputError) as caught, placed(document):
        raise InputError(problem)
    assert caught.value.problems == [line]
