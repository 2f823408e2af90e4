"""The largest and the smallest value along a path."""

import jax.numpy as jnp

from simkit.functionals.functional import AbstractFunctional


class Max(AbstractFunctional):
    """The largest value at t0 and the monitored steps, before and after all that changes at once."""

    name = "max"
    summary = "max(x), largest value along the path, t0 included; in observables"
    of_two_numbers = "maximum(a, b)"
    clocks = ("steps", "events")
    kink = "extreme"

    def begin(self, at):
        return (at(self.argument),)

    def add(self, state, at):
        return (jnp.maximum(state[0], at(self.argument)),)

    @staticmethod
    def bounds(*arguments, time):
        return arguments[0]


class Min(AbstractFunctional):
    """The smallest value at t0 and the monitored steps, before and after all that changes at once."""

    name = "min"
    summary = "min(x), smallest value along the path, t0 included; in observables"
    of_two_numbers = "minimum(a, b)"
    clocks = ("steps", "events")
    kink = "extreme"

    def begin(self, at):
        return (at(self.argument),)

    def add(self, state, at):
        return (jnp.minimum(state[0], at(self.argument)),)

    @staticmethod
    def bounds(*arguments, time):
        return arguments[0]
