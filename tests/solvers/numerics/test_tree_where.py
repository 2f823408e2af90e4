"""A choice between two trees."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from simkit_solvers.numerics.tree_where import tree_where


class Pair(NamedTuple):
    x: jax.Array
    n: jax.Array


def test_each_path_has_all_of_one_tree_or_all_of_the_other():
    one, other = Pair(jnp.arange(3.0), jnp.arange(3)), Pair(-jnp.ones(3), -jnp.ones(3, int))
    chosen = jax.vmap(tree_where)(jnp.asarray([True, False, True]), one, other)
    assert chosen.x.tolist() == [0.0, -1.0, 2.0]
    assert chosen.n.tolist() == [0, -1, 2]
    assert chosen.n.dtype == one.n.dtype
    with pytest.raises(ValueError, match=r"\bx\b"):
        tree_where(jnp.asarray(True), {"x": 1.0}, {"y": 1.0})
