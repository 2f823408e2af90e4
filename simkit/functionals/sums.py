"""`mean(x)` and `integral(x)`: averages and integrals along a path."""

import jax.numpy as jnp

from simkit.functionals.functional import AbstractFunctional


class Mean(AbstractFunctional):
    """The average over the monitored steps, t0 excluded; before the first of them the present value.

    Where x changes at once it has the value after. In float32 the sum is compensated.
    """

    name = "mean"
    summary = "mean(x), average along the path over the ends of steps, t0 excluded; in observables"
    monotone = True
    keeps_unit = True
    not_on_events = (
        "averages over the ends of steps, and events have no common times; divide integral(…) by the time"
    )
    sees_start = False
    sees_both = False
    kink = None
    keeps_start = False

    def begin(self, at):
        return (_empty_sum(at.dtype),)

    def add(self, state, at):
        return (_added(state[0], at(self.argument)),)

    def change(self, state, before, after):
        return (_added(state[0], after(self.argument) - before(self.argument)),)

    def value(self, state, at):
        count, present = at.count, at(self.argument)
        average = sum(state[0]) / jnp.maximum(count, jnp.uint32(1)).astype(at.dtype)
        return jnp.where(count > 0, average, present)

    @staticmethod
    def bounds(*arguments, time):
        return arguments[0]


class Integral(AbstractFunctional):
    """The integral over time from t0, by the trapezoidal rule.

    Where x changes at once, it goes up to the one value and on from the other. In float32 the sum is
    compensated.
    """

    name = "integral"
    summary = "integral(x), over time from t0 by the trapezoidal rule; in observables"
    monotone = True
    clocks = ("steps", "events")
    order = 2.0
    kink = None

    def begin(self, at):
        return _empty_sum(at.dtype), at(self.argument)

    def add(self, state, at):
        total, previous = state
        x = at(self.argument)
        return _added(total, 0.5 * (previous + x) * at.interval), x

    def change(self, state, before, after):
        return state[0], after(self.argument)

    def value(self, state, at):
        return sum(state[0])


def _empty_sum(dtype) -> tuple:
    """A sum of nothing: its value, and in float32 also the rounding error of the sum so far.

    Float64 holds without over any number of steps, and each number carried through the loop costs time.
    """
    zero = jnp.zeros((), dtype)
    return (zero,) if dtype == jnp.float64 else (zero, zero)


def _added(parts: tuple, x) -> tuple:
    """The sum with one more term. What rounding takes is brought back by the next term (Kahan, Knuth)."""
    if len(parts) == 1:
        return (parts[0] + x,)
    total, lost = parts
    x = x + lost
    new = total + x
    added = new - total
    return new, (total - (new - added)) + (x - added)
