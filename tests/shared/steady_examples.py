"""Experiments whose steady states are known, and what is said of them as plain data."""

from typing import Any

import numpy as np

import simkit
from simkit.steady_states.table import summary

TIME = {"t1": 1.0, "steps": 10}
DOUBLE_WELL = {
    "model": {"sde": {"x": {"drift": "a*x - x**3", "noise": {"W": 0.3}}}, "parameters": {"a": 1.0}},
    "initial": {"x": 0.1},
    "time": TIME,
}
LORENZ = {
    "model": {"type": "Lorenz63", "sigma": 10.0, "rho": 14.0, "beta": 2.5},
    "initial": {"x": 1.0, "y": 1.0, "z": 1.0},
    "time": TIME,
    "observe": {"r": "x**2 + beta*y", "largest": "max(x)"},
}
ISOMERS = {
    "model": {
        "reactions": {
            "there": {"equation": "A -> B", "rate": "k"},
            "back": {"equation": "B -> A", "rate": "q"},
        },
        "parameters": {"k": 2.0, "q": 0.5},
    },
    "initial": {"A": 10, "B": 1},
    "time": {"t1": 1.0},
}


def ode(drifts: dict[str, Any], initial: dict[str, float], **parameters: float) -> dict[str, Any]:
    """An experiment of an ordinary equation in the file."""
    return {"model": {"ode": drifts, "parameters": parameters}, "initial": initial, "time": TIME}


def states_of(source: Any, wrt: Any = None, **settings: Any) -> list[dict[str, Any]]:
    """The steady states of an experiment as plain data."""
    return summary(simkit.steady(source, wrt, **settings))["steady_states"]


def numbers(state: dict[str, Any], key: str = "value") -> dict[str, float]:
    """A figure of each variable and observable of a steady state."""
    return {name: each[key] for name, each in state["values"].items() if key in each}


def assert_within_errors(state: dict[str, Any], exact: dict[str, float], worst: float = 1e-12) -> None:
    """Each value is as near to the exact one as its error says, and the error is small."""
    for name, value in exact.items():
        own = state["values"][name]
        assert abs(own["value"] - value) <= own["error"] + 1e-300, (name, own, value)
        assert own["error"] <= worst * max(abs(value), 1.0), (name, own)


class Linear:
    """A y + b as rates of change, in numpy."""

    def __init__(self, matrix: np.ndarray, constant: np.ndarray):
        self.matrix, self.constant = matrix, constant
        self.names = tuple(f"y{i}" for i in range(len(constant)))
        self.least = np.full(len(constant), -np.inf)

    def __call__(self, y):
        return self.matrix @ y + self.constant

    def each(self, states):
        return states @ self.matrix.T + self.constant

    def jacobian(self, y):
        return self.matrix

    def rounding(self, y):
        return 2**-52 * (abs(self.matrix) @ abs(y) + abs(self.constant))
