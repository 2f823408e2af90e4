"""Compiled programs, kept for later runs that differ in numbers alone."""

import dataclasses
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

KEPT = 64

_kept: OrderedDict[Hashable, Callable] = OrderedDict()


def compiled(program: Callable, *arguments) -> tuple[Callable, float]:
    """`program` compiled for arguments of these shapes and types, and the seconds that this took.

    Two programs are the same where they are equal: frozen dataclasses whose fields are all that their call
    reads. The last ones used are kept.
    """
    start = time.perf_counter()
    leaves, structure = jax.tree.flatten(arguments)
    key = program, structure, tuple((np.shape(x), jax.numpy.result_type(x)) for x in leaves)
    found = _kept.pop(key, None)
    if found is None:
        found = jax.jit(program).lower(*arguments).compile()
    _kept[key] = found
    if len(_kept) > KEPT:
        _kept.popitem(last=False)
    return found, time.perf_counter() - start


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
