"""Binary trees of Brownian paths: their leaves are independent normals that join to the root."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import simkit_solvers.random.brownian_tree
from brownian_trees import leaves, tree_of
from scipy import stats
from simkit_solvers import CoarsenedNoise, Draw
from solver_problems import Given
from user_code import user_jit


@pytest.mark.parametrize(("components", "areas"), [(1, 0), (2, 1), (1, 2), (2, 2)])
def test_the_leaves_of_a_tree_join_to_its_root(components, areas):
    tree = tree_of(jnp.uint32(7))
    result = leaves(tree, components, areas, 4)
    coarse = CoarsenedNoise(Given(result), 16).draws(components, areas, jnp.uint32(0), 1)
    whole = tree.roots.draws(components, areas, jnp.uint32(0), 1)
    np.testing.assert_allclose(jax.tree.leaves(coarse), jax.tree.leaves(whole), rtol=0, atol=1e-13)


@pytest.mark.more
@pytest.mark.parametrize("float64_normals", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_leaves_are_independent_standard_normals(float64_normals):
    """All three kinds on level 3 with two components: 48 numbers of each path."""
    paths = jnp.arange(2**14, dtype=jnp.uint32)
    result = user_jit(jax.vmap(lambda path: leaves(tree_of(path, 1, float64_normals), 2, 2, 3)))(paths)
    z = np.asarray(result, float).reshape(len(paths), -1)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    for array in (z, z**2 - 1):
        second = array.T @ array / np.sqrt(len(z)) / np.mean(array**2)
        off = second - np.diag(np.diag(second))
        assert np.abs(off).max() < 6
    assert np.abs(np.mean(z**2, axis=0) - 1).max() < 6 * np.sqrt(2 / len(z))


@pytest.mark.parametrize(
    ("components", "areas", "float64_normals"), [(1, 0, False), (3, 1, False), (2, 2, True)]
)
def test_no_two_places_share_a_counter(components, areas, float64_normals, monkeypatch):
    tree, used = tree_of(jnp.uint32(0), float64_normals=float64_normals), []

    def block(key, interval, counter):
        used.append((int(interval), int(counter)))
        return tree.bridge

    monkeypatch.setattr(simkit_solvers.random.brownian_tree, "block", block)
    whole = Draw(*((jnp.zeros(()),) * (components if kind <= areas else 0) for kind in range(3)))
    last = tree.levels(components, areas) - 1
    deep = [(last, 0), (last, 2**last - 1)]
    for interval in (0, 1, 2**32 - 1):
        for level, index in [(n, i) for n in range(4) for i in range(2**n)] + deep:
            tree.halves(whole, jnp.uint32(interval), jnp.uint32(level), jnp.uint32(index))
    assert len(set(used)) == len(used)
    per_word = 1 if float64_normals else 2
    assert len(used) == 3 * 17 * -(-components * (areas + 1) // per_word)


def test_too_many_components_are_refused():
    with pytest.raises(ValueError, match="noise: 20000 components leave a tree of 18 levels, fewer than 20"):
        tree_of(jnp.uint32(0), float64_normals=False).levels(20000, 0)
