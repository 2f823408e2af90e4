"""Sums and merges along a binary tree that depends on nothing but the order of what is added."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def pairwise_sum(a: jax.Array) -> jax.Array:
    """The sum over the last axis, adding the two halves until one element is left.

    XLA's own reduction picks its order by the shape of the whole array: on jax 0.12 the bits of a row's sum
    change with the number of rows. Elementwise additions leave it no choice, and are as fast.
    """
    length = a.shape[-1]
    whole = 1 << max(length - 1, 0).bit_length()
    if whole != length:
        a = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, whole - length)])
    while a.shape[-1] > 1:
        half = a.shape[-1] // 2
        a = a[..., :half] + a[..., half:]
    return a[..., 0]


def extremes(x: jax.Array, valid: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Smallest and largest valid entry along the last axis; inf and -inf where there is none."""
    return jnp.min(jnp.where(valid, x, jnp.inf), -1), jnp.max(jnp.where(valid, x, -jnp.inf), -1)


def above_least(x: jax.Array, valid: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The smallest valid entry along the last axis, and by how much each exceeds it, zero where not valid.

    Sums of squares about one of the sample's own values lose at most a factor of its size in accuracy,
    however large the mean, and are exactly zero when all values are equal.
    """
    least = jnp.min(jnp.where(valid, x, jnp.inf), -1)
    least = jnp.where(jnp.any(valid, -1), least, 0.0)
    return least, jnp.where(valid, x - least[..., None], 0.0)


Nodes = Any  # a NamedTuple of arrays that share their leading axis
Levels = tuple[Nodes | None, ...]


def add_leaves(levels: Levels, leaves: Nodes, join: Callable[[Nodes, Nodes], Nodes]) -> Levels:
    """Hang further leaves into the tree: `levels[k]` holds the node of 2^k leaves that waits for its twin.

    Which leaves meet depends on their positions alone, not on how they were grouped on arrival, and whole
    groups are joined at once.
    """
    tree = list(levels)
    level = 0
    while len(leaves[0]):
        if level == len(tree):
            tree.append(None)
        waiting = tree[level]
        if waiting is not None:
            leaves = type(leaves)(*(np.concatenate(pair) for pair in zip(waiting, leaves, strict=True)))
            tree[level] = None
        if len(leaves[0]) % 2:
            tree[level] = type(leaves)(*(array[-1:] for array in leaves))
            leaves = type(leaves)(*(array[:-1] for array in leaves))
        evens = type(leaves)(*(array[0::2] for array in leaves))
        odds = type(leaves)(*(array[1::2] for array in leaves))
        leaves = join(evens, odds)
        level += 1
    return tuple(tree)


def root(levels: Levels, join: Callable[[Nodes, Nodes], Nodes]) -> Nodes | None:
    """The whole tree as one node, waiting ones joined from the smallest up; None when there are no leaves."""
    total = None
    for node in levels:
        if node is not None:
            total = node if total is None else join(node, total)
    return total
