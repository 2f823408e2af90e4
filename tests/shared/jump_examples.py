"""A jump diffusion whose intensity depends on the state, and words of its steps."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from simkit_solvers import AbstractJumpDiffusion, NormalMarks, Scalar, StepWords, Words, parameter
from solver_problems import Level, OneNoise


def some_words() -> StepWords:
    return StepWords(Words(*jnp.uint32([1, 2])), jnp.uint32(0), jnp.uint32(0))


def random_words(count: int, seed: int = 0) -> StepWords:
    zeros = jnp.zeros(count, jnp.uint32)
    key = jnp.asarray(np.random.default_rng(seed).integers(2**32, size=(2, count), dtype=np.uint32))
    return StepWords(Words(*key), zeros, zeros)


class Shots(AbstractJumpDiffusion):
    """Decay, and jumps of 1/2 upwards that come more often the higher it is."""

    State = Level
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "additive"
    example: ClassVar[dict[str, float]] = {"a": 3.0, "base": 1.0, "rise": 0.8}

    a: Scalar = parameter("1", "decay")
    base: Scalar = parameter("1", "intensity at zero")
    rise: Scalar = parameter("1", "what a unit adds to it")

    def drift(self, t, y):
        return Level(-self.a * y.x)

    def noise(self, t, y, dW):
        return Level(0.0 * dW.W)

    def intensity(self, t, y):
        return self.base + self.rise * y.x

    def marks(self, t):
        return NormalMarks(0.5, 0.0)

    def jump(self, t, y, z):
        return Level(y.x + z)
