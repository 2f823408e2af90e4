"""Sums over 64 to 127 blocks of a series of any length, for errors of tables and of functions of averages.

When 128 blocks are full, each two neighbours become one, and later blocks are twice as long. So the length of
a run need not be known, memory is that of 128 tables, and integers stay exact.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, PyTree

MOST = 128


class Blocks(NamedTuple):
    """Sums of what was added: each leaf has an axis of blocks in front. The last block may be incomplete."""

    seen: Int[Array, ""]
    length: Int[Array, ""]  # samples of a block
    sums: PyTree[Array]


def no_blocks(sample: PyTree, most: int = MOST) -> Blocks:
    """The state that has seen nothing, for samples like this one; `most` is even."""
    zeros = jax.tree.map(lambda a: jnp.zeros((most, *jnp.shape(a)), jnp.result_type(a)), sample)
    return Blocks(jnp.zeros((), jnp.int64), jnp.ones((), jnp.int64), zeros)


def with_block_sample(blocks: Blocks, sample: PyTree) -> Blocks:
    """The state after one more sample."""
    most = jax.tree.leaves(blocks.sums)[0].shape[0]
    full = blocks.seen == most * blocks.length
    # A loop of no or one iteration: a `cond` would copy the sums at every sample.
    sums = lax.fori_loop(0, full.astype(jnp.int32), lambda _, sums: jax.tree.map(_halved, sums), blocks.sums)
    length = jnp.where(full, 2 * blocks.length, blocks.length)
    block = blocks.seen // length
    sums = jax.tree.map(lambda a, s: a.at[block].add(s), sums, sample)
    return Blocks(blocks.seen + 1, length, sums)


def _halved(sums: jax.Array) -> jax.Array:
    pairs = sums[0::2] + sums[1::2]
    return jnp.concatenate([pairs, jnp.zeros_like(pairs)])


class BlockSums(NamedTuple):
    """The sums of replicas in NumPy: of each block, axes (replica, block), and of everything.

    `length` is the number of samples of a block, and `samples` that of all replicas, with incomplete blocks.
    """

    length: int
    samples: int
    complete: Any
    everything: Any

    @property
    def replicas(self) -> int:
        return jax.tree.leaves(self.complete)[0].shape[0]

    @property
    def blocks(self) -> int:
        """The complete blocks of a replica."""
        return jax.tree.leaves(self.complete)[0].shape[1]


def in_one_block(tree: Any) -> Any:
    """The tree with all blocks of each of its sums as one, that of a replica.

    Blocks of replicas that differ for good are not alike; replicas are.
    """

    def merged(blocks: Any) -> Any:
        if not isinstance(blocks, Blocks):
            return blocks
        sums = jax.tree.map(lambda a: np.asarray(a).sum(0, keepdims=True), blocks.sums)
        return Blocks(blocks.seen, jnp.maximum(blocks.seen, 1), sums)

    return jax.tree.map(merged, tree, is_leaf=lambda each: isinstance(each, Blocks))


def block_sums(replicas: Blocks | Sequence[Blocks]) -> BlockSums:
    """The sums of one state, of states with an axis of replicas, or of a list of them."""
    if isinstance(replicas, Blocks):
        axes = (None,) if np.ndim(replicas.seen) == 0 else ()
        stacked = jax.tree.map(lambda a: np.asarray(a)[axes], replicas)
    else:
        stacked = jax.tree.map(lambda *a: np.stack([np.asarray(each) for each in a]), *replicas)
    counts = np.unique(stacked.seen)
    if len(counts) > 1:
        raise ValueError(f"replicas must have equally many samples, got {', '.join(map(str, counts))}")
    length = int(stacked.length[0])
    whole = int(counts[0]) // length
    return BlockSums(
        length,
        int(stacked.seen.sum()),
        jax.tree.map(lambda a: a[:, :whole], stacked.sums),
        jax.tree.map(lambda a: a.sum((0, 1)), stacked.sums),
    )
