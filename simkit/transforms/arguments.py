"""Arguments by position: how many a function has, which are selected, what they contain."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simkit.errors import InputError

Positions = int | tuple[int, ...]


def name_of(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def arity(function: Callable) -> tuple[int, float]:
    """The fewest and the most positional arguments that a function takes, infinity for any number."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not say
        return 0, float("inf")
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 0, float("inf")
    positional = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return sum(each.default is each.empty for each in positional), len(positional)


def positions(place: str, given: Positions) -> tuple[int, ...]:
    """Positions as a tuple, from 0 and each once."""
    each = given if isinstance(given, tuple) else (given,)
    wrong = [i for i in each if isinstance(i, bool) or not isinstance(i, int) or i < 0]
    if wrong:
        raise InputError(f"{place}: {wrong[0]!r} is no position of an argument; count from 0")
    if len(set(each)) < len(each):
        raise InputError(f"{place}: {each} names a position twice; name each once")
    return each


def check_positions(place: str, given: Positions, function: Callable) -> None:
    """Refuse positions of arguments that the function has not."""
    most = arity(function)[1]
    for i in positions(place, given):
        if i >= most:
            raise InputError(
                f"{place}: there is no argument {i}: {name_of(function)} takes {int(most)}, counted from 0"
            )


def check_floats(place: str, args: tuple, wrt: Positions) -> None:
    """Refuse to differentiate by what is missing, whole numbers, or nothing."""
    for i in positions(place, wrt):
        if i >= len(args):
            raise InputError(f"{place}: argument {i} is missing: {len(args)} were given, counted from 0")
        leaves = jax.tree.leaves_with_path(args[i])
        if not leaves:
            raise InputError(f"{place}: argument {i} holds no numbers")
        for path, leaf in leaves:
            if not jnp.issubdtype(jnp.result_type(leaf), jnp.inexact):
                where = f"argument {i}{jax.tree_util.keystr(path)}"
                raise InputError(
                    f"{place}: {where} is {jnp.result_type(leaf)}, which has no derivative; give "
                    "floating-point numbers, or leave it out of wrt"
                )


def count(tree: Any) -> int:
    """Numbers in a tree of arrays or of their shapes."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(tree))


def check_scalar(place: str, function: Callable, args: tuple) -> None:
    """Refuse a function whose value is not one real number."""
    out = jax.eval_shape(function, *args)
    if isinstance(out, jax.ShapeDtypeStruct) and out.shape == ():
        return
    given = jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", out)
    raise InputError(
        f"{place}: {name_of(function)} gives {given}, and a gradient is of one number; use its mean or sum, "
        "or Jacobian() instead of Grad()"
    )
