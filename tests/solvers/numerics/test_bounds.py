"""Bounds of traced functions: random expressions, what models are written with, and what is unknown."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simkit_solvers.numerics.bounds import UnboundedError, bounds
from simkit_solvers.numerics.intervals import Enclosure

SAMPLES = 129
SMOOTH = {
    "exp": jnp.exp,
    "log1p": lambda x: jnp.log1p(x * x),
    "sqrt": lambda x: jnp.sqrt(1 + x * x),
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "erf": lambda x: jax.scipy.special.erf(x),
    "cube": lambda x: x**3,
    "square": lambda x: x * x,
    "inverse": lambda x: 1 / (2 + jnp.cos(x)),
    "abs": jnp.abs,
    "half": lambda x: 0.5 * x,
    "atan": jnp.arctan,
}
PAIRS = {
    "+": jnp.add,
    "-": jnp.subtract,
    "*": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "/": lambda x, y: x / (1 + y * y),
}
JUMPS = {
    "where": lambda x, y: jnp.where(x < y, x, y - 1),
    "floor": lambda x, y: jnp.floor(x) + y,
    "sign": lambda x, y: jnp.sign(x) * y,
    "mod": lambda x, y: jnp.mod(x, 1.5) - y,
    "and": lambda x, y: jnp.where((x > 0) & ~(y >= 1), 1.0, x),
}
leaves = st.one_of(st.just("t"), st.floats(-3, 3, width=16))


def trees(pairs):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from(sorted(SMOOTH)), inner),
            st.tuples(st.sampled_from(sorted(pairs)), inner, inner),
        ),
        max_leaves=8,
    )


smooth, any_tree = trees(PAIRS), trees(PAIRS | JUMPS)
lows, log_widths = st.floats(-4, 4, width=32), st.floats(-5, 0.75, width=32)


def value(tree, t):
    """The value of a tree, a function of time made of the functions above."""
    if tree == "t":
        return t
    if isinstance(tree, float):
        return jnp.full_like(t, tree)
    name, *parts = tree
    function = (SMOOTH | PAIRS | JUMPS)[name]
    return function(*(value(part, t) for part in parts))


def bound_and_values(tree, low, width, dtype="float32"):
    low, high = np.asarray(low, dtype), np.asarray(low + width, dtype)
    t = np.clip(np.linspace(low, high, SAMPLES, dtype=dtype), low, high)
    bound = bounds(lambda t: value(tree, t), Enclosure(jnp.asarray(low), jnp.asarray(high)))
    return float(bound.low), float(bound.high), np.asarray(value(tree, jnp.asarray(t)), np.float64)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(tree=any_tree, low=lows, log_width=log_widths)
def test_a_bound_contains_every_value(tree, low, log_width):
    least, most, values = bound_and_values(tree, low, 10**log_width)
    if np.isnan(least) or np.isnan(most):
        return  # unknown: of numbers that overflow
    number = values[np.isfinite(values)]
    assert (least <= number).all()
    assert (number <= most).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(tree=smooth, low=lows)
def test_a_bound_shrinks_with_its_interval(tree, low):
    """At first order, up to rounding."""
    widths = []
    for width in (1e-4, 1e-6):
        least, most, _ = bound_and_values(tree, low, width, "float64")
        size = max(1.0, abs(least), abs(most))
        if not np.isfinite(size) or size > 1e6:
            return
        widths.append(most - least)
    assert widths[1] <= 0.03 * widths[0] + 1e-9 * size


WRITTEN = {  # as in models: all of t alone
    "a day": lambda t: jnp.where(jnp.mod(t, 1.0) < 0.5, 1.0, 0.0),
    "a pulse": lambda t: jnp.exp(-(((t - 1) / 0.2) ** 2)),
    "a ramp": lambda t: jnp.clip(t, 0.2, 1.3),
    "softplus": jax.nn.softplus,
    "relu": lambda t: jax.nn.relu(jnp.cos(t)),
    "normal": jax.scipy.special.ndtr,
    "a sum": lambda t: jnp.sum(jnp.stack([t, jnp.sin(t), -t]) * jnp.arange(1.0, 4.0)),
    "a branch": lambda t: jax.lax.cond(t < 1, lambda x: 2 * x, lambda x: -x, t),
    "a power": lambda t: jnp.abs(jnp.sin(t)) ** 1.5 + jnp.cos(t) ** 2.0 + 2.0**t,
    "an element": lambda t: jnp.stack([t, 1 - t])[1],
    "inverses": lambda t: jnp.arcsin(0.9 * jnp.sin(t)) + jnp.arccos(0.9 * jnp.cos(t)) + jnp.cosh(t),
    "checkpoint": jax.checkpoint(lambda t: jnp.sin(t) * t),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_models_are_written_with(name):
    function, rng = WRITTEN[name], np.random.default_rng(0)
    low = jnp.asarray(rng.uniform(-3, 3, 300))
    high = low + jnp.asarray(10 ** rng.uniform(-4, 0.5, 300))
    bound = jax.jit(jax.vmap(lambda a, b: bounds(function, Enclosure(a, b))))(low, high)
    for fraction in np.linspace(0, 1, 41):
        values = jax.vmap(function)(jnp.clip(low + fraction * (high - low), low, high))
        assert bool(jnp.all((bound.low <= values) & (values <= bound.high)))


@pytest.mark.parametrize("size", [3, 40, 200])
def test_a_sum_is_within_its_bound_in_whatever_order_its_terms_are_added(size):
    """Large terms of both signs leave little, in the order of the machine or in any other."""

    @jax.jit
    def bound(terms, t):
        def sums(t):
            each = jnp.maximum(terms, t)
            return jnp.sum(each), jnp.cumsum(each)

        return bounds(sums, Enclosure(t, t))

    rng = np.random.default_rng(0)
    for _ in range(20):
        terms = (rng.standard_normal(size) * 10 ** rng.uniform(0, 4, size)).astype("float32")
        whole, running = bound(jnp.asarray(terms), terms.min())
        for _ in range(20):
            total = np.cumsum(rng.permutation(terms), dtype="float32")[-1]
            assert float(whole.low) <= total <= float(whole.high)
            assert float(running.low[-1]) <= total <= float(running.high[-1])
        assert float(whole.high - whole.low) <= 3e-7 * (size + 16) * np.abs(terms).sum()


UNDEFINED = {
    "a logarithm": lambda t: jnp.where(jnp.log(t) < 0, 0.0, 10.0),
    "not less": lambda t: jnp.where(~(jnp.log(t) < 0), 10.0, 0.0),
    "a root": lambda t: jnp.where(jnp.sqrt(t) >= -1, 0.0, 10.0),
    "an angle": lambda t: jnp.where(jnp.arccos(2 * t) >= 0, 0.0, 10.0),
    "unequal to itself": lambda t: jnp.where(jnp.log(t) != jnp.log(t), 10.0, 0.0),
    "isnan": lambda t: jnp.where(jnp.isnan(jnp.log(t)), 10.0, 0.0),
    "a quotient of zeros": lambda t: jnp.where(jnp.maximum(t, 0) / jnp.maximum(t, 0) > 0, 0.0, 10.0),
    "a power": lambda t: jnp.where(t**0.5 + 1 > 0, 0.0, 10.0),
    "in a function": lambda t: jax.jit(lambda x: jnp.where(jnp.log(x) < 0, 0.0, 10.0))(t),
    "of a branch": lambda t: jnp.where(jax.lax.cond(t < 9, jnp.log, jnp.abs, t) < 0, 0.0, 10.0),
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_comparison_with_what_is_not_defined_does_not_hold(name):
    """Below zero these are NaN, which is not less than anything, nor equal to itself."""
    function, low, high = UNDEFINED[name], jnp.asarray(-0.9), jnp.asarray(0.4)
    bound = bounds(function, Enclosure(low, high))
    for t in jnp.linspace(low, high, 14):
        assert float(bound.low) <= float(function(t)) <= float(bound.high)


def test_what_does_not_depend_on_the_argument_is_not_widened():
    x = jnp.asarray(0.1)
    fixed, both = bounds(lambda t: (jnp.exp(x) * 3, t + x), Enclosure(jnp.asarray(0.0), jnp.asarray(1.0)))
    assert float(fixed.low) == float(fixed.high) == float(jnp.exp(x) * 3)
    assert float(both.low) < 0.1
    assert float(both.high) > 1.1


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda t: jax.lax.lgamma(t + 1), "lgamma"),
        (lambda t: jnp.interp(t, jnp.arange(3.0), jnp.arange(3.0)), "scan|while|sort|call_hi"),
        (lambda t: jnp.arange(5.0)[t.astype(int)], "convert_element_type to int64"),
        (lambda t: jax.lax.fori_loop(0, 3, lambda i, x: x * t, t), "scan"),
    ],
)
def test_what_is_not_known_is_named(function, name):
    with pytest.raises(UnboundedError, match=name):
        bounds(function, Enclosure(jnp.asarray(0.0), jnp.asarray(1.0)))
