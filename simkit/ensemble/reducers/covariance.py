"""Covariances between the final values of all quantities."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.reducers.pairwise import (
    Tree,
    above_least,
    add_leaves,
    add_tree,
    joint_mean,
    pairwise_sum,
    root,
)
from simkit.ensemble.reducers.reducer import AbstractReducer, Rows, as_rows, stacked, statistic


class CovarianceNodes(NamedTuple):
    """Count `(leaves,)`, mean `(leaves, quantities)`, summed products of deviations `(leaves, q, q)`."""

    count: np.ndarray
    mean: np.ndarray
    products: np.ndarray


@statistic
class Covariance(AbstractReducer):
    """The unbiased covariance matrix of the last rows of all quantities.

    Leaves are joined by the formula of Chan, Golub & LeVeque (1983), doi:10.1080/00031305.1983.10483115, for
    products in place of squares. With fewer than two replicates every entry is NaN.

    `finish` returns `covariance`, `(quantities, quantities)`, in the order of `quantity`, their names.
    """

    name = "covariance"
    rows: Rows = eqx.field(converter=as_rows, static=True)

    def update(self, values, valid):
        last = {name: values[name][-1:] for name, _ in self.rows}
        least, rise = above_least(stacked(last, tuple((name, 1) for name, _ in self.rows)), valid)
        # With the constant 1 as one more quantity, its products are the count and the sums.
        terms = jnp.concatenate([valid[None].astype(rise.dtype), rise])
        # One quantity against all at a time: all pairs at once would need memory for their square.
        products = jax.lax.map(lambda one: pairwise_sum(one * terms), terms)
        count, total = products[0, 0], products[0, 1:]
        mean = total / jnp.maximum(count, 1.0)
        central = products[1:, 1:] - total[:, None] * mean[None]
        return CovarianceNodes(count, (least + mean).T, central.transpose(2, 0, 1))

    def init(self, leaf: int = 0) -> Tree:
        return Tree(leaf, leaf)

    def merge(self, state: Tree, partial: CovarianceNodes) -> Tree:
        return add_leaves(state, CovarianceNodes(*map(np.asarray, partial)), join_products)

    def join(self, state: Tree, later: Tree) -> Tree:
        return add_tree(state, later, join_products)

    def finish(self, state: Tree) -> dict[str, np.ndarray]:
        result = root(state, join_products)
        n = 0 if result is None else int(result.count[0])
        size = len(self.rows)
        covariance = (
            np.full((size, size), np.nan) if result is None or n < 2 else result.products[0] / (n - 1)
        )
        return {"covariance": covariance, "quantity": np.array([name for name, _ in self.rows])}


def join_products(a: CovarianceNodes, b: CovarianceNodes) -> CovarianceNodes:
    """The co-moments of the union of two samples, for each pair of nodes."""
    count = a.count + b.count
    fraction = b.count / np.maximum(count, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        mean, difference = joint_mean(a, b, fraction[:, None])
        products = difference[:, :, None] * difference[:, None, :] * (a.count * fraction)[:, None, None]
        return CovarianceNodes(count, mean, a.products + b.products + products)
