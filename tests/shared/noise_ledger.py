"""A noise's draws, and a record of the words that it takes for them."""

import random

import jax.numpy as jnp
import pytest
import simkit_solvers.random.noise
from simkit_solvers import AbstractNoise, Words


class Ledger:
    """Stands in for the generator: numbers instead of words, and a record of every use."""

    def __init__(self):
        self.blocks, self.words = [], []

    def block(self, key, group, component_block):
        self.blocks.append((key, int(group), int(component_block)))
        a, b = (random.Random(repr((self.blocks[-1], half))).gauss(0, 1) for half in (0, 1))
        return Words(a, b)

    def normal(self, word):
        self.words.append(word)
        return word

    def wide_normal(self, words):
        return self.normal(words.a)

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(simkit_solvers.random.noise, "block", self.block)
        self.patch.setattr(simkit_solvers.random.noise, "standard_normal", self.normal)
        self.patch.setattr(simkit_solvers.random.noise, "standard_normal_float64", self.wide_normal)
        return self

    def __exit__(self, *_):
        self.patch.undo()


def draws(noise: AbstractNoise, components, areas, first, count):
    """The draws of `count` steps from any step, of which `noise` gives only those that start a group."""
    late = first % noise.group(components)
    return noise.draws(components, areas, jnp.uint32(first - late), late + count)[late:]
