"""A stochastic equation whose state has the Brownian motion in it, for its exact solution on each path."""

from typing import NamedTuple

import numpy as np
from simkit_solvers import AbstractSDE, Scalar
from solver_problems import OneNoise


class TrackedState(NamedTuple):
    x: Scalar
    w: Scalar
    a: Scalar


class TrackedGBM(AbstractSDE):
    """dX = mu X dt + sigma X dW, with W itself and its integral over time."""

    State = TrackedState
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "scalar"

    mu: Scalar = 1.01
    sigma: Scalar = 0.87

    def drift(self, t, y):
        return TrackedState(self.mu * y.x, 0.0, y.w)

    def noise(self, t, y, dW):
        return TrackedState(self.sigma * y.x * dW.W, dW.W, 0.0)

    def exact(self, x0, t, w):
        return x0 * np.exp((self.mu - self.sigma**2 / 2) * t + self.sigma * w)
