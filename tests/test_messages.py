"""What newcomers do wrong gives one message each, which says what to do."""

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import GBM

from simkit.build import build
from simkit.errors import InputError, OutputError
from simkit.experiment import load

TIME = {"t1": 1.0, "steps": 4}
PRICE = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}, "time": TIME}
REST = "initial: {S: 100}\ntime: {t1: 1, steps: 4}\n"
HESTON = {"type": "Heston", "mu": 0, "kappa": 1, "theta": 0.04, "xi": 0.3, "rho": -0.5}
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
        ["<text>:1:18: model.ode.S: names are in plain letters: spell α out as alpha, found at column 2"],
    ),
    "another type": (
        3,
        ["an experiment is the path of a YAML file, its text or a dictionary, not a value of type int"],
    ),
    "a solver that nobody named": (
        {"model": HESTON, "initial": {"S": 100, "v": 0.04}, "time": {"t1": 1, "rtol": 1e-3, "atol": 1e-4}},
        [
            "solver: Milstein is what rtol and atol mean without a solver: solver Milstein is for additive, "
            "scalar, diagonal or commutative noise, Heston has general noise; take EulerMaruyama with steps "
            "of equal length"
        ],
    ),
    "a model as an object": (
        PRICE | {"model": GBM(0.05, 0.2)},
        [
            "model: must be a number, text, list or dict, got a value of type GBM; give it by name: "
            "{type: GBM, ...}"
        ],
    ),
    "a solver as an object": (
        PRICE | {"solver": diffrax.Euler()},
        [
            "solver: must be a number, text, list or dict, got a value of type Euler; give it by name: "
            "{type: Euler, ...}"
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_named_once(name):
    source, lines = CASES[name]
    with pytest.raises(InputError) as caught:
        load(source)
    assert caught.value.problems == lines


def test_an_override_from_python_is_not_called_an_option():
    with pytest.raises(InputError, match=r"^override model\.sigm: unknown parameter of GBM"):
        load(PRICE, {"model.sigm": 0.3})
    with pytest.raises(InputError, match=r"^--set model\.sigm: unknown parameter of GBM"):
        load(PRICE, ["model.sigm=0.3"])


def test_a_missing_file_is_what_python_calls_one():
    with pytest.raises(FileNotFoundError, match=r"^missing\.yaml: no such file"):
        load("missing.yaml")
    with pytest.raises(OutputError):
        load("missing.yaml")


@pytest.mark.parametrize("number", [jnp.float32(0.5), jnp.asarray(0.5), np.array(0.5), np.float32(0.5)])
def test_a_single_number_in_an_array_is_a_number(number):
    problem = build(load(PRICE | {"model": {"type": "GBM", "mu": number, "sigma": 0.2}})).problem
    assert problem.mu == 0.5  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InputError, match=r"model\.mu: must be a number, text, list or dict"):
        load(PRICE | {"model": {"type": "GBM", "mu": jnp.zeros(2), "sigma": 0.2}})
