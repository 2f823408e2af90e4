"""Rigorous bounds of what a function gives while one of its arguments varies in an interval.

The function is traced, and its operations are evaluated in interval arithmetic where they depend on that
argument. What does not is computed once, as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jaxtyping import PyTree

from simkit_solvers.numerics.intervals import (
    Enclosure,
    absolute,
    add,
    at_most,
    clamp,
    cosine,
    decreasing,
    divide,
    equal,
    even,
    increasing,
    integer_power,
    less,
    maximum,
    minimum,
    multiply,
    negation,
    negative,
    point,
    power,
    remainder,
    select,
    sine,
    square,
    steps,
    subtract,
    tangent,
    widened,
)

CALLS = {  # operations that are functions of their own, and the parameter that has them
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_lin": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}
RULES: dict[str, Callable[..., Enclosure]] = {
    "abs": absolute,
    "neg": negative,
    "add": add,
    "add_any": add,
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "square": square,
    "integer_pow": integer_power,
    "pow": power,
    "max": maximum,
    "min": minimum,
    "clamp": clamp,
    "rem": remainder,
    "exp": increasing(jnp.exp),
    "exp2": increasing(jnp.exp2),
    "expm1": increasing(jnp.expm1),
    "log": increasing(jnp.log, 0.0),
    "log1p": increasing(jnp.log1p, -1.0),
    "sqrt": increasing(jnp.sqrt, 0.0),
    "cbrt": increasing(jnp.cbrt),
    "rsqrt": decreasing(lax.rsqrt, 0.0),
    "logistic": increasing(lax.logistic),
    "erf": increasing(lax.erf),
    "erfc": decreasing(lax.erfc),
    "sin": sine,
    "cos": cosine,
    "tan": tangent,
    "asin": increasing(jnp.arcsin, -1.0, 1.0),
    "acos": decreasing(jnp.arccos, -1.0, 1.0),
    "atan": increasing(jnp.arctan),
    "sinh": increasing(jnp.sinh),
    "cosh": even(jnp.cosh),
    "tanh": increasing(jnp.tanh),
    "asinh": increasing(jnp.arcsinh),
    "acosh": increasing(jnp.arccosh, 1.0),
    "atanh": increasing(jnp.arctanh, -1.0, 1.0),
    "sign": steps(jnp.sign),
    "floor": steps(jnp.floor),
    "ceil": steps(jnp.ceil),
    "lt": less,
    "le": at_most,
    "gt": lambda x, y: less(y, x),
    "ge": lambda x, y: at_most(y, x),
    "eq": equal,
    "ne": lambda x, y: negation(equal(x, y)),
    "and": lambda x, y: Enclosure(x.low & y.low, x.high & y.high),
    "or": lambda x, y: Enclosure(x.low | y.low, x.high | y.high),
    "not": negation,
    "select_n": select,
}
# Operations that only move elements: what they do to both ends is what they do to the interval.
MOVES = (
    *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "slice", "concatenate", "stack"),
    *("rev", "copy", "copy_p", "pad", "optimization_barrier", "round", "reduce_max", "reduce_min"),
    *("stop_gradient", "reduce_and", "reduce_or"),
)
LOGIC = ("and", "or", "not", "reduce_and", "reduce_or")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "select_n")  # of numbers of any type
SUMS = ("reduce_sum", "cumsum")
FIRST_MOVES = ("gather", "dynamic_slice")  # of their first argument, at known places


# Operations that are NaN outside their domains, or of zero and infinity.
PARTIAL = {"log", "log1p", "sqrt", "rsqrt", "asin", "acos", "acosh", "atanh", "pow", "div", "rem"}


class MaybeUndefined(Enclosure):
    """An interval of numbers that may be NaN somewhere, where a comparison with them does not hold."""


class UnboundedError(ValueError):
    """A function has an operation that interval arithmetic does not know; the message is its name."""


def bounds(function: Callable[[jax.Array], PyTree], argument: Enclosure) -> Any:
    """What `function` gives while its argument is anywhere in an interval: a tree of an `Enclosure` each.

    An interval contains every finite value, as it is computed; ends are NaN where nothing is known. Where a
    number may be NaN, both ways of a comparison with it count.
    As the argument's interval shrinks to a number they approach the value, unless the function jumps there.
    Raises `UnboundedError` for a function with an operation that is not known.
    """
    traced, shapes = jax.make_jaxpr(function, return_shape=True)(argument.low)
    values = _values(traced.jaxpr, traced.consts, [argument])
    return jax.tree.unflatten(jax.tree.structure(shapes), [_interval(each) for each in values])


def _dtype(atom: Any) -> Any:
    return atom.aval.dtype


def _interval(x: Any) -> Enclosure:
    return x if isinstance(x, Enclosure) else point(jnp.asarray(x))


def _values(jaxpr: Jaxpr, consts: Sequence, given: Sequence) -> list:
    """The outputs for given inputs: an `Enclosure` where they depend on one, else an array."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given), strict=True))

    def read(atom):
        return jnp.asarray(atom.val, _dtype(atom)) if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        inputs = [read(atom) for atom in eqn.invars]
        env.update(
            zip(eqn.outvars, _undefined_too(eqn.primitive.name, inputs, _outputs(eqn, inputs)), strict=True)
        )
    return [read(atom) for atom in jaxpr.outvars]


def _undefined_too(name: str, given: list, outputs: Sequence) -> Sequence:
    """The outputs of an operation, marked where they may be NaN; comparisons of those are undecided."""
    moving = any(isinstance(x, Enclosure) for x in given)
    if name in CALLS or not moving or not (name in PARTIAL or any(map(_is_marked, (*given, *outputs)))):
        return outputs
    if name in COMPARISONS and name != "select_n":
        return [Enclosure(jnp.zeros_like(each.low), jnp.ones_like(each.high)) for each in outputs]
    return [MaybeUndefined(*each) if isinstance(each, Enclosure) else each for each in outputs]


def _is_marked(x: Any) -> bool:
    return isinstance(x, MaybeUndefined)


def _outputs(eqn: JaxprEqn, given: list) -> Sequence:
    name, parameters = eqn.primitive.name, eqn.params
    if not any(isinstance(x, Enclosure) for x in given):
        return _bound(eqn, given)
    if name in CALLS:
        inner = parameters[CALLS[name]]
        closed = hasattr(inner, "consts")
        return _values(inner.jaxpr if closed else inner, inner.consts if closed else (), given)
    if name == "cond":
        index, *rest = given
        cases = [map(_interval, _values(each.jaxpr, each.consts, rest)) for each in parameters["branches"]]
        selected = []
        for each in zip(*cases, strict=True):
            of_cases = select(_interval(index), *each)
            selected.append(MaybeUndefined(*of_cases) if any(map(_is_marked, each)) else of_cases)
        return selected
    if name in FIRST_MOVES and not any(isinstance(x, Enclosure) for x in given[1:]):
        return _by_ends(eqn, [[end, *given[1:]] for end in given[0]])
    if name == "convert_element_type":
        return _converted(eqn, given)
    if name in LOGIC and any(_dtype(x) != jnp.bool_ for x in eqn.invars):
        raise UnboundedError(f"{name} of whole numbers")
    if name in MOVES or name in SUMS:
        moved = _by_ends(eqn, [list(each) for each in zip(*map(_interval, given), strict=True)])
        return [_widened_sum(eqn, given[0], moved[0])] if name in SUMS else moved
    if name not in RULES:
        raise UnboundedError(name)
    whole = not all(jnp.issubdtype(_dtype(x), jnp.floating) for x in eqn.invars)
    if whole and name not in LOGIC + COMPARISONS:
        raise UnboundedError(f"{name} of whole numbers")
    known = {"y": parameters["y"]} if name == "integer_pow" else {}
    return [RULES[name](*map(_interval, given), **known)]


def _bound(eqn: JaxprEqn, given: list) -> Sequence:
    results = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
    return results if eqn.primitive.multiple_results else [results]


def _by_ends(eqn: JaxprEqn, ends: list[list]) -> list[Enclosure]:
    """The operation at both ends."""
    return [Enclosure(low, high) for low, high in zip(*(_bound(eqn, each) for each in ends), strict=True)]


def _converted(eqn: JaxprEqn, given: list) -> list[Enclosure]:
    """Numbers of another type: from real ones to whole ones, NaN would be lost."""
    before, after = given[0].low.dtype, eqn.params["new_dtype"]
    if jnp.issubdtype(before, jnp.floating) and not jnp.issubdtype(after, jnp.floating):
        raise UnboundedError(f"convert_element_type to {jnp.dtype(after).name}")
    return [widened(each) for each in _by_ends(eqn, [[end] for end in given[0]])]


def _widened_sum(eqn: JaxprEqn, terms: Enclosure, total: Enclosure) -> Enclosure:
    """A sum with what rounding loses, however its terms are added."""
    if not jnp.issubdtype(total.low.dtype, jnp.floating):
        return total
    [size] = _bound(eqn, [absolute(terms).high])
    loss = size * (terms.low.size * float(jnp.finfo(size.dtype).eps))
    return widened(Enclosure(total.low - loss, total.high + loss))
