"""Experiments of particles that several tests change, their mistakes, and sums over pairs in plain NumPy."""

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest

from simkit import InputError
from simkit.md.experiment import load_particles

FLUID: dict[str, Any] = {
    "system": {
        "lattice": {"type": "fcc", "cells": 3, "density": 0.8},
        "velocities": {"temperature": 1.2},
    },
    "potential": {"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": 2.0},
    "time": {"dt": 0.004, "steps": 40},
    "ensemble": {"seed": 4},
    "save": {"every": 10},
}
MIXTURE = {"A": {"fraction": 0.75}, "B": {}}  # as species


def fluid(**changes: Any) -> dict[str, Any]:
    """The fluid with some sections changed; a key such as `time__steps` is one inside a section."""
    experiment = copy.deepcopy(FLUID)
    for key, value in changes.items():
        *sections, last = key.split("__")
        place = experiment
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return experiment


def problems(experiment, overrides=()) -> list[str]:
    """What is reported of an experiment with mistakes."""
    with pytest.raises(InputError) as caught:
        load_particles(experiment, overrides)
    return caught.value.problems


def lennard_jones(r2, epsilon, sigma):
    """Energy and r times the force of a pair."""
    s6 = (sigma**2 / r2) ** 3
    return 4 * epsilon * (s6 * s6 - s6), 24 * epsilon * (2 * s6 * s6 - s6)


def pair_sum(positions, vectors, cutoff, pair):
    """Energy, forces and virial tensor by a loop over all pairs and images; `pair(r2, i, j)` for each."""
    count, reach = len(positions), range(-2, 3)
    images = [np.array(shift) @ vectors for shift in product(reach, repeat=3)]
    energy, forces, virial = 0.0, np.zeros((count, 3)), np.zeros((3, 3))
    for i in range(count):
        for shift in images:
            d = positions[i] - positions - shift
            r2 = np.sum(d * d, axis=1)
            near = np.flatnonzero((r2 < np.broadcast_to(cutoff, (count, count))[i] ** 2) & (r2 > 0))
            u, rf = pair(r2[near], i, near)
            f = (rf / r2[near])[:, None] * d[near]
            energy += 0.5 * np.sum(u)
            forces[i] += f.sum(0)
            virial += 0.5 * d[near].T @ f
    return energy, forces, virial
