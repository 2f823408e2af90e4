"""CIR and Heston where the square root meets zero, and the correlation of Heston's noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_examples import columns
from simkit_physics import CIR, Heston


@pytest.fixture(autouse=True)
def strict():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


def euler_path(problem, y, dt, normals):
    def step(y, z):
        drift, noise = problem.drift(0.0, y), problem.noise(0.0, y, problem.Noise(*(z * dt**0.5)))
        y = jax.tree.map(lambda y, a, b: y + dt * a + b, y, drift, noise)
        return y, y

    return jax.lax.scan(step, y, normals)


@pytest.mark.parametrize(
    ("problem", "y0"),
    [
        (CIR(kappa=0.5, theta=0.02, sigma=1.0), CIR.State(r=0.02)),
        (Heston(mu=0.05, kappa=0.5, theta=0.02, xi=1.0, rho=-0.7), Heston.State(S=100.0, v=0.02)),
        (Heston(mu=0.05, kappa=0.5, theta=0.02, xi=1.0, rho=-1.0), Heston.State(S=100.0, v=0.0)),
    ],
    ids=["CIR", "Heston", "Heston at rho = -1"],
)
@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_paths_through_zero_have_finite_gradients(problem, y0, jacobian):
    normals = jnp.asarray(np.random.default_rng(1).standard_normal((200, len(problem.Noise._fields))))
    problem, y0 = jax.tree.map(jnp.asarray, (problem, y0))
    _, path = euler_path(problem, y0, 0.01, normals)
    assert (path[-1] < 0).any()
    assert (path[-1] > 0).any()
    slopes = jax.tree.leaves(
        jacobian(lambda p, y: euler_path(p, y, 0.01, normals)[0], argnums=(0, 1))(problem, y0)
    )
    assert all(jnp.isfinite(s) for s in slopes)
    assert any(s != 0 for s in slopes)


def test_noise_is_off_and_drift_restores_below_zero():
    y = CIR.State(r=jnp.asarray(-0.3))
    problem = CIR(kappa=1.5, theta=0.04, sigma=0.3)
    assert problem.noise(0.0, y, CIR.Noise(W=jnp.asarray(1.0))).r == 0
    np.testing.assert_allclose(problem.drift(0.0, y).r, 1.5 * 0.04)


@pytest.mark.parametrize("rho", [-1.0, -0.7, 0.0, 0.4, 1.0])
def test_heston_covariance_of_increments(rho):
    r"""$g g^T$ is $v (S^2, \rho\xi S; \rho\xi S, \xi^2)$."""
    problem = Heston(mu=0.0, kappa=1.0, theta=0.04, xi=0.3, rho=rho)
    g = columns(problem, Heston.State(S=jnp.asarray(10.0), v=jnp.asarray(0.09)))
    np.testing.assert_allclose(
        g @ g.T, 0.09 * np.array([[100, 3 * rho], [3 * rho, 0.09]]), rtol=1e-14, atol=1e-16
    )
