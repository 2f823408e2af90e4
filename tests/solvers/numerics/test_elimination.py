"""Elimination gives what NumPy gives, whatever is exchanged or left out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers.numerics.elimination import factorise, inverse, solve, solve_sparse


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_known_zeros_are_left_out(order):
    """A row with one unknown, one with it and another, two that need elimination; and zeros to the right."""
    matrix = np.array([[2.0, 0, 0, 0], [1, 3, 0, 0], [0, 1, 1e-9, 2], [1, 0, 4, 1]])[order]
    right = np.array([0.0, 1, 2, 3])[order]
    rows = [[None if x == 0 else jnp.asarray(x) for x in row] for row in matrix]
    solution, singular = solve_sparse(rows, [None if x == 0 else jnp.asarray(x) for x in right])
    assert solution[0] is None
    np.testing.assert_allclose(
        [0 if x is None else x for x in solution], np.linalg.solve(matrix, right), rtol=1e-9
    )
    assert not singular
    first = order.index(0)
    rows[first] = [jnp.asarray(0.0), None, None, None]
    assert solve_sparse(rows, [jnp.asarray(x) for x in right])[1]


def test_elimination_by_numpy():
    """With rows that must be exchanged, each matrix its own under vmap; a singular one is not finite."""
    rng = np.random.default_rng(2)
    matrices, right = rng.standard_normal((50, 5, 5)), rng.standard_normal((50, 5))
    matrices[:, 0, 0] = 0.0
    matrices[10:, 1, :2] = 0.0
    matrices[1] = np.eye(5)[::-1]

    def by_elimination(matrix, b):
        factors = factorise([list(row) for row in matrix])
        return jnp.stack(solve(factors, list(b)))

    solution = jax.jit(jax.vmap(by_elimination))(matrices, right)
    np.testing.assert_allclose(solution, np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-9)
    assert not np.isfinite(by_elimination(jnp.ones((2, 2)), jnp.asarray([1.0, 2.0]))).any()
    exchanged = jax.jit(jax.vmap(inverse))
    np.testing.assert_allclose(exchanged(matrices), np.linalg.inv(matrices), rtol=1e-9, atol=1e-12)
    nearly = np.array([[1e-17, 1.0, 0, 0, 0], *np.eye(5)[[0, 2, 3, 4]]])
    np.testing.assert_allclose(exchanged(nearly[None])[0], np.linalg.inv(nearly), rtol=1e-12, atol=1e-12)
    assert not np.isfinite(exchanged(np.ones((1, 5, 5)))).all()


@pytest.mark.parametrize("seed", range(6))
def test_triangular_systems_are_solved_however_they_are_permuted(seed):
    """With zeros left out of the matrix and of the right-hand side, whose first number is not one of them."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.standard_normal((6, 6)) * (rng.random((6, 6)) < 0.7), -1) + np.diag(
        [1, -2, 3, 1, 2, -1]
    )
    right = rng.standard_normal(6) * (np.arange(6) == 0)
    matrix[1, 0] = 3.0
    rows, columns = rng.permutation(6), rng.permutation(6)
    matrix, right = matrix[rows][:, columns], right[rows]
    entries = [[None if x == 0 else jnp.asarray(x) for x in row] for row in matrix]
    solution, singular = solve_sparse(entries, [None if x == 0 else jnp.asarray(x) for x in right])
    found = [0 if x is None else x for x in solution]
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-12, atol=1e-14)
    assert not singular
