"""A class that lacks a member of a model is an error of the input, with what is missing and what is meant."""

from unittest import mock

import pytest
from simkit_physics import MODELS
from simkit_solvers import AbstractODE, AbstractReactionNetwork, AbstractSDE, Scalar, parameter, reaction
from solver_problems import PairNoise, PairState

import simkit
from simkit import InputError

KINDS = "additive, scalar, diagonal, commutative, general"


def drift(self, t, y):
    return y


def noise(self, t, y, dW):
    return PairState(dW.W1, dW.W2)


def rates(self, t, y):
    return (self.rate,)


SDE = {
    "State": PairState,
    "Noise": PairNoise,
    "calculus": "any",
    "noise_kind": "additive",
    "drift": drift,
    "noise": noise,
}
NETWORK = {"State": PairState, "reactions": {"decay": reaction("x -> 0")}, "rates": rates}
DECAY = 'a dict of reactions, such as {"decay": reaction("X -> 0")}'


@pytest.mark.parametrize(
    ("base", "whole", "renamed", "messages"),
    [
        (AbstractODE, SDE, {"drift": None}, ["drift(self, t, y)"]),
        (AbstractODE, SDE, {"drift": "drfit"}, ["drift(self, t, y); did you mean 'drfit'?"]),
        (AbstractODE, SDE, {"State": None}, ["State; it is the NamedTuple class of its variables"]),
        (AbstractSDE, SDE, {"State": "state"}, ["State; did you mean 'state'?"]),
        (AbstractSDE, SDE, {"noise_kind": None}, [f"noise_kind; it is one of {KINDS}"]),
        (AbstractSDE, SDE, {"noise_kind": "noisekind"}, ["noise_kind; did you mean 'noisekind'?"]),
        (
            AbstractSDE,
            SDE,
            {"Noise": None, "calculus": None, "noise": "noises", "noise_kind": None},
            [
                "Noise; it is the NamedTuple class of its noises",
                "calculus; it is one of ito, stratonovich, any",
                "noise(self, t, y, dW); did you mean 'noises'?",
                f"noise_kind; it is one of {KINDS}",
            ],
        ),
        (
            AbstractReactionNetwork,
            NETWORK,
            {"rates": "rate_of"},
            ["rates(self, t, y); did you mean 'rate_of'?"],
        ),
        (AbstractReactionNetwork, NETWORK, {"reactions": None}, [f"reactions; it is {DECAY}"]),
    ],
)
def test_what_a_class_lacks_is_said_with_what_it_may_be(base, whole, renamed, messages):
    """In a run, with every solver or none."""
    members = {renamed.get(name, name): value for name, value in whole.items()}
    members.pop(None, None)
    members |= {"rate": parameter("1/time", "rate"), "__annotations__": {"rate": Scalar}}
    own = type("Own", (base,), members | {"__module__": __name__})
    experiment = {
        "model": {"type": "Own", "rate": 1.0},
        "initial": {"x": 1.0, "v": 0.0},
        "time": {"t1": 1.0, "steps": 4},
    }
    with mock.patch.dict(MODELS, {"Own": own}):
        for solver in ({}, {"solver": {"type": "EulerMaruyama"}}, {"solver": {"type": "Tsit5"}}):
            with pytest.raises(InputError) as caught:
                simkit.run(experiment | solver)
            assert caught.value.problems == [f"model.type: Own has no {message}" for message in messages]


@pytest.mark.parametrize("name", ["State", "Noise"])
def test_variables_and_noises_are_those_of_a_named_tuple(name):
    own = type("Own", (AbstractSDE,), SDE | {name: {"x": 1.0}, "__module__": __name__})
    with mock.patch.dict(MODELS, {"Own": own}), pytest.raises(InputError) as caught:
        simkit.run(
            {"model": {"type": "Own"}, "initial": {"x": 1.0, "v": 0.0}, "time": {"t1": 1.0, "steps": 4}}
        )
    wanted = f"the NamedTuple class of its {'variables' if name == 'State' else 'noises'}"
    assert caught.value.problems == [f"model.type: Own.{name}: must be {wanted}, got a mapping"]
