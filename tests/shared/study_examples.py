"""Functions whose Sobol' indices are known, what a study says of them, and uncertain experiments."""

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
NOISY = """\
constants:
  theta: {normal: {mean: 1, sd: 0.5}}
  k: {uniform: [1, 3]}
  spare: {uniform: [0, 1]}
model: {sde: {x: {drift: theta, noise: {W: 0.5}}}}
initial: {x: 0}
solver: EulerMaruyama
time: {t1: 1, steps: 4}
observe: {y: k*x, fixed: 2 + 0*x, z: x}
uncertainty: {points: 128, replicates: 4, paths: 4, seed: 3}
"""
GROWTH = """\
model: {ode: {x: mu*x}, parameters: {mu: {normal: [0.3, 0.2]}}}
initial: {x: 1}
time: {t1: 1, steps: 8}
uncertainty: {method: propagate, points: 1024}
"""


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
