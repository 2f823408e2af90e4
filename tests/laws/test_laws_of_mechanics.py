"""Forces, periods and exact solutions of oscillators, pendulums, planets and stars."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk
from simkit_physics import (
    DampedOscillator,
    DoubleWell,
    FigureEight,
    HarmonicOscillator,
    HenonHeiles,
    Kepler,
    NBody,
    Pendulum,
    StochasticResonance,
)
from user_code import user_jit


def end(problem, start, t):
    rates = user_jit(lambda t, x: jnp.stack(problem.drift(t, problem.State(*x))))
    return solve_ivp(rates, (0, t), start, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]


def test_periods_of_pendulum_and_planet():
    """By the elliptic integral, and by Kepler's third law."""
    period = 4 * np.sqrt(0.7 / 9.81) * ellipk(np.sin(1.2) ** 2)
    np.testing.assert_allclose(end(Pendulum(m=2.0, l=0.7, g=9.81), (2.4, 0.0), period), (2.4, 0), atol=1e-9)
    m, GM, a, e = 3.0, 2.0, 1.3, 0.6
    start = ((1 - e) * a, 0.0, 0.0, m * np.sqrt(GM / a * (1 + e) / (1 - e)))
    problem, period = Kepler(m=m, GM=GM), 2 * np.pi * np.sqrt(a**3 / GM)
    np.testing.assert_allclose(end(problem, start, period), start, atol=1e-8)
    x, y, *_ = end(problem, start, period / 2)
    np.testing.assert_allclose((x, y), (-(1 + e) * a, 0), atol=1e-8)


def test_the_damped_oscillator_follows_its_solution():
    m, c, k, t = 2.0, 0.3, 1.5, 7.0
    rate, omega = c / (2 * m), np.sqrt(k / m - (c / (2 * m)) ** 2)
    wanted = np.exp(-rate * t) * (np.cos(omega * t) + rate / omega * np.sin(omega * t))
    assert end(DampedOscillator(m=m, c=c, k=k), (1.0, 0.0), t)[0] == pytest.approx(wanted, rel=1e-9)


def test_the_exact_oscillator_solves_its_equations():
    problem, t = HarmonicOscillator(m=2.0, k=3.0), jnp.asarray(0.7)
    y0 = HarmonicOscillator.State(jnp.asarray(0.4), jnp.asarray(-1.1))
    y, rates = jax.jvp(lambda t: problem.exact_mean(t, y0), (t,), (jnp.ones(()),))
    np.testing.assert_allclose(rates, problem.drift(t, y), rtol=1e-13)


def test_stars_may_leave_henon_heiles_at_a_sixth():
    problem = HenonHeiles(coupling=1.0)
    saddle = (jnp.asarray(0.0), jnp.asarray(1.0))
    np.testing.assert_allclose(problem.force(saddle), 0, atol=1e-15)
    assert problem.potential(saddle) == pytest.approx(1 / 6)


def test_two_of_the_bodies_attract_each_other_as_newton_says():
    problem = FigureEight(G=2.0, m=3.0)
    far = 1e6
    q = tuple(map(jnp.asarray, (0.0, 0.0, 3.0, 4.0, far, far)))
    np.testing.assert_allclose(problem.force(q)[:2], np.array([3.0, 4.0]) / 5 * 2 * 9 / 25, rtol=1e-9)
    soft = NBody(**{**NBody.example, "softening": 12.0, "m1": 3.0, "m2": 3.0, "G": 2.0})
    q = tuple(map(jnp.asarray, (0.0, 0.0, 3.0, 4.0, far, far, -far, far)))
    np.testing.assert_allclose(soft.force(q)[:2], np.array([3.0, 4.0]) * 2 * 9 / 13**3, rtol=1e-6)


def test_resonance_without_a_drive_is_the_double_well():
    D = 0.07
    problem = StochasticResonance(A=0.0, Omega=0.3, D=D)
    well = DoubleWell(gamma=1.0, u=D, b=1 / (4 * D), a=1.0)
    y, dW = StochasticResonance.State(jnp.asarray(0.6)), StochasticResonance.Noise(jnp.asarray(0.4))
    assert problem.drift(2.0, y).x == pytest.approx(float(well.drift(2.0, DoubleWell.State(y.x)).x))
    assert problem.noise(2.0, y, dW).x == pytest.approx(float(well.noise(2.0, DoubleWell.State(y.x), dW).x))
    driven = StochasticResonance(A=0.2, Omega=0.3, D=D).drift(2.0, y).x - problem.drift(2.0, y).x
    assert driven == pytest.approx(0.2 * np.cos(0.6))
