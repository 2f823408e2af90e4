"""Experiments with derivatives, one derivative and its estimator, and the programs of a study."""

import jax
import numpy as np
import pytest

from simkit import load, sensitivity
from simkit.derivatives import find_target, study
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.offers import first_offer, second_offer
from simkit.derivatives.table import summary

LIMIT = 4.0  # in standard errors
EXACT = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "ensemble": {"paths": 2**17, "seed": 5},
    "observe": {
        "call": "exp(-r*t) * maximum(S - K, 0)",
        "digital": "exp(-r*t) * (S > K)",
    },
    "sensitivity": {"wrt": ["S", "sigma", "r"], "second": ["S", ["S", "sigma"]], "of": ["call", "digital"]},
}
STEPS = {
    **EXACT,
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 50},
    "ensemble": {"paths": 2**15, "seed": 1},
    "observe": {"digital": "exp(-r*t) * (S > K)"},
    "sensitivity": {"wrt": ["S", "sigma", "r"], "of": ["digital"]},
}
FEW_STEPS = {
    **EXACT,
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 2048, "seed": 1, "devices": 1},
    "observe": {**EXACT["observe"], "square": "S**2"},
    "sensitivity": {"wrt": ["S", "sigma", "r"], "second": ["S"]},
}
ARRIVALS = {
    "constants": {"T": 1.0, "alpha": 0.0},
    "model": {"type": "ImmigrationDeath", "alpha": "alpha", "mu": 1.0},
    "initial": {"X": 0},
    "time": {"t1": "T"},
    "ensemble": {"paths": 2**12, "seed": 1, "devices": 1},
    "observe": {"count": "X", "many": "X > 2"},
}


def last(result, name):
    """The figure at the end."""
    return float(np.atleast_1d(result[name].values.squeeze())[-1])


def rows(dataset):
    """The figures of all derivatives by quantity and what they are with respect to."""
    each = summary(dataset)["quantities"].items()
    return {(name, label): row for name, content in each for label, row in content["derivatives"].items()}


def derivative(experiment, wrt, of, kind="derivative", **section):
    """Mean, standard error, estimator and reason of one derivative, or one second derivative."""
    second = {"second": [wrt]} if kind == "second" else {}
    result = sensitivity({**experiment, "sensitivity": {"wrt": [wrt], "of": [of], **second, **section}})
    texts = (result[f"{of}_{kind}_{part}"].values.item() for part in ("estimator", "reason"))
    return last(result, f"{of}_{kind}"), last(result, f"{of}_{kind}_stderr"), *texts


def run_of(experiment, wrt):
    """The run of an experiment with one target."""
    simulation = load({**experiment, "sensitivity": {"wrt": [wrt]}})
    return DifferentiatedRun.of(simulation, [find_target(simulation, wrt)])


def first_choice(experiment, wrt, quantity):
    """The estimator of a derivative."""
    with jax.enable_x64(True):
        return first_offer(run_of(experiment, wrt), quantity, 0).rivals[0]


def second_choice(experiment, wrt, quantity):
    """The estimator of a second derivative."""
    with jax.enable_x64(True):
        return second_offer(run_of(experiment, wrt), quantity, (0, 0)).rivals[0]


class InterceptedError(Exception):
    """The programs of a study, in place of its results."""


def requests_of_study(experiment, overrides=()):
    """The programs that a study of derivatives requests, which are not compiled."""

    def intercept(*requests):
        raise InterceptedError(requests)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "compiled", intercept)
        with pytest.raises(InterceptedError) as raised:
            sensitivity(experiment, overrides=overrides)
    return raised.value.args[0]
