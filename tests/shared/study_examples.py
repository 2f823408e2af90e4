"""Functions whose Sobol' indices are known, and what a study says of them."""

import math

import jax.numpy as jnp
import numpy as np

from simkit.distributions import Uniform
from simkit.studies.methods import Sobol

PI = math.pi
ISHIGAMI = {
    "first": [0.3139051911, 0.4424111448, 0.0],
    "total": [0.5575888552, 0.4424111448, 0.2436836641],
    "pair": 0.2436836641,
    "nu": [7.719588, 24.5, 10.987305],
}
CUBE = [{"uniform": [-PI, PI]}] * 3


def ishigami(x):
    return jnp.sin(x[0]) + 7 * jnp.sin(x[1]) ** 2 + 0.1 * x[2] ** 4 * jnp.sin(x[0])


def on_numpy(x):
    """Ishigami's function on arrays of points."""
    return np.sin(x[..., 0]) + 7 * np.sin(x[..., 1]) ** 2 + 0.1 * x[..., 2] ** 4 * np.sin(x[..., 0])


def within_three(dataset, name, exact, least=0.0):
    """Whether each value lies within three of the reported half-widths, or `least`, of the exact one."""
    off = np.abs(dataset[name].values[0] - np.asarray(exact))
    return np.all(off <= np.maximum(3 * dataset[f"{name}_halfwidth"].values[0], least))


def method(function_dimension, groups=None, **options):
    distributions = {f"x{i}": Uniform(-PI, PI) for i in range(function_dimension)}
    return Sobol(distributions, groups or {name: [i] for i, name in enumerate(distributions)}, **options)
