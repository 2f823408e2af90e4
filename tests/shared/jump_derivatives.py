"""Immigration and death, by whose parameters jump processes are differentiated, and a test of estimates."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from simkit_physics import ImmigrationDeath
from simkit_solvers import Direction, seed_key

LIMIT = 4  # in standard errors
KEY = seed_key(3)
PATHS = 8192
START, POINTS, END = 5, 2, 2.0
RATES = {"alpha": 20.0, "mu": 1.0}


def made(model: Any, numbers) -> Any:
    """The model with these numbers as its parameters."""
    return model(**{name: jnp.asarray(x) for name, x in numbers.items()})


def unit(model, name):
    """The direction of one parameter."""
    return Direction(made(model, {each: float(each == name) for each in model.example}))


DIRECTIONS = tuple(unit(ImmigrationDeath, name) for name in RATES)


def assert_near(estimate, error, wanted, limit=LIMIT):
    z = (np.asarray(estimate) - wanted) / np.maximum(np.asarray(error), 1e-12)
    assert np.abs(z).max() < limit, z
