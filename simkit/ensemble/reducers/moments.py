"""Count, mean, variance, their standard errors, and extremes."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.reducers.pairwise import (
    Tree,
    above_least,
    add_leaves,
    add_tree,
    extremes,
    joint_mean,
    pairwise_sum,
    root,
)
from simkit.ensemble.reducers.reducer import (
    AbstractReducer,
    Array,
    Label,
    Rows,
    as_rows,
    by_name,
    stacked,
    statistic,
)


class MomentNodes(NamedTuple):
    """Count `(leaves,)`; mean, summed powers of deviations, smallest and largest value `(leaves, rows)`."""

    count: Array
    mean: Array
    m2: Array
    m3: Array
    m4: Array
    low: Array
    high: Array


@statistic
class Moments(AbstractReducer):
    r"""Sample mean, unbiased variance, standard errors of both, minimum and maximum of every row.

    Squares are summed about a value of the leaf itself and leaves joined as in Chan, Golub & LeVeque (1983),
    doi:10.1080/00031305.1983.10483115, so a small variance about a large mean does not cancel, and that of
    equal values is exactly 0. The standard errors are those of independent replicates, that of the variance
    from $\mathrm{Var}\,s^2 = (\mu_4 - \sigma^4 (n - 3)/(n - 1))/n$. Statistics that the sample is too small
    for are NaN.

    `finish` returns `n`, `()`, and for each quantity `<name>_mean`, `_variance`, `_stderr`,
    `_variance_stderr`, `_min` and `_max`, `(rows,)`.
    """

    name = "moments"
    labels: ClassVar = {
        "mean": Label("mean of {}"),
        "stderr": Label("standard error of the mean of {}"),
        "variance": Label("variance of {}", power=2),
        "variance_stderr": Label("standard error of the variance of {}", power=2),
        "min": Label("smallest {}"),
        "max": Label("largest {}"),
    }
    rows: Rows = eqx.field(converter=as_rows, static=True)

    def update(self, values, valid):
        x = stacked(values, self.rows)
        count = jnp.sum(valid, -1)
        n = jnp.maximum(count, 1).astype(jnp.float64)

        def row(x):
            least, rise = above_least(x, valid)
            total, squares = pairwise_sum(jnp.stack([rise, jnp.square(rise)]))
            centred = jnp.where(valid, rise - (total / n)[..., None], 0.0)
            powers = pairwise_sum(jnp.stack([centred * jnp.square(centred), jnp.square(jnp.square(centred))]))
            m2 = jnp.maximum(squares - total * (total / n), 0.0)
            return (least + total / n, m2, *powers, *extremes(x, valid))

        # Row by row the temporaries stay in cache: a hundred rows at once took twice as long.
        return MomentNodes(count, *(array.T for array in jax.lax.map(row, x)))

    def init(self, leaf: int = 0) -> Tree:
        return Tree(leaf, leaf)

    def merge(self, state: Tree, partial: MomentNodes) -> Tree:
        return add_leaves(state, MomentNodes(*map(np.asarray, partial)), join_moments)

    def join(self, state: Tree, later: Tree) -> Tree:
        return add_tree(state, later, join_moments)

    def finish(self, state: Tree) -> dict[str, np.ndarray]:
        result = root(state, join_moments)
        if result is None:
            blank = np.zeros((1, sum(count for _, count in self.rows)))
            result = MomentNodes(np.zeros(1, np.int64), *[blank] * 6)
        n = int(result.count[0])
        nothing = np.full(result.mean.shape[1], np.nan)
        variance = result.m2[0] / (n - 1) if n > 1 else nothing
        statistics = {
            "mean": result.mean[0] if n else nothing,
            "variance": variance,
            "stderr": np.sqrt(variance / n) if n else nothing,
            "variance_stderr": _variance_error(n, variance, result.m4[0]) if n > 3 else nothing,
            # Adding 0.0 turns -0.0 into 0.0: which of the two an extreme is depends on the order.
            "min": result.low[0] + 0.0 if n else nothing,
            "max": result.high[0] + 0.0 if n else nothing,
        }
        named = {key: by_name(array, self.rows) for key, array in statistics.items()}
        flat = {f"{name}_{key}": named[key][name] for name, _ in self.rows for key in named}
        return {"n": np.asarray(n, np.int64), **flat}


def _variance_error(n: int, variance: Array, m4: Array) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.sqrt(np.maximum(m4 / n - np.square(variance) * ((n - 3) / (n - 1)), 0.0) / n)


def join_moments(a: MomentNodes, b: MomentNodes) -> MomentNodes:
    """The moments of the union of two samples, for each pair of nodes.

    Reference: Pébay (2008), Formulas for robust, one-pass parallel computation of covariances and
    arbitrary-order statistical moments, doi:10.2172/1028931.
    """
    count = a.count + b.count
    part = (b.count / np.maximum(count, 1))[:, None]
    rest = (a.count / np.maximum(count, 1))[:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        mean, difference = joint_mean(a, b, part)
        joint = a.count[:, None] * part
        m2 = a.m2 + b.m2 + np.square(difference) * joint
        m3 = (
            a.m3
            + b.m3
            + difference * (3 * (rest * b.m2 - part * a.m2) + np.square(difference) * joint * (rest - part))
        )
        inside = 4 * difference * (rest * b.m3 - part * a.m3)
        inside += 6 * np.square(difference) * (np.square(rest) * b.m2 + np.square(part) * a.m2)
        m4 = a.m4 + b.m4 + inside + difference**4 * joint * (rest**2 - rest * part + part**2)
    return MomentNodes(count, mean, m2, m3, m4, np.minimum(a.low, b.low), np.maximum(a.high, b.high))
