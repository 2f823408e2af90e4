"""Numbers in pairs, because the compiler makes a kernel for each array."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

FLOATS = {4: jnp.dtype(jnp.float32), 8: jnp.dtype(jnp.float64)}  # by their bytes


def packing(example: PyTree, as_bits: bool = False) -> tuple[Callable, Callable]:
    """Functions that pack what a loop carries and unpack it: pairs of real scalars become complex numbers.

    XLA's CPU compiler makes one kernel of each array that a loop body gives, and computes again in each what
    they share, the noise above all; a pair in one complex array is one kernel. With `as_bits` scalars of any
    types of one width make a pair, by their bits, which have no derivative.
    """
    leaves, tree = jax.tree.flatten(example)
    dtypes = [leaf.dtype for leaf in leaves]
    by_kind: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        kind = FLOATS.get(leaf.dtype.itemsize) if as_bits else leaf.dtype
        if leaf.shape == () and kind in FLOATS.values():
            by_kind.setdefault(kind, []).append(i)
    pairs = [tuple(where[i : i + 2]) for where in by_kind.values() for i in range(0, len(where) - 1, 2)]
    paired = {i for pair in pairs for i in pair}
    single = [i for i in range(len(leaves)) if i not in paired]

    def pack(carry: PyTree) -> tuple[list, list]:
        numbers = jax.tree.leaves(carry)
        if as_bits:
            numbers = [jax.lax.bitcast_convert_type(x, FLOATS[x.dtype.itemsize]) for x in numbers]
        return [jax.lax.complex(numbers[i], numbers[j]) for i, j in pairs], [numbers[i] for i in single]

    def unpack(packed: tuple[list, list]) -> PyTree:
        numbers = dict(zip(single, packed[1], strict=True))
        for (i, j), z in zip(pairs, packed[0], strict=True):
            numbers[i], numbers[j] = jnp.real(z), jnp.imag(z)
        in_order = [numbers[i] for i in range(len(dtypes))]
        if as_bits:
            in_order = list(map(jax.lax.bitcast_convert_type, in_order, dtypes))
        return jax.tree.unflatten(tree, in_order)

    return pack, unpack


class Paired(eqx.Module):
    """The numbers of a problem, its parameters in pairs.

    In reverse mode the loop carries the derivative with respect to each, and makes a kernel of each array.
    """

    packed: Any
    unpack: Callable = eqx.field(static=True)

    @classmethod
    def of(cls, numbers: PyTree) -> "Paired":
        pack, unpack = packing(numbers)
        return cls(pack(numbers), unpack)

    def unpacked(self) -> PyTree:
        return self.unpack(self.packed)
