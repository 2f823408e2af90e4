"""Experiments with events that a condition triggers, and runs in which to have others."""

import pytest

BALL = {
    "constants": {"h0": 1.0, "g": 9.81, "kept": 0.8},
    "model": {"ode": {"h": "v", "v": "-g"}},
    "initial": {"h": "h0", "v": 0.0},
    "time": {"t1": 1.5, "rtol": 1e-9, "atol": 1e-9},
    "precision": "float64",
    "save": {"points": 30},
    "events": {"bounce": {"when": "h < 0", "set": {"h": 0, "v": "-kept*v"}}},
}
HARVEST = {
    "model": {"reactions": {"birth": {"equation": "0 -> X", "rate": "k"}}, "parameters": {"k": 10.0}},
    "initial": {"X": 0},
    "time": {"t1": 4.0},
    "save": {"points": 4},
    "ensemble": {"paths": 4000, "seed": 5, "devices": 1},
    "events": {"harvest": {"when": "X >= 20", "set": {"X": 0}}},
}
DRIFT = {
    "model": {"sde": {"x": {"drift": 1.0, "noise": {"W": "s"}}}, "parameters": {"s": 0.4}},
    "initial": {"x": 0.0},
    "time": {"t1": 4.0, "steps": 200},
    "precision": "float64",
    "ensemble": {"paths": 32, "seed": 2, "devices": 1},
    "save": {"points": 200, "paths": "all"},
}
ENGINES = {
    "steps": DRIFT | {"model": {"sde": {"x": {"drift": 10.0, "noise": {"W": 0.0}}, "n": {"drift": 0.0}}}},
    "tolerances": {
        "model": {"ode": {"x": 10.0, "n": 0.0}},
        "time": {"t1": 4.0, "rtol": 1e-6, "atol": 1e-6},
    },
    "events": {
        "model": {
            "reactions": {
                "x": {"equation": "0 -> x", "rate": 10.0},
                "n": {"equation": "0 -> n", "propensity": 0.0},
            }
        },
        "time": {"t1": 4.0},
        "ensemble": {"paths": 64, "devices": 1},
    },
}
RESET = {"events": {"reset": {"when": "x > 1", "set": {"x": "x - 1"}}}}


def more(*values):
    return [pytest.param(value, marks=pytest.mark.more) for value in values]


SOLVERS = ["DirectMethod", *more("NextReaction", "CommonReactionPaths")]
