r"""Interval arithmetic: for each operation of jax the least and the largest value on given intervals.

Ends are moved outwards by `ULPS` units of the last place, more than the operations of XLA are off. An
interval contains every finite value: the square root of $[-1, 4]$ is $[0, 2]$. An end that is NaN is unknown.
Reference: Moore, Kearfott & Cloud (2009), Introduction to interval analysis, doi:10.1137/1.9780898717716.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

ULPS = 8
TURN = 2 * math.pi


class Enclosure(NamedTuple):
    """The least and the largest value of each element; of a condition, whether it always and ever holds."""

    low: jax.Array
    high: jax.Array


def point(x: jax.Array) -> Enclosure:
    """The interval of one number."""
    return Enclosure(x, x)


def widened(x: Enclosure, size: float = 0.0) -> Enclosure:
    """An interval with its ends moved outwards by what rounding may lose, of numbers of a `size` at least."""
    if not jnp.issubdtype(x.low.dtype, jnp.floating):
        return x
    unit = ULPS * float(jnp.finfo(x.low.dtype).eps)
    # Of an infinite end nothing is lost, and the difference would be NaN.
    low, high = (jnp.where(jnp.isfinite(each), unit * jnp.maximum(abs(each), size), 0.0) for each in x)
    return Enclosure(x.low - low, x.high + high)


def hull(*values: jax.Array) -> Enclosure:
    """The least interval of some values, unknown where one is."""
    return Enclosure(functools.reduce(jnp.minimum, values), functools.reduce(jnp.maximum, values))


def contains(x: Enclosure, value: int) -> jax.Array:
    """Whether a value lies in an interval, or may."""
    return ~((x.low > value) | (x.high < value))


def increasing(function: Callable, least: float = -math.inf, most: float = math.inf) -> Callable:
    """The rule of an increasing function that is defined from `least` to `most`."""

    def rule(x: Enclosure, **parameters) -> Enclosure:
        low = x.low if least == -math.inf else jnp.where(x.low < least, least, x.low)
        high = x.high if most == math.inf else jnp.where(x.high > most, most, x.high)
        return widened(Enclosure(function(low, **parameters), function(high, **parameters)))

    return rule


def decreasing(function: Callable, least: float = -math.inf, most: float = math.inf) -> Callable:
    """The rule of a decreasing function that is defined from `least` to `most`."""
    rule = increasing(function, least, most)

    def reverse(x: Enclosure, **parameters) -> Enclosure:
        low, high = rule(x, **parameters)
        return widened(Enclosure(high, low))

    return reverse


def steps(function: Callable) -> Callable:
    """The rule of an increasing function whose values are exact."""

    def rule(x: Enclosure, **parameters) -> Enclosure:
        return Enclosure(function(x.low, **parameters), function(x.high, **parameters))

    return rule


def even(function: Callable) -> Callable:
    """The rule of a function of the absolute value, which increases with it."""

    def rule(x: Enclosure) -> Enclosure:
        size = absolute(x)
        return widened(Enclosure(function(size.low), function(size.high)))

    return rule


def absolute(x: Enclosure) -> Enclosure:
    """The absolute value."""
    ends = hull(abs(x.low), abs(x.high))
    return Enclosure(jnp.where(contains(x, 0), jnp.zeros_like(ends.low), ends.low), ends.high)


def negative(x: Enclosure) -> Enclosure:
    """-x."""
    return Enclosure(-x.high, -x.low)


def add(x: Enclosure, y: Enclosure) -> Enclosure:
    """x + y."""
    return widened(Enclosure(x.low + y.low, x.high + y.high))


def subtract(x: Enclosure, y: Enclosure) -> Enclosure:
    """x - y."""
    return add(x, negative(y))


def multiply(x: Enclosure, y: Enclosure) -> Enclosure:
    """x y."""
    if x is y:
        return square(x)
    return widened(hull(*(a * b for a in _ends(x) for b in _ends(y))))


def square(x: Enclosure) -> Enclosure:
    """x²."""
    return even(jnp.square)(x)


def reciprocal(x: Enclosure) -> Enclosure:
    """1/x, unbounded on the sides from which x reaches 0."""
    low = jnp.where((x.low < 0) & (x.high >= 0), -jnp.inf, 1 / jnp.where(x.high == 0, 1.0, x.high))
    high = jnp.where((x.low <= 0) & (x.high > 0), jnp.inf, 1 / jnp.where(x.low == 0, 1.0, x.low))
    nothing = (x.low == 0) & (x.high == 0)
    return widened(Enclosure(jnp.where(nothing, jnp.nan, low), jnp.where(nothing, jnp.nan, high)))


def divide(x: Enclosure, y: Enclosure) -> Enclosure:
    """x/y."""
    known = (y.low > 0) | (y.high < 0)
    ends = widened(hull(*(a / jnp.where(known, b, 1.0) for a in _ends(x) for b in _ends(y))))
    other = multiply(x, reciprocal(y))
    return Enclosure(jnp.where(known, ends.low, other.low), jnp.where(known, ends.high, other.high))


def integer_power(x: Enclosure, y: int) -> Enclosure:
    """The power by a whole number."""
    if y < 0:
        return reciprocal(integer_power(x, -y))
    rule = even if y % 2 == 0 else increasing
    return rule(lambda a: lax.integer_pow(a, y))(x)


def power(x: Enclosure, y: Enclosure) -> Enclosure:
    """The power by a real number: where x is negative, no larger than that of its absolute value."""
    size = absolute(x)
    ends = widened(hull(*(lax.pow(a, b) for a in _ends(size) for b in _ends(y))))
    return Enclosure(jnp.where(x.low < 0, -ends.high, ends.low), ends.high)


def maximum(x: Enclosure, y: Enclosure) -> Enclosure:
    """The larger of two."""
    return Enclosure(lax.max(x.low, y.low), lax.max(x.high, y.high))


def minimum(x: Enclosure, y: Enclosure) -> Enclosure:
    """The smaller of two."""
    return Enclosure(lax.min(x.low, y.low), lax.min(x.high, y.high))


def clamp(low: Enclosure, x: Enclosure, high: Enclosure) -> Enclosure:
    """The number moved into a range."""
    return minimum(maximum(x, low), high)


def cosine(x: Enclosure) -> Enclosure:
    """The cosine, which has its largest value at each whole turn and its least half way between."""
    return _wave(x, jnp.cos, 0.0)


def sine(x: Enclosure) -> Enclosure:
    """The sine, which has its largest value a quarter of a turn after each whole one."""
    return _wave(x, jnp.sin, 0.25)


def _wave(x: Enclosure, function: Callable, top: float) -> Enclosure:
    ends = widened(hull(function(x.low), function(x.high)), 1.0)
    low = jnp.where(_meets(x, TURN, top + 0.5), -1.0, ends.low)
    high = jnp.where(_meets(x, TURN, top), 1.0, ends.high)
    return Enclosure(jnp.maximum(low, -1.0), jnp.minimum(high, 1.0))


def tangent(x: Enclosure) -> Enclosure:
    """The tangent, which increases between its poles."""
    pole = _meets(x, TURN / 2, 0.5)
    ends = widened(Enclosure(jnp.tan(x.low), jnp.tan(x.high)), 1.0)
    return Enclosure(jnp.where(pole, -jnp.inf, ends.low), jnp.where(pole, jnp.inf, ends.high))


def _meets(x: Enclosure, period: float | jax.Array, phase: float) -> jax.Array:
    """Whether an interval meets one of the points $(k + phase)\\,period$ with whole k, or may."""
    turns = widened(widened(Enclosure(x.low / period - phase, x.high / period - phase)), 1.0)
    return ~(jnp.ceil(turns.low) > turns.high)


def remainder(x: Enclosure, y: Enclosure) -> Enclosure:
    """The remainder of x by y, which has the sign of x."""
    most = jnp.maximum(abs(y.low), abs(y.high))
    fixed = (y.low == y.high) & (y.low != 0)
    jumps = ~fixed | _meets(x, jnp.where(fixed, most, 1.0), 0.0)
    ends = widened(Enclosure(lax.rem(x.low, y.low), lax.rem(x.high, y.low)), 1.0)
    low, high = jnp.where(x.low >= 0, 0.0, -most), jnp.where(x.high <= 0, 0.0, most)
    return Enclosure(jnp.where(jumps, low, ends.low), jnp.where(jumps, high, ends.high))


def less(x: Enclosure, y: Enclosure) -> Enclosure:
    """x < y."""
    return Enclosure(x.high < y.low, ~(x.low >= y.high))


def at_most(x: Enclosure, y: Enclosure) -> Enclosure:
    """x <= y."""
    return Enclosure(x.high <= y.low, ~(x.low > y.high))


def equal(x: Enclosure, y: Enclosure) -> Enclosure:
    """x == y."""
    same = (x.low == x.high) & (y.low == y.high) & (x.low == y.low)
    return Enclosure(same, ~((x.high < y.low) | (x.low > y.high)))


def negation(x: Enclosure) -> Enclosure:
    """Logical not."""
    return Enclosure(~x.high, ~x.low)


def select(which: Enclosure, *cases: Enclosure) -> Enclosure:
    """The case of a number, or of a condition: all cases that may hold, the first where none does."""
    if which.low.dtype == bool:
        which = Enclosure(which.low.astype(jnp.int32), which.high.astype(jnp.int32))
    low, high = cases[0]
    chosen = contains(which, 0)
    for i, case in enumerate(cases[1:], 1):
        may = contains(which, i)
        low = jnp.where(may, jnp.where(chosen, jnp.minimum(low, case.low), case.low), low)
        high = jnp.where(may, jnp.where(chosen, jnp.maximum(high, case.high), case.high), high)
        chosen = chosen | may
    return Enclosure(low, high)


def _ends(x: Enclosure) -> tuple[jax.Array, ...]:
    return (x.low,) if x.low is x.high else tuple(x)
