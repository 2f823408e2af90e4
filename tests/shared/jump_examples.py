"""A jump diffusion whose intensity depends on the state, and words of its steps."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from simkit_solvers import AbstractJumpDiffusion, NormalMarks, Scalar, StepWords, Words, parameter


def some_words():
    return StepWords(Words(*jnp.uint32([1, 2])), jnp.uint32(0), jnp.uint32(0))


class ShotState(NamedTuple):
    x: Scalar


class ShotNoise(NamedTuple):
    W: Scalar


class Shots(AbstractJumpDiffusion):
    """Decay, and jumps of 1/2 upwards that come more often the higher it is."""

    State = ShotState
    Noise = ShotNoise
    calculus = "ito"
    noise_kind = "additive"
    example: ClassVar[dict[str, float]] = {"a": 3.0, "base": 1.0, "rise": 0.8}

    a: Scalar = parameter("1", "decay")
    base: Scalar = parameter("1", "intensity at zero")
    rise: Scalar = parameter("1", "what a unit adds to it")

    def drift(self, t, y):
        return ShotState(-self.a * y.x)

    def noise(self, t, y, dW):
        return ShotState(0.0 * dW.W)

    def intensity(self, t, y):
        return self.base + self.rise * y.x

    def marks(self, t):
        return NormalMarks(0.5, 0.0)

    def jump(self, t, y, z):
        return ShotState(y.x + z)
