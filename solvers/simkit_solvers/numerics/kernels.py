"""Helpers that keep XLA's CPU compiler from mixing, repeating or removing the work of a loop."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.numerics.packing import packing
from simkit_solvers.numerics.scalar import Scalar


def by_itself(always: Scalar, function: Callable, otherwise: Callable, *operands: PyTree) -> PyTree:
    """`function(*operands)`, compiled by itself: in a branch whose condition is always true.

    The compiler fuses nothing into or out of a branch. Next to other code it contracts other products and
    sums to fused multiply-adds, so that last bits depend on that code, and what several results share it
    computes once for each of them. `always` is true, which the compiler must not be able to find out;
    `otherwise` gives the same shapes.
    """
    return jax.lax.cond(always, function, otherwise, *operands)


def floats_by_themselves(always: Scalar, function: Callable) -> Any:
    """`function()`, its floating-point arrays computed by themselves and packed in between."""

    def floats():
        return eqx.filter(function(), eqx.is_inexact_array)

    shapes = jax.eval_shape(floats)
    pack, unpack = packing(shapes)
    nothing = zeros(jax.eval_shape(pack, shapes))
    computed = unpack(by_itself(always, lambda: pack(floats()), lambda: nothing))
    if jax.tree.structure(jax.eval_shape(function)) == jax.tree.structure(shapes):
        return computed
    return eqx.combine(computed, function())


def zeros(shapes: PyTree) -> PyTree:
    """Zeros of given shapes and types."""
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def own_number(x: jax.Array, noise: PyTree) -> jax.Array:
    """The number x, of which `vmap` makes one for each path, as of the random key of `noise`.

    In reverse mode a number that all paths share costs a sum over the paths at every use; a path's own
    accumulates along the path, and is summed over the paths once. A loop that starts from shared numbers and
    makes one for each path of them is traced twice by `vmap`, which only then learns that it does.
    """
    words = [leaf for leaf in jax.tree.leaves(noise) if eqx.is_array(leaf)]
    if not words:
        return x
    word = jnp.ravel(words[0])[0]
    return jnp.where(word == word, x, x)
