"""What a sensitivity section may say, and where what is wrong stands."""

import json

import jax
import pytest
from derivative_examples import EXACT
from typer.testing import CliRunner

import simkit
from simkit import InputError, load
from simkit.cli import app


def test_binding_single_places():
    simulation = load(EXACT)
    assert simulation.bind is not None
    assert simulation.targets == {
        "r": 0.05, "K": 100.0, "model.mu": 0.05, "model.sigma": 0.2, "initial.S": 100.0,
        "time.t0": 0.0, "time.t1": 1.0,
    }  # fmt: skip
    bound = simulation.bind({"model.mu": 0.1, "initial.S": 90.0, "time.t1": 2.0})
    assert (bound.problem.mu, bound.observer.constants["r"]) == (0.1, 0.05)
    assert (bound.initial, bound.grid.dt) == ({"S": 90.0}, 2.0)
    slope = jax.grad(lambda r: simulation.bind({"r": r}).problem.mu)(0.05)
    assert slope == 1
    with pytest.raises(KeyError, match=r"nothing is called 'model\.s'"):
        simulation.bind({"model.s": 1.0})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("wrt", ["sgima"], r"sensitivity.wrt\[0\]: unknown name 'sgima'; did you mean 'sigma'\?"),
        ("wrt", ["r", "r"], r"sensitivity.wrt\[1\]: r is there twice"),
        ("wrt", ["mu", "model.mu"], r"sensitivity.wrt\[1\]: model.mu is mu, which is there already"),
        ("of", ["call", "call"], r"sensitivity.of\[1\]: call is there twice"),
        ("of", ["cal"], r"sensitivity.of\[0\]: unknown name 'cal'; did you mean 'call'\?"),
        ("second", ["K"], r"sensitivity.second\[0\]: 'K' is not in wrt"),
        ("wrt", [], r"sensitivity.wrt: must be a list of names such as \[S, v\], got an empty list"),
        ("second", [], r"sensitivity.second: must be a list of names .*, got an empty list"),
        ("second", [["S"]], r"sensitivity.second: \[0\] must be a name or a pair such .*, got \['S'\]$"),
        ("second", ["S", ["S", "r", "K"]], r"sensitivity.second: \[1\] must be .*, got \['S', 'r', 'K'\]$"),
        ("check", "maybe", r"sensitivity.check: must be true or false, got 'maybe'$"),
        ("method", "scores", r"sensitivity.method: must be auto or pathwise .*did you mean 'score'\?"),
        ("wrong", 1, r"sensitivity.wrong: unknown key"),
    ],
)
def test_bad_input_is_named(key, value, message):
    with pytest.raises(InputError, match=message):
        load({**EXACT, "sensitivity": {"wrt": ["S"], "of": ["call"], key: value}})


@pytest.mark.more
def test_the_first_of_many_known_names_are_listed():
    constants = {**EXACT["constants"], **{f"n{i}": 1.0 for i in range(20)}}
    given = {**EXACT, "constants": constants, "sensitivity": {"wrt": ["Tcool"]}}
    with pytest.raises(InputError, match=r"'Tcool'; known: r, K, n0, .*, n9, … \(27 in all\)"):
        load(given)


def test_quantities_stand_in_the_order_of_the_file():
    """Whatever programs give them: those of one estimator come together."""
    names = ["plain", "digital", "square", "above"]
    observe = dict(zip(names, ["S", "where(S > 100, 1, 0)", "S**2", "where(S > 90, 1, 0)"], strict=True))
    experiment = {**EXACT, "observe": observe, "sensitivity": {"wrt": ["S"]}}
    result = simkit.sensitivity(experiment, overrides={"ensemble.paths": 64})
    assert result.attrs["quantities"].split() == names
    reverse = {**experiment, "sensitivity": {"wrt": ["S"], "of": names[::-1]}}
    result = simkit.sensitivity(reverse, overrides={"ensemble.paths": 64})
    assert result.attrs["quantities"].split() == names[::-1]


def test_bad_names_are_shown_as_they_were_given(tmp_path):
    with pytest.raises(InputError, match=r"(?m)^wrt: unknown name 'sgima'"):
        simkit.sensitivity(EXACT, "sgima")
    (tmp_path / "e.yaml").write_text(json.dumps(EXACT | {"output": "e.zarr"}))
    outcome = CliRunner().invoke(app, ["sensitivity", str(tmp_path / "e.yaml"), "--wrt", "sgima"])
    assert outcome.exit_code == 2
    assert "\n--wrt: unknown name 'sgima'" in outcome.stderr


def test_a_method_that_would_be_wrong_is_placed_in_the_file(tmp_path):
    file = tmp_path / "digital.yaml"
    file.write_text(
        "model: {type: GBM, mu: 0.05, sigma: 0.2}\ninitial: {S: 100}\ntime: {t1: 1, steps: 4}\n"
        "observe: {digital: S > 100}\nsensitivity: {wrt: [S], method: pathwise}\n"
    )
    with pytest.raises(
        InputError, match=r"digital.yaml:5:33: sensitivity.method: the pathwise derivative of"
    ):
        simkit.sensitivity(file)


def test_a_curve_has_no_single_number_to_move():
    curved = {**EXACT, "solver": "EulerMaruyama", "time": {"t1": 1.0, "steps": 4}}
    curved["curves"] = {"vol": {"times": [0, 1], "values": [0.1, 0.3]}}
    curved["model"] = {"type": "GBM", "mu": "r", "sigma": "vol"}
    with pytest.raises(InputError, match="sigma changes with time; use the constants"):
        load(curved)
