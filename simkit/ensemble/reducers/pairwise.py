"""Sums and merges along a binary tree that depends on nothing but the order of what is added."""

from collections.abc import Callable
from typing import Any, NamedTuple

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
Join = Callable[[Nodes, Nodes], Nodes]


class Tree(NamedTuple):
    """The leaves `first` to `end` of an ensemble, joined as far as their positions allow.

    At level k a node has 2^k leaves, and its number is that of its first leaf over 2^k. `waiting[k]` is an
    even node whose twin comes next, if there is one. `unpaired[k]` is an odd one whose twin lies before
    `first`.
    """

    first: int = 0
    end: int = 0
    unpaired: tuple[Nodes | None, ...] = ()
    waiting: tuple[Nodes | None, ...] = ()


def add_leaves(tree: Tree, leaves: Nodes, join: Join) -> Tree:
    """Hang further leaves into the tree.

    Which leaves meet depends on their positions alone, not on how they were grouped on arrival, and whole
    groups are joined at once.
    """
    return _add(tree, 0, leaves, join)


def add_tree(tree: Tree, later: Tree, join: Join) -> Tree:
    """Hang the nodes of a tree into the one that ends where it begins."""
    if tree.end != later.first:
        raise ValueError(f"a tree of leaves up to {tree.end} is followed by one from {later.first} on")
    for nodes, order in ((later.unpaired, 1), (later.waiting, -1)):
        for level, node in [*enumerate(nodes)][::order]:
            if node is not None:
                tree = _add(tree, level, node, join)
    return tree


def _add(tree: Tree, level: int, nodes: Nodes, join: Join) -> Tree:
    """Hang nodes of a level into the tree, at whose end they begin."""
    number, end = tree.end >> level, tree.end + (len(nodes[0]) << level)
    unpaired, waiting = [*tree.unpaired], [*tree.waiting]
    while len(nodes[0]):
        for row in (unpaired, waiting):
            row += [None] * (level + 1 - len(row))
        twin = waiting[level]
        if twin is not None:
            nodes = type(nodes)(*map(np.concatenate, zip(twin, nodes, strict=True)))
            waiting[level], number = None, number - 1
        elif number % 2:
            unpaired[level], number = _taken(nodes, slice(1)), number + 1
            nodes = _taken(nodes, slice(1, None))
        if len(nodes[0]) % 2:
            waiting[level], nodes = _taken(nodes, slice(-1, None)), _taken(nodes, slice(-1))
        nodes = join(_taken(nodes, slice(0, None, 2)), _taken(nodes, slice(1, None, 2)))
        level, number = level + 1, number // 2
    return Tree(tree.first, end, tuple(unpaired), tuple(waiting))


def joint_mean(a: Nodes, b: Nodes, part: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean of both samples `(nodes, rows)`, of which b is a `part`, and how far theirs are apart.

    That is 0 where one is empty: the square of a large number may be infinite, which times 0 is no number.
    """
    empty = a.count == 0
    difference = np.where((empty | (b.count == 0))[:, None], 0.0, b.mean - a.mean)
    return np.where(empty[:, None], b.mean, a.mean + difference * part), difference


def _taken(nodes: Nodes, where: slice) -> Nodes:
    return type(nodes)(*(array[where] for array in nodes))


def root(tree: Tree, join: Join) -> Nodes | None:
    """A tree from leaf 0 on as one node, waiting ones joined from the smallest up; None without leaves."""
    if tree.first:
        raise ValueError(f"the leaves before {tree.first} are missing")
    total = None
    for node in tree.waiting:
        if node is not None:
            total = node if total is None else join(node, total)
    return total
