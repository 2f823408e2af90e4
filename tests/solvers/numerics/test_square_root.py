"""The square root of full truncation, and its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import sqrt_positive


def test_sqrt_positive():
    x = jnp.asarray([-1.0, 0.0, 1e-300, 4.0])
    np.testing.assert_array_equal(sqrt_positive(x), [0.0, 0.0, 1e-150, 2.0])
    np.testing.assert_allclose(jax.vmap(jax.grad(sqrt_positive))(x), [0.0, 0.0, 5e149, 0.25])
    np.testing.assert_allclose(
        jax.vmap(jax.grad(jax.grad(sqrt_positive)))(x[jnp.array([0, 1, 3])]), [0, 0, -1 / 32]
    )
