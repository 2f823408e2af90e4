"""How coupled oscillators synchronize: Kuramoto's model with spread frequencies, with two, and with noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import i0, i1
from simkit_physics import (
    MODELS,
)
from simkit_physics.nonlinear.kuramoto import AbstractKuramoto
from simkit_physics.sized import of_size
from simkit_solvers import (
    Scalar,
)
from solver_problems import OneNoise
from user_code import user_jit


class PhasesState(NamedTuple):
    theta: Scalar


class Phases(AbstractKuramoto):
    """Any number of phases, as one array."""

    State = PhasesState
    Noise = OneNoise
    K: Scalar
    gamma: Scalar
    D: Scalar
    omega: Scalar = 0.0


def order_after(K, gamma, D, count, dt, steps):
    """The order parameter over the second half of an Euler run that begins with equal phases."""
    problem = Phases(K=K, gamma=gamma, D=D)
    draw = jnp.sqrt(dt)

    def step(theta, key):
        y = PhasesState(theta)
        dW = OneNoise(draw * jax.random.normal(key, theta.shape))
        theta = theta + dt * problem.drift(0.0, y).theta + problem.noise(0.0, y, dW).theta
        return theta, problem.order_parameter(PhasesState(theta))

    keys = jax.random.split(jax.random.key(2), steps)
    return jax.lax.scan(step, jnp.zeros(count), keys)[1][steps // 2 :].mean()


def test_phases_synchronize_beyond_the_critical_coupling():
    r"""$r = \sqrt{1 - K_c/K}$ beyond $K_c = 2\gamma$, and nothing but a remnant of few phases below."""
    couplings = np.array([0.5, 0.8, 1.25, 2.0, 4.0])
    orders = user_jit(jax.vmap(lambda K: order_after(K, 0.5, 0.0, 1000, 0.05, 1600)))(jnp.asarray(couplings))
    assert (orders[:2] < 0.1).all()
    np.testing.assert_allclose(orders[2:], np.sqrt(1 - 1 / couplings[2:]), atol=0.02)


def test_two_oscillators_of_given_frequencies_lock_or_slip():
    r"""$\varphi = \theta_2 - \theta_1$ obeys $\dot\varphi = \Delta\omega - K \sin\varphi$: it rests at
    $\arcsin(\Delta\omega/K)$, or turns with the mean rate $\sqrt{\Delta\omega^2 - K^2}$."""
    model = of_size(MODELS["Kuramoto"], 2)

    def difference(K, until):
        problem = model(K=K, gamma=0.0, D=0.0, omega1=0.3, omega2=1.3)
        rate = user_jit(lambda y: jnp.stack(problem.drift(0.0, model.State(y[0], y[1]))))
        run = solve_ivp(lambda t, y: np.asarray(rate(y)), (0, until), [0.0, 0.0], rtol=1e-10, atol=1e-10)
        return run.y[1, -1] - run.y[0, -1]

    assert difference(1.25, 40.0) == pytest.approx(np.arcsin(0.8), abs=1e-7)
    assert difference(0.6, 8 * 2 * np.pi / 0.8) == pytest.approx(8 * 2 * np.pi, abs=1e-6)


@pytest.mark.slow
def test_noise_desynchronizes_equal_oscillators_below_twice_its_strength():
    r"""With one frequency for all $K_c = 2D$, and beyond it $r = I_1(Kr/D)/I_0(Kr/D)$."""
    D, couplings = 0.5, np.array([0.6, 1.5, 3.0])
    orders = user_jit(jax.vmap(lambda K: order_after(K, 0.0, D, 4000, 0.02, 1500)))(jnp.asarray(couplings))
    assert orders[0] < 0.08
    for K, r in zip(couplings[1:], orders[1:], strict=True):
        wanted = brentq(lambda r, K=K: r - i1(K * r / D) / i0(K * r / D), 0.05, 0.999)
        assert r == pytest.approx(wanted, abs=0.02)
