"""Interval arithmetic: it contains what is computed, and little more."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from simkit_solvers.numerics.intervals import (
    Enclosure,
    absolute,
    add,
    at_most,
    clamp,
    contains,
    cosine,
    divide,
    equal,
    integer_power,
    less,
    maximum,
    minimum,
    multiply,
    point,
    power,
    reciprocal,
    remainder,
    select,
    sine,
    square,
    subtract,
    tangent,
)

INTERVALS, SAMPLES = 4000, 65
ONE = {  # a rule of one interval, the function, and the slack of its extremes between samples
    "absolute": (absolute, jnp.abs, 0.04),
    "square": (square, jnp.square, 0.04),
    "cube": (functools.partial(integer_power, y=3), lambda x: lax.integer_pow(x, 3), 0),
    "inverse square": (functools.partial(integer_power, y=-2), lambda x: lax.integer_pow(x, -2), None),
    "cosine": (cosine, jnp.cos, 0.04),
    "sine": (sine, jnp.sin, 0.04),
    "tangent": (tangent, jnp.tan, None),
    "reciprocal": (reciprocal, lambda x: 1 / x, None),
}
TWO = {
    "add": (add, jnp.add),
    "subtract": (subtract, jnp.subtract),
    "multiply": (multiply, jnp.multiply),
    "divide": (divide, jnp.divide),
    "power": (power, lambda x, y: lax.pow(jnp.abs(x) + 0.5, y)),
    "maximum": (maximum, jnp.maximum),
    "minimum": (minimum, jnp.minimum),
    "remainder": (remainder, lax.rem),
}


def intervals(seed, dtype):
    """Intervals of all lengths, and numbers in them, those at the ends among them."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-8, 8, INTERVALS) * rng.choice([1, 0.01], INTERVALS)
    low, width = np.where(rng.random(INTERVALS) < 0.05, 0, low), 10 ** rng.uniform(-6, 1, INTERVALS)
    low, high = low.astype(dtype), (low + width * rng.choice([0, 1, 1, 1], INTERVALS)).astype(dtype)
    x = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, SAMPLES, dtype=dtype)
    x = np.clip(x, low[:, None], high[:, None])
    return Enclosure(jnp.asarray(low), jnp.asarray(high)), jnp.asarray(x)


def assert_inside(values, bound):
    """Every finite value is at or between the ends, which are numbers or infinite."""
    values, low, high = np.asarray(values), np.asarray(bound.low)[:, None], np.asarray(bound.high)[:, None]
    known = ~np.isnan(low) & ~np.isnan(high)
    number = known & np.isfinite(values)
    assert known.mean() > 0.9
    assert (~number | ((low <= values) & (values <= high))).all()
    return values


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ONE)
def test_a_rule_of_one_number(name, dtype):
    rule, function, slack = ONE[name]
    x, samples = intervals(1, dtype)
    bound = rule(x)
    values = assert_inside(function(samples), bound)
    if slack is not None:
        size, eps = np.abs(values).max(1) + 1, 20 * np.finfo(dtype).eps
        narrow = np.asarray(x.high - x.low) < 3
        spread, width = np.ptp(values, 1), np.asarray(bound.high - bound.low)
        assert (width <= spread * (1 + slack) + eps * size)[narrow].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TWO)
def test_a_rule_of_two_numbers(name, dtype):
    rule, function = TWO[name]
    (x, xs), (y, ys) = intervals(2, dtype), intervals(3, dtype)
    rng = np.random.default_rng(4)
    ys = jnp.asarray(rng.permuted(np.asarray(ys), axis=1))
    of = absolute(x) if name == "power" else x
    of = Enclosure(of.low + 0.5, of.high + 0.5) if name == "power" else of
    assert_inside(function(xs, ys), rule(of, y))
    alone = Enclosure(y.low, y.low)
    assert_inside(function(xs, ys[:, :1] * 0 + y.low[:, None]), rule(of, alone))


def test_a_power_of_a_negative_number_is_no_larger_than_that_of_its_size():
    x, samples = intervals(5, "float64")
    for exponent in (2.0, 3.0, 1.5):
        y = jnp.full(INTERVALS, exponent)
        assert_inside(samples**exponent, power(x, Enclosure(y, y)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_all_sizes_are_inside_those_of_numbers(dtype):
    """Up to the largest and the least that have a unit in the last place; and a few units more are inside."""
    rng, largest = np.random.default_rng(6), np.log(np.finfo(dtype).max)
    base = np.concatenate([rng.uniform(0.5, 2, INTERVALS), 10 ** rng.uniform(-30, 30, INTERVALS)])
    base = base.astype(dtype)
    exponent = (rng.uniform(-0.99, 0.99, base.size) * largest / np.log(base.astype(float))).astype(dtype)
    bound = power(point(jnp.asarray(base)), point(jnp.asarray(exponent)))
    exact = base.astype(np.longdouble) ** exponent.astype(np.longdouble)
    unit = np.finfo(dtype).eps * exact
    usual = unit > np.finfo(dtype).tiny
    assert usual.mean() > 0.9
    assert (np.asarray(bound.low) <= exact - 3 * unit)[usual].all()
    assert (exact + 3 * unit <= np.asarray(bound.high))[usual].all()


def test_waves_reach_their_extremes_where_they_are():
    """In intervals that end just before and just after an extreme, up to rounding of large arguments."""
    for turns in (0.0, 3.0, 1000.0):
        for rule, top in ((cosine, 0.0), (sine, 0.25)):
            peak = 2 * np.pi * (turns + top)
            before, across = (
                rule(Enclosure(jnp.asarray(peak - 0.5), jnp.asarray(peak + end))) for end in (-0.1, 0.1)
            )
            assert float(across.high) == 1
            assert float(before.high) == pytest.approx(np.cos(0.1), abs=1e-12)
            assert float(across.low) == pytest.approx(np.cos(0.5), abs=1e-12)


def test_comparisons_are_certain_or_not():
    x = Enclosure(jnp.asarray([0.0, 0.0, 0.0, jnp.nan]), jnp.asarray([1.0, 1.0, 1.0, jnp.nan]))
    y = Enclosure(jnp.asarray([2.0, 1.0, 0.5, 0.0]), jnp.asarray([3.0, 1.0, 0.6, 0.0]))
    assert less(x, y).low.tolist() == [True, False, False, False]
    assert less(x, y).high.tolist() == [True, True, True, True]
    assert at_most(x, y).low.tolist() == [True, True, False, False]
    assert less(y, x).high.tolist() == [False, False, True, True]
    assert equal(x, y).high.tolist() == [False, True, True, True]
    assert equal(y, y).low.tolist() == [False, True, False, True]
    assert contains(x, 1).tolist() == [True, True, True, True]


def test_a_choice_that_is_not_certain_has_both_cases():
    may = Enclosure(jnp.asarray([False, False, True]), jnp.asarray([False, True, True]))
    no, yes = (Enclosure(jnp.full(3, x), jnp.full(3, x + 1)) for x in (0.0, 5.0))
    chosen = select(may, no, yes)
    assert chosen.low.tolist() == [0, 0, 5]
    assert chosen.high.tolist() == [1, 6, 6]
    moved = clamp(Enclosure(no.low, no.low), yes, Enclosure(no.high, no.high))
    assert moved.low.tolist() == moved.high.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.0), (0.0, 1.0), (-1.0, 1.0)])
def test_a_quotient_by_what_may_be_zero_has_no_finite_bound(low, high):
    x, y = point(jnp.asarray(2.0)), Enclosure(jnp.asarray(low), jnp.asarray(high))
    quotient = divide(x, y)
    for value in (0.7 * low, 0.7 * high, 1e-30 * low, 1e-30 * high):
        if value:
            assert float(quotient.low) <= 2 / value <= float(quotient.high)
