"""Anderson acceleration of fixed-point iterations."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import PyTree

from simkit_solvers.roots.picard import AbstractIteration, common_dtype, scaled_error, start_error

DEPENDENT = 100.0  # in units of rounding: a column whose rest is smaller than this says nothing new


class _AndersonState(eqx.Module):
    """The last iterate and residual, their last changes (newest first, stacked), and the error."""

    y: Any
    f: Any
    dy: Any
    df: Any
    started: Any
    error: Any


class Anderson(AbstractIteration):
    r"""Anderson acceleration of the fixed-point iteration $y = g(y)$, of depth $m$ with mixing $\beta$.

    With $f_n = g(y_n) - y_n$ and the last $m$ changes $\Delta y_j$, $\Delta f_j$ of iterates and residuals,
    $$y_{n+1} = y_n + \beta f_n - \sum_j \gamma_j (\Delta y_j + \beta\,\Delta f_j), \qquad
    \gamma = \arg\min \Bigl\| f_n - \sum_j \gamma_j\,\Delta f_j \Bigr\|_2 .$$
    On a linear problem it is equivalent to GMRES, and it often converges where Picard iteration oscillates
    or diverges. Any pytree of floating-point arrays; $2m$ copies of the state are stored. Stops where
    $|g(y) - y|$ is below `atol + rtol |y|`.

    The least squares problem is solved by the modified Gram–Schmidt process, newest change first: it works on
    pytrees leaf by leaf, `vmap` makes plain vector operations of it, and it loses half as many digits to
    nearly dependent changes as normal equations. A change that depends on newer ones is left out, so that a
    singular history restarts by itself. Raises `ValueError` for a depth below one.
    References: Anderson (1965), Iterative procedures for nonlinear integral equations,
    doi:10.1145/321296.321305; Walker & Ni (2011), Anderson acceleration for fixed-point iterations,
    doi:10.1137/10078356X.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Anderson, fixed_point
    >>> solution = fixed_point(lambda y, args: jnp.cos(y), Anderson(rtol=1e-5, atol=1e-6), 1.0)
    >>> round(float(solution.value), 4)
    0.7391
    """

    rtol: float
    atol: float
    norm: Callable = optx.max_norm
    depth: int = eqx.field(static=True, default=5)
    mixing: float = 1.0

    def __check_init__(self):
        if isinstance(self.depth, bool) or not isinstance(self.depth, int) or self.depth < 1:
            raise ValueError(
                f"Anderson.depth: must be a whole number from 1, got {self.depth!r}; without a history it is "
                "Picard"
            )

    def init(
        self,
        fn: Callable,
        y: PyTree,
        args: PyTree,
        options: dict[str, Any],
        f_struct: PyTree,
        aux_struct: PyTree,
        tags: frozenset,
    ) -> _AndersonState:
        history = jax.tree.map(lambda x: jnp.zeros((self.depth, *x.shape), x.dtype), y)
        return _AndersonState(y, y, history, history, jnp.asarray(False), start_error(y))

    def step(
        self, fn: Callable, y: PyTree, args: PyTree, options: dict[str, Any], state: PyTree, tags: frozenset
    ) -> tuple[PyTree, PyTree, PyTree]:
        g, aux = fn(y, args)
        f = jax.tree.map(jnp.subtract, g, y)

        def push(history, new, old):
            change = jnp.where(state.started, new - old, jnp.zeros_like(new))
            return jnp.concatenate([change[None], history[:-1]])

        dy = jax.tree.map(push, state.dy, y, state.y)
        df = jax.tree.map(push, state.df, f, state.f)
        columns = [jax.tree.map(lambda x, j=j: x[j], df) for j in range(self.depth)]
        new = jax.tree.map(lambda x, r: x + self.mixing * r, y, f)
        for j, gamma in enumerate(least_squares(columns, f)):

            def correct(x, p, q, j=j, gamma=gamma):
                return x - gamma.astype(x.dtype) * (p[j] + self.mixing * q[j])

            new = jax.tree.map(correct, new, dy, df)
        return new, _AndersonState(y, f, dy, df, jnp.asarray(True), scaled_error(self, f, y)), aux


def least_squares(columns: list, b: PyTree) -> list:
    """The coefficients that minimise $|b - \\sum_j x_j a_j|_2$, by the modified Gram–Schmidt process.

    Columns and `b` are pytrees of one structure. A column that depends on those before it, up to rounding,
    has the coefficient 0.
    """
    tiny = DEPENDENT * max(float(jnp.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(b))
    basis: list[Any] = []
    R: list[list] = []
    projections, used = [], []
    for column in columns:
        before, row = _dot(column, column), []
        for q in basis:
            row.append(_dot(q, column))
            column = _subtract(column, row[-1], q)
        square = _dot(column, column)
        keep = square > tiny**2 * before
        # The root of zero would have an infinite derivative.
        length = jnp.sqrt(jnp.where(keep, square, jnp.ones_like(square)))
        scale = jnp.where(keep, 1 / length, jnp.zeros_like(length))
        basis.append(jax.tree.map(lambda x, s=scale: x * s.astype(x.dtype), column))
        projections.append(_dot(basis[-1], b))
        b = _subtract(b, projections[-1], basis[-1])
        R.append([*row, length])
        used.append(keep)
    x: list[Any] = [None] * len(columns)
    for i in reversed(range(len(columns))):
        rest = projections[i]
        for j in range(i + 1, len(columns)):
            rest = rest - R[j][i] * x[j]
        x[i] = jnp.where(used[i], rest / R[i][i], jnp.zeros_like(rest))
    return x


def _dot(a, b):
    """The inner product of two pytrees in their widest type."""
    dtype = common_dtype(a)
    products = [jnp.sum(x * y).astype(dtype) for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)]
    return sum(products[1:], products[0])


def _subtract(a, weight, b):
    return jax.tree.map(lambda x, y: x - weight.astype(x.dtype) * y, a, b)
