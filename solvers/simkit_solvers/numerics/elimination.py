"""Gaussian elimination for small matrices, one for each path.

Written out over scalars, under `vmap` each entry of the matrix is a vector over paths and the elimination one
fused kernel, where a library's factorisation would be called once for each path. The text grows with the cube
of the size, and so does the time to compile it: `inverse` is a loop over the columns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class Factors(NamedTuple):
    """$PA = LU$: `rows` hold $U$ and, below the diagonal, $L$; `swaps` are the exchanges that make up $P$."""

    rows: list[list]
    swaps: list


def factorise(rows: Sequence[Sequence[jax.Array]]) -> Factors:
    """The factors of a square matrix, a list of rows of scalars, with partial pivoting.

    A singular matrix gives a zero pivot, and infinities or NaN where it is solved with.
    """
    a, n, swaps = [list(row) for row in rows], len(rows), []
    for k in range(n):
        for i in range(k + 1, n):
            # Pairwise comparison brings the largest entry up without an index that differs between paths.
            larger = jnp.abs(a[i][k]) > jnp.abs(a[k][k])
            upper = [jnp.where(larger, q, p) for p, q in zip(a[k], a[i], strict=True)]
            a[i] = [jnp.where(larger, p, q) for p, q in zip(a[k], a[i], strict=True)]
            a[k] = upper
            swaps.append(larger)
        for i in range(k + 1, n):
            a[i][k] = a[i][k] / a[k][k]
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - a[i][k] * a[k][j]
    return Factors(a, swaps)


def solve(factors: Factors, b: list) -> list:
    """The solution of $Ax = b$, a list of scalars."""
    a, x, n = factors.rows, list(b), len(b)
    pairs = [(k, i) for k in range(n) for i in range(k + 1, n)]
    for (k, i), larger in zip(pairs, factors.swaps, strict=True):
        x[k], x[i] = jnp.where(larger, x[i], x[k]), jnp.where(larger, x[k], x[i])
    for i in range(n):
        for j in range(i):
            x[i] = x[i] - a[i][j] * x[j]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - a[i][j] * x[j]
        x[i] = x[i] / a[i][i]
    return x


def solve_sparse(rows: list[list], b: list) -> tuple[list, jax.Array]:
    """The solution of $Ax = b$ and whether A is singular, for scalars and None, which is zero for all paths.

    Rows with one unknown left are solved first, which is all there is to do for a triangular matrix however
    it is permuted, and what remains by `factorise`. The solution is not finite where A is singular.
    """
    x: list = [None] * len(b)
    left, unknown = list(range(len(b))), list(range(len(b)))
    pivots = []

    def rest(i):
        """The right-hand side of row i without what is known."""
        total = b[i]
        for a, value in zip(rows[i], x, strict=True):
            if a is not None and value is not None:
                total = -a * value if total is None else total - a * value
        return total

    while True:
        inside = {i: [j for j in unknown if rows[i][j] is not None] for i in left}
        single = next((i for i, columns in inside.items() if len(columns) == 1), None)
        if single is None:
            break
        (j,) = inside[single]
        right, pivot = rest(single), rows[single][j]
        x[j] = None if right is None else right / pivot
        pivots.append(pivot)
        left.remove(single)
        unknown.remove(j)
    like = next(each for row in [b, *rows] for each in row if each is not None)
    zero = jnp.zeros_like(like)
    if left:
        dense = [[zero if rows[i][j] is None else rows[i][j] for j in unknown] for i in left]
        right = [rest(i) for i in left]
        factors = factorise(dense)
        pivots += [row[i] for i, row in enumerate(factors.rows)]
        for j, value in zip(unknown, solve(factors, [zero if r is None else r for r in right]), strict=True):
            x[j] = value
    singular = jnp.zeros_like(like, bool)
    for pivot in pivots:
        singular = singular | (pivot == 0)
    return x, singular


def inverse(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    r"""The inverse of a matrix (n, n), by n exchanges with partial pivoting; not finite for a singular one.

    An exchange solves one row of $Ax = b$ for an unknown in terms of the others and of the row's right-hand
    side, and puts that into the other rows. Rows stay where they are: row $p_k$ is solved for unknown k, and
    in the end holds $x_k$ in terms of $b_{p_j}$ in column j. All n are Gauss–Jordan elimination.
    Reference: Higham (2002), Accuracy and Stability of Numerical Algorithms, doi:10.1137/1.9780898718027,
    section 14.4.
    """
    n = a.shape[0]
    place = jnp.arange(n)

    def exchange(state, k):
        a, rows, free = state
        column = a[:, k]
        size = jnp.where(free, jnp.abs(column), -1)
        p = jnp.min(jnp.where(size == jnp.max(size), place, n))  # cheaper than argmax
        chosen, at_k = place == p, place == k
        row = jnp.sum(jnp.where(chosen[:, None], a, 0), 0)
        row = jnp.where(at_k, 1, -row) / row[k]
        a = jnp.where(chosen[:, None], row, jnp.where(at_k, 0, a) + column[:, None] * row)
        return (a, jnp.where(at_k, p, rows), free & ~chosen), None

    start = a, jnp.zeros_like(place), jnp.ones(n, bool)
    (solved, rows, _), _ = jax.lax.scan(exchange, start, place)
    unknowns = jnp.sum(jnp.where(rows == place[:, None], place, 0), 1)
    return solved[rows][:, unknowns]
