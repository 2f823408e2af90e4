"""Functions that are traced once, wherever and for whatever numbers they are called."""

import dataclasses
import functools
from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Static:
    """A tree as a part of a program: equal to another of the same structure with equal leaves."""

    tree: Any = dataclasses.field(compare=False)
    structure: Any = dataclasses.field(init=False, repr=False)
    leaves: tuple = dataclasses.field(init=False, repr=False)

    def __post_init__(self):
        leaves, structure = jax.tree.flatten(self.tree)
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "leaves", tuple(map(_as_key, leaves)))


def _as_key(leaf) -> Hashable:
    """A leaf so that equal ones do the same: 1, 1.0 and True are told apart, an array is its bytes."""
    if isinstance(leaf, np.ndarray | jax.Array):
        array = np.asarray(leaf)
        return type(leaf), array.dtype.str, array.shape, array.tobytes()
    return type(leaf), leaf


def traced_once(function: Callable, *arguments) -> Any:
    """`function(*arguments)`, which gives arrays; traced once for arguments that differ in arrays alone.

    So are its derivatives, along the same leaves, and its batches: what jax keeps of them, it keeps with the
    trace. XLA sees the same operations as without. `function` reads nothing but its arguments.
    """
    numbers, others = eqx.partition(arguments, eqx.is_array)
    return _called(numbers, Static((function, others)))


@functools.partial(jax.jit, static_argnums=1)
def _called(numbers, others: Static):
    function, rest = others.tree
    return function(*eqx.combine(numbers, rest))
