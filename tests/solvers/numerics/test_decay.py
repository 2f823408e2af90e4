"""The mean of an exponential decay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import mean_decay


@pytest.mark.parametrize("x", [-0.3, -0.2499, -1e-8, 0.0, 1e-12, 0.1, 0.2499, 0.2501, 3.0, 800.0])
def test_mean_decay(x):
    """Value and first derivative against Gauss–Legendre quadrature of their integrals over s in (0, 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    s = (nodes + 1) / 2
    for order, function in enumerate([mean_decay, jax.grad(mean_decay)]):
        if x < 100:
            wanted = np.sum(weights / 2 * (-s) ** order * np.exp(-x * s))
        else:
            wanted = (-1) ** order / x ** (order + 1)
        np.testing.assert_allclose(function(jnp.asarray(x)), wanted, rtol=1e-13)
