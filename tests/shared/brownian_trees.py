"""Brownian trees of paths, their leaves, and programs over paths."""

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import BrownianTree, seed_key
from user_code import user_jit

GROUP = 8


def tree_of(path, seed=3, float64_normals=False):
    return BrownianTree.of(seed_key(seed), path, float64_normals)


def ensemble(one):
    """A program that gives `one(path, *numbers)` of the first path ids, in groups as an ensemble is run."""

    def run(paths, *numbers):
        ids = jnp.arange(paths, dtype=jnp.uint32).reshape(-1, GROUP)
        result = jax.lax.map(jax.vmap(lambda path: one(path, *numbers)), ids)
        return jax.tree.map(lambda x: x.reshape(paths, *x.shape[2:]), result)

    compiled = user_jit(run, static_argnums=0)
    return lambda paths, *numbers: jax.tree.map(np.asarray, compiled(paths, *numbers))


def leaves(tree, components, areas, level):
    """The normals of all intervals on one level of the first coarse interval: (kind, place, component)."""
    root = jax.tree.map(lambda z: z.astype(float), tree.root(components, areas, jnp.uint32(0)))

    def leaf(place):
        def down(n, whole):
            rest = jnp.uint32(level) - n.astype(jnp.uint32)
            left, right = tree.halves(whole, jnp.uint32(0), n.astype(jnp.uint32), place >> rest)
            side = (place >> (rest - jnp.uint32(1))) & jnp.uint32(1)
            return jax.tree.map(lambda x, y: jnp.where(side == 0, x, y), left, right)

        return jax.lax.fori_loop(0, level, down, root)

    normals = jax.vmap(leaf)(jnp.arange(2**level, dtype=jnp.uint32))
    return jnp.stack([jnp.stack(kind, 1) for kind in normals if kind])
