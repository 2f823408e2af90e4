"""Linear maps that are their own transposes."""

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import self_adjoint


def agree(actual, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), actual, expected)


def test_a_self_adjoint_map_has_derivatives_in_what_is_given_too():
    """y = A v with A = M + M^T, of which M is given, against the program's own derivatives."""

    def program(M, v):
        return (M + M.T) @ v

    def self_adjoint_program(M, v):
        return self_adjoint(program, M, v)

    M, v = jnp.asarray([[1.0, 2.0], [-0.5, 3.0]]), jnp.asarray([0.3, -0.7])
    for transform in (jax.jacfwd, jax.jacrev):
        agree(transform(self_adjoint_program, (0, 1))(M, v), jax.jacrev(program, (0, 1))(M, v))
    agree(
        jax.vmap(self_adjoint_program, (None, 0))(M, jnp.stack([v, 2 * v])),
        jnp.stack([program(M, v), program(M, 2 * v)]),
    )
    agree(jax.vmap(self_adjoint_program, (0, None))(jnp.stack([M, M.T]), v), jnp.stack([program(M, v)] * 2))
