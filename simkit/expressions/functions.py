"""The functions that expressions may call.

Each works on plain numbers and on jax arrays. Where every argument is a plain number the result is one, a
Python float computed in float64: jax types it weakly, so it takes the precision of the state it meets.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.numerics.scalar import Scalar

from simkit.closed_forms import numbers
from simkit.functionals import FUNCTIONALS

Truth = bool | jax.Array


class Function(NamedTuple):
    """A function of `arguments` numbers: for plain numbers, for arrays, and a line about it.

    `smoothness` is what derivatives have to know. A `smooth` function neither jumps nor has kinks where it is
    defined. The slope of a `kinked` one jumps where its first argument equals another, or is 0 if it has no
    other. A `step` jumps nearest to x at `nearest_jump(x)`. A `root` of zero may have any slope. One that
    does not say is taken to jump at places that nothing knows. `monotone` holds of a function of one number.
    """

    arguments: int
    number: Callable
    array: Callable
    summary: str
    smoothness: Literal["smooth", "kinked", "step", "root", "unknown"] = "unknown"
    nearest_jump: Callable | None = None
    monotone: bool = False

    def __call__(self, *values):
        if all(isinstance(value, float) for value in values):
            with np.errstate(all="ignore"):
                return float(self.number(*values))
        return self.array(*values)


def _nearest_whole(x):
    return NUMERIC["floor"](x + 0.5)


def _normal_pdf(x):
    return jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


NUMERIC: dict[str, Function] = {
    "exp": Function(1, np.exp, jnp.exp, "exponential", "smooth", monotone=True),
    "expm1": Function(1, np.expm1, jnp.expm1, "exp(x) - 1, accurate near 0", "smooth"),
    "log": Function(
        1, np.log, jnp.log, "natural logarithm; NaN below 0, and no slope at 0", "smooth", monotone=True
    ),
    "log1p": Function(1, np.log1p, jnp.log1p, "log(1 + x), accurate near 0", "smooth"),
    "sqrt": Function(
        1, np.sqrt, numbers.sqrt, "square root; NaN below 0, slope 0 at 0", "root", monotone=True
    ),
    "sin": Function(1, np.sin, jnp.sin, "sine", "smooth"),
    "cos": Function(1, np.cos, jnp.cos, "cosine", "smooth"),
    "tan": Function(1, np.tan, jnp.tan, "tangent", "smooth"),
    "asin": Function(1, np.arcsin, jnp.arcsin, "inverse sine", "smooth"),
    "acos": Function(1, np.arccos, jnp.arccos, "inverse cosine", "smooth"),
    "atan": Function(1, np.arctan, jnp.arctan, "inverse tangent", "smooth"),
    "atan2": Function(2, np.arctan2, jnp.arctan2, "atan2(y, x), angle of the point (x, y)", "smooth"),
    "sinh": Function(1, np.sinh, jnp.sinh, "hyperbolic sine", "smooth"),
    "cosh": Function(1, np.cosh, jnp.cosh, "hyperbolic cosine", "smooth"),
    "tanh": Function(1, np.tanh, jnp.tanh, "hyperbolic tangent", "smooth"),
    "abs": Function(1, np.abs, jnp.abs, "absolute value", "kinked"),
    "sign": Function(1, np.sign, jnp.sign, "-1, 0 or 1", "step", lambda x: 0.0),
    "floor": Function(1, np.floor, jnp.floor, "largest whole number not above x", "step", _nearest_whole),
    "ceil": Function(1, np.ceil, jnp.ceil, "smallest whole number not below x", "step", _nearest_whole),
    "maximum": Function(2, np.maximum, jnp.maximum, "maximum(a, b), the larger of two", "kinked"),
    "minimum": Function(2, np.minimum, jnp.minimum, "minimum(a, b), the smaller of two", "kinked"),
    "clip": Function(
        3,
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        lambda x, low, high: jnp.minimum(jnp.maximum(x, low), high),
        "clip(x, low, high), x moved into [low, high]",
        "kinked",
    ),
    "erf": Function(1, math.erf, jax.scipy.special.erf, "error function", "smooth"),
    "normal_cdf": Function(
        1, numbers.normal_cdf, numbers.normal_cdf, "standard normal distribution", "smooth"
    ),
    "normal_pdf": Function(
        1,
        lambda x: np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi),
        _normal_pdf,
        "standard normal density",
        "smooth",
    ),
}

NUMBERS = {"pi": math.pi, "e": math.e}

WHERE = "where(condition, a, b), a where the condition holds and b elsewhere"


def function_summaries() -> dict[str, str]:
    """All that expressions may call but closed forms, with a line about each."""
    numeric = {name: function.summary for name, function in NUMERIC.items()}
    return {**numeric, "where": WHERE, **{name: each.summary for name, each in FUNCTIONALS.items()}}


def is_function(name: str) -> bool:
    """Whether expressions may call this, closed forms aside."""
    return name in NUMERIC or name in FUNCTIONALS or name == "where"


divide = Function(2, np.divide, jnp.true_divide, "", "smooth")
power = Function(2, np.power, jnp.power, "", "root")


def integer_power(x: Scalar, n: int) -> Scalar:
    """x**n for a whole number n: right for negative x, and with the right slope at 0."""
    if isinstance(x, float):
        with np.errstate(all="ignore"):
            return float(np.power(x, float(n)))
    return jax.lax.integer_pow(x, n)


def where(condition: Truth, a: Scalar, b: Scalar) -> Scalar:
    """a where the condition holds, b elsewhere."""
    if isinstance(condition, bool):
        return a if condition else b
    return jnp.where(condition, a, b)


def both(a: Truth, b: Truth) -> Truth:
    """Logical and."""
    return a and b if isinstance(a, bool) and isinstance(b, bool) else jnp.logical_and(a, b)


def either(a: Truth, b: Truth) -> Truth:
    """Logical or."""
    return a or b if isinstance(a, bool) and isinstance(b, bool) else jnp.logical_or(a, b)


def negation(a: Truth) -> Truth:
    """Logical not."""
    return not a if isinstance(a, bool) else jnp.logical_not(a)


def as_number(condition: Truth) -> Scalar:
    """1 where true and 0 where false."""
    return where(condition, 1.0, 0.0)
