"""Tangents of trees of numbers, such as problems, and derivatives along them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar


def is_real(x: Any) -> bool:
    """Whether a leaf is a real number or an array of these."""
    return isinstance(x, float) or eqx.is_inexact_array(x)


def in_precision(tree: PyTree, dtype: DTypeLike) -> Any:
    """A tree with its real numbers as arrays of the type `dtype`."""
    return jax.tree.map(lambda x: jnp.asarray(x, dtype) if is_real(x) else x, tree)


def differentiable(values: Callable, derivatives: Callable, *given: PyTree) -> Any:
    """`values(*given)` with the derivatives of `derivatives`, another program for the same values.

    So a loop that can be differentiated, which costs more, runs only where there are derivatives. They are
    those by the arrays in what is given.
    """
    numbers, others = eqx.partition(given, eqx.is_array)

    @jax.custom_jvp
    def function(numbers):
        return values(*eqx.combine(numbers, others))

    @function.defjvp
    def _(primals, tangents):
        return jax.jvp(lambda numbers: derivatives(*eqx.combine(numbers, others)), primals, tangents)

    return function(numbers)


def as_tangent(tree: PyTree, direction: PyTree | None, dtype: DTypeLike | None = None) -> Any:
    """A direction as a tangent of the real numbers in a tree: zeros where it has `None`.

    Raises `ValueError` where its structure is not that of the tree.
    """
    numbers = eqx.filter(tree, is_real)

    def leaf(x, d=None):
        if x is None:
            return None
        kind = dtype or (x.dtype if eqx.is_array(x) else None)
        return jnp.zeros(jnp.shape(x), kind) if d is None else jnp.asarray(d, kind)

    if direction is None:
        return jax.tree.map(leaf, numbers)
    try:
        return jax.tree.map(leaf, numbers, eqx.filter(direction, is_real), is_leaf=lambda x: x is None)
    except ValueError as error:
        raise ValueError(
            f"direction: must be a {type(tree).__name__} of the same structure, with the derivatives of its "
            f"numbers, got {direction}"
        ) from error


def jvp(fn: Callable, tree: PyTree, tangent: PyTree) -> tuple[Any, Any]:
    """The real numbers in `fn(tree)`, and their derivatives along a tangent of the real numbers in `tree`."""
    numbers, others = eqx.partition(tree, is_real)
    numbers = jax.tree.map(lambda x, d: jnp.asarray(x, jnp.result_type(d)), numbers, tangent)
    return jax.jvp(lambda x: eqx.filter(fn(eqx.combine(x, others)), is_real), (numbers,), (tangent,))


def moved(tree: PyTree, tangent: PyTree, by: Scalar) -> Any:
    """A tree after a step along a tangent of its real numbers."""
    numbers, others = eqx.partition(tree, is_real)
    return eqx.combine(jax.tree.map(lambda x, d: x + by * d, numbers, tangent), others)
