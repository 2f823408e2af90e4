"""Means of groups of paths that are independent of each other as a whole, such as scramblings of points."""

import equinox as eqx
import jax
import numpy as np

from simkit.ensemble.reducers.moments import MomentNodes, Moments, join_moments
from simkit.ensemble.reducers.pairwise import Tree, add_leaves, add_tree, root
from simkit.ensemble.reducers.reducer import AbstractReducer, Rows, as_rows, by_name


class GroupMoments(AbstractReducer):
    """As `Moments`, with the mean of the groups' means, and its standard error from their spread.

    Path i is in group i % `groups`, a power of two, so that any first paths have equally many of each. Whole
    groups are independent of each other, and paths within one are not.

    `finish` returns the figures of `Moments` for all paths, but `_mean`, `_stderr` and `_variance_stderr` are
    of the groups. `groups` is the number of those with a valid path, `ends` `(groups, quantities)` are their
    means in the last rows, NaN where no path is valid, and `covariance` is that of these.

    Groups may all have the same number of paths in which something happens. Then the standard error is that
    of one of all paths with the other extreme value.
    """

    name = Moments.name
    rows: Rows = eqx.field(converter=as_rows, static=True)
    groups: int = eqx.field(static=True)

    def update(self, values, valid):
        def apart(x):
            """`(…, leaves, lanes)` to `(…, leaves * groups, lanes / groups)`."""
            *rest, leaves, lanes = x.shape
            each = x.reshape(*rest, leaves, lanes // self.groups, self.groups).swapaxes(-1, -2)
            return each.reshape(*rest, leaves * self.groups, lanes // self.groups)

        nodes = Moments(self.rows).update({name: apart(x) for name, x in values.items()}, apart(valid))
        return jax.tree.map(lambda x: x.reshape(len(valid), self.groups, *x.shape[1:]), nodes)

    def init(self, leaf: int = 0) -> Tree:
        return Tree(leaf, leaf)

    def merge(self, state: Tree, partial: MomentNodes) -> Tree:
        return add_leaves(state, MomentNodes(*map(np.asarray, partial)), join_groups)

    def join(self, state: Tree, later: Tree) -> Tree:
        return add_tree(state, later, join_groups)

    def finish(self, state: Tree) -> dict[str, np.ndarray]:
        node = root(state, join_groups)
        if node is None:
            raise ValueError("there are no leaves")
        nodes = MomentNodes(*(np.asarray(x[0]) for x in node))
        of_paths = Moments(self.rows)
        means = np.where(nodes.count[:, None] > 0, nodes.mean, np.nan)
        valid = nodes.count > 0
        n, known = int(valid.sum()), means[valid]
        first = known[0] if n else np.full(means.shape[1], np.nan)
        centred = known - first  # so that equal means have exactly their own as mean
        shift = centred.sum(0) / max(n, 1)
        centred = centred - shift
        away = np.asarray(nodes.m2[valid] / nodes.count[valid, None]) + centred**2  # from the mean of all
        least = np.zeros(means.shape[1])
        if n > 1:
            range_of_paths = nodes.high[valid].max(0) - nodes.low[valid].min(0)
            least = np.where(centred.any(0), 0.0, range_of_paths / nodes.count.sum())
        statistics = {
            "mean": first + shift,
            "stderr": np.maximum(np.sqrt(_variance(centred) / max(n, 1)), least),
            "variance_stderr": np.sqrt(_variance(away - away.sum(0) / max(n, 1)) / max(n, 1)),
        }
        named = {key: by_name(array, self.rows) for key, array in statistics.items()}
        last = np.cumsum([count for _, count in self.rows]) - 1
        with np.errstate(invalid="ignore", divide="ignore"):
            covariance = np.einsum("gi,gj->ij", centred[:, last], centred[:, last]) / (n - 1)
        flat = {f"{name}_{key}": named[key][name] for name, _ in self.rows for key in named}
        all_paths = of_paths.finish(of_paths.merge(of_paths.init(), nodes))
        return all_paths | flat | {"groups": np.asarray(n), "covariance": covariance, "ends": means[:, last]}


def join_groups(a: MomentNodes, b: MomentNodes) -> MomentNodes:
    """The moments of each group in the union of two samples, for each pair of nodes."""
    nodes, groups = a.count.shape
    flat = (MomentNodes(*(x.reshape(nodes * groups, *x.shape[2:]) for x in each)) for each in (a, b))
    return MomentNodes(*(x.reshape(nodes, groups, *x.shape[1:]) for x in join_moments(*flat)))


def _variance(centred: np.ndarray) -> np.ndarray:
    n = len(centred)
    return (centred**2).sum(0) / (n - 1) if n > 1 else np.full(centred.shape[1], np.nan)
