"""The accumulators of path functionals: what each keeps along a path, and its value so far."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from simkit.expressions.expression import CONDITIONAL, Expression, Functional

OVER_TIME = ("integral", "no_touch")  # which approximate what takes no notice of steps


@dataclasses.dataclass(frozen=True)
class Monitor:
    """One path functional at every `every`-th step. Observables that agree in both share the accumulator.

    The functional `at` has a `date` instead, the number of a step, from 0.
    """

    functional: Functional
    every: int = 1
    date: int | None = None

    @property
    def interval(self) -> int:
        """Its steps are among the multiples of this."""
        return self.every if self.date is None else self.date

    def begun(self, values, dtype) -> tuple:
        """What it keeps at t0."""
        x = value_of(self.functional.argument, values, dtype)
        match self.functional.kind:
            case "mean":
                return (_empty_sum(dtype),)
            case "integral":
                return _empty_sum(dtype), x
            case "no_touch":
                above = jnp.where(x > 0, jnp.ones_like(x), jnp.zeros_like(x))
                return above, x, self._second(values, dtype)
            case "first" | "hitting_time":
                return self._met((jnp.ones_like(x), jnp.zeros_like(x)), x, values)
            case _:
                return (x,)

    def updated(self, kept: tuple, k, values, dt, dtype) -> tuple:
        """What it keeps after step `k`."""
        x = value_of(self.functional.argument, values, dtype)
        return self._where_due(self._monitored(kept, x, values, dt, dtype), kept, k)

    def _monitored(self, kept: tuple, x, values, dt, dtype) -> tuple:
        """What it keeps after one more monitored value."""
        match self.functional.kind:
            case "mean":
                return (_added(kept[0], x),)
            case "max":
                return (jnp.maximum(kept[0], x),)
            case "min":
                return (jnp.minimum(kept[0], x),)
            case "integral":
                total, previous = kept
                return _added(total, 0.5 * (previous + x) * (self.every * dt)), x
            case "no_touch":
                alive, previous, volatility = kept
                missed = _untouched(previous, x, volatility**2 * (self.every * dt))
                return alive * missed, x, self._second(values, dtype)
            case "first" | "hitting_time":
                return self._met(kept, x, values)
            case "at":
                return (x,)

    def changed(self, kept: tuple, k, then, now, dtype) -> tuple:
        """What it keeps where the values change at once, at the end of step `k`."""
        x = value_of(self.functional.argument, now, dtype)
        match self.functional.kind:
            case "mean":
                new: tuple = (_added(kept[0], x - value_of(self.functional.argument, then, dtype)),)
            case "integral":
                new = (kept[0], x)
            case "no_touch":
                new = (jnp.where(x > 0, kept[0], 0.0), x, self._second(now, dtype))
            case _:
                new = self._monitored(kept, x, now, None, dtype)
        return self._where_due(new, kept, k)

    def value(self, kept: tuple, k, values, dtype):
        """The functional's value so far, after step `k`."""
        match self.functional.kind:
            case "mean":
                count = k // jnp.uint32(self.every)
                present = value_of(self.functional.argument, values, dtype)
                average = sum(kept[0]) / jnp.maximum(count, jnp.uint32(1)).astype(dtype)
                return jnp.where(count > 0, average, present)
            case "integral":
                return sum(kept[0])
            case "first":
                return kept[1]
            case "hitting_time":
                return jnp.where(kept[0] > 0, value_of(self.functional.argument, values, dtype), kept[1])
            case _:
                return kept[0]

    def _where_due(self, new: tuple, kept: tuple, k) -> tuple:
        """The new where a step is monitored, and otherwise what was kept."""
        if self.date is not None:
            due = k <= jnp.uint32(self.date)
        elif self.every > 1:
            due = k % jnp.uint32(self.every) == 0
        else:
            return new
        return jax.tree.map(lambda a, b: jnp.where(due, a, b), new, kept)

    @property
    def awaits(self) -> Expression | None:
        """The condition whose first time it is about."""
        return self.functional.arguments[-1] if self.functional.kind in CONDITIONAL else None

    def held(self, kept: tuple, values, dtype) -> tuple:
        """What it keeps once its condition holds."""
        return self._first(kept, value_of(self.functional.argument, values, dtype), True)

    def _met(self, kept: tuple, x, values) -> tuple:
        """Whether the condition has not held yet, 1 or 0, and what the value was when it first did."""
        return self._first(kept, x, self.functional.arguments[-1](values))

    def _first(self, kept: tuple, x, holds) -> tuple:
        waits, first = kept
        now = (waits > 0) & jnp.asarray(holds, bool)
        return jnp.where(now, 0.0, waits), jnp.where(now, x, first)

    def _second(self, values, dtype):
        return value_of(self.functional.arguments[1], values, dtype)


def value_of(expression: Expression, values, dtype) -> Any:
    """The value of an expression, as an array."""
    return jnp.asarray(expression(values), dtype)


def _untouched(a, b, variance):
    """The probability that a Brownian bridge from a to b of this variance stays above 0."""
    inside = (a > 0) & (b > 0)
    still = variance <= 0
    # In place of values that would make NaN of derivatives on paths whose values are finite.
    product = jnp.where(inside, a * b, 1.0)
    missed = -jnp.expm1(-2 * product / jnp.where(still, 1.0, variance))
    return jnp.where(inside, jnp.where(still, 1.0, missed), 0.0)


def _empty_sum(dtype) -> tuple:
    """A sum of nothing: its value, and in float32 also what rounding has taken from it.

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
