"""`max(x)` and `min(x)`: the largest and the smallest value along a path."""

from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp

from simkit.functionals.functional import AbstractFunctional


class AbstractExtreme(AbstractFunctional):
    """The `furthest` value at t0 and the monitored steps, before and after all that changes at once."""

    clocks = ("steps", "events")
    kink = "extreme"
    keeps_unit = True
    furthest: ClassVar[Callable]  # of two values

    def begin(self, at):
        return (at(self.argument),)

    def add(self, state, at):
        return (self.furthest(state[0], at(self.argument)),)

    @staticmethod
    def bounds(*arguments, time):
        return arguments[0]


class Max(AbstractExtreme):
    """The largest value."""

    name = "max"
    summary = "max(x), largest value along the path, t0 included; in observables"
    of_two_numbers = "maximum(a, b)"
    furthest = staticmethod(jnp.maximum)


class Min(AbstractExtreme):
    """The smallest value."""

    name = "min"
    summary = "min(x), smallest value along the path, t0 included; in observables"
    of_two_numbers = "minimum(a, b)"
    furthest = staticmethod(jnp.minimum)
