"""Numbers in pairs, where the compiler makes a kernel of each array."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


def packing(carry):
    """How the scan's carry is laid out: real scalars of one dtype in pairs, as complex numbers.

    XLA's CPU compiler makes one kernel of each array that a loop body gives, and recomputes in each whatever
    they share, the noise above all; a pair in one complex array is one kernel.
    """
    leaves, tree = jax.tree.flatten(carry)
    by_dtype: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if leaf.shape == () and leaf.dtype in (jnp.float32, jnp.float64):
            by_dtype.setdefault(leaf.dtype, []).append(i)
    pairs = [tuple(where[i : i + 2]) for where in by_dtype.values() for i in range(0, len(where) - 1, 2)]
    paired = {i for pair in pairs for i in pair}

    def pack(carry):
        leaves = jax.tree.leaves(carry)
        return [jax.lax.complex(leaves[i], leaves[j]) for i, j in pairs], [
            leaf for i, leaf in enumerate(leaves) if i not in paired
        ]

    def unpack(packed):
        numbers, rest = packed
        found = dict(zip((i for i in range(len(leaves)) if i not in paired), rest, strict=True))
        for (i, j), z in zip(pairs, numbers, strict=True):
            found[i], found[j] = jnp.real(z), jnp.imag(z)
        return jax.tree.unflatten(tree, [found[i] for i in range(len(leaves))])

    return pack, unpack


class Paired(eqx.Module):
    """The numbers of a problem, its parameters in pairs.

    In reverse mode the loop carries the derivative with respect to each, and makes a kernel of each array.
    """

    packed: Any
    unpack: Callable = eqx.field(static=True)

    @classmethod
    def of(cls, numbers):
        pack, unpack = packing(numbers)
        return cls(pack(numbers), unpack)

    def unpacked(self):
        return self.unpack(self.packed)
