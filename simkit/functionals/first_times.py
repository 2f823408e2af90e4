"""`first(x, c)` and `hitting_time(c)`: when a condition first holds along a path, and a value then."""

import jax.numpy as jnp

from simkit.functionals.functional import AbstractFunctional, Moment


class AbstractFirst(AbstractFunctional):
    """Keeps whether its condition has not held yet, 1 or 0, and what the value was when it first did."""

    conditional = True
    clocks = ("steps", "events", "ordinary")
    order = 0.5  # late by the part of a step in which noise moves on
    kink = None
    keeps_unit = True

    def begin(self, at):
        x = at(self.argument)
        return self._first((jnp.ones_like(x), jnp.zeros_like(x)), at)

    def add(self, state, at):
        return self._first(state, at)

    def held(self, state, at):
        return _first(state, at(self.argument), True)

    def _first(self, state: tuple, at: Moment) -> tuple:
        return _first(state, at(self.argument), at.holds(self.condition))


class First(AbstractFirst):
    """x when the condition first holds, and 0 before."""

    name = "first"
    summary = (
        "first(x, c), x when the condition c first holds along the path, t0 included, and 0 before; in "
        "observables"
    )
    takes = 2
    unmet = "0"

    def value(self, state, at):
        return state[1]

    @staticmethod
    def bounds(*arguments, time):
        low, high = arguments[0]
        return min(low, 0.0), max(high, 0.0)


class HittingTime(AbstractFirst):
    """The time when the condition first holds, and t before, so that its mean is that of the stopped time."""

    name = "hitting_time"
    summary = (
        "hitting_time(c), when the condition c first holds along the path, t0 included, and t before; in "
        "observables"
    )
    of_time = True
    unmet = "the time of the end"
    keeps_start = False

    def value(self, state, at):
        return jnp.where(state[0] > 0, at(self.argument), state[1])

    @staticmethod
    def bounds(*arguments, time):
        return time


def _first(state: tuple, x, holds) -> tuple:
    waits, first = state
    now = (waits > 0) & jnp.asarray(holds, bool)
    return jnp.where(now, 0.0, waits), jnp.where(now, x, first)
