"""Andersen's step has the moments that it matches, and prices calls in few steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from simkit_physics import Heston
from simkit_solvers import (
    AndersenQE,
    CounterNoise,
    Draw,
    EulerMaruyama,
    Grid,
    States,
    integrate,
    seed_key,
    stepper_for,
)
from simkit_solvers.methods.sde.andersen_qe import PSI_C
from user_code import user_jit

LIMIT = 5  # in standard errors: once in a million


# kappa, theta, xi, rho, v, h: variances inside, near zero and at it.
STEPS = {
    "quadratic": (4.0, 0.25, 1.0, -0.5, 0.2, 0.05),
    "quadratic, from zero": (4.0, 0.25, 1.0, -0.5, 0.0, 0.0625),
    "exponential": (0.5, 0.04, 1.0, -0.9, 0.01, 0.1),
    "exponential, long": (0.5, 0.04, 1.0, -0.9, 0.04, 1.0),
    "exponential, from zero": (0.5, 0.04, 1.0, 0.5, 0.0, 0.0625),
}


def quadrature(break_at):
    """Nodes and weights for a standard normal, Gauss–Legendre on either side of a kink."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    parts = [
        ((b - a) / 2 * nodes + (a + b) / 2, (b - a) / 2 * weights) for a, b in ((-9, break_at), (break_at, 9))
    ]
    z, w = (np.concatenate(x) for x in zip(*parts, strict=True))
    return z, w * stats.norm.pdf(z)


@functools.cache
def andersen_step():
    stepper = stepper_for(AndersenQE())

    @user_jit
    @functools.partial(jax.vmap, in_axes=(None, 0, 0))
    def step(case, along, independent):
        kappa, theta, xi, rho, v, h = case
        across = jnp.sqrt(1 - rho * rho)
        draw = Draw((rho * along + across * independent, across * along - rho * independent))
        model = Heston(0.07, kappa, theta, xi, rho)
        return stepper.step(model, 0.0, h, Heston.State(jnp.asarray(100.0), v), draw, None)[0]

    return step


@pytest.mark.parametrize("name", STEPS)
def test_andersen_s_step_matches_the_moments_and_is_a_martingale(name):
    case = kappa, theta, xi, rho, v, h = STEPS[name]
    model, y = Heston(0.07, kappa, theta, xi, rho), Heston.State(100.0, v)
    mean, variance = float(model.exact_mean(h, y).v), float(model.exact_variance(h, y).v)
    psi = variance / mean**2
    assert (psi <= PSI_C) == name.startswith("quadratic")
    z, w = quadrature(stats.norm.ppf((psi - 1) / (psi + 1)) if psi > PSI_C else 0.0)
    hermite, weight = np.polynomial.hermite_e.hermegauss(24)
    along, independent = (x.ravel() for x in np.meshgrid(z, hermite))
    weights = np.outer(weight / weight.sum(), w).ravel()
    ends = andersen_step()(tuple(map(jnp.asarray, case)), jnp.asarray(along), jnp.asarray(independent))
    S, variances = np.asarray(ends.S), np.asarray(ends.v)
    assert (variances >= 0).all()
    assert weights @ variances == pytest.approx(mean, rel=1e-9)
    assert weights @ (variances - mean) ** 2 == pytest.approx(variance, rel=1e-8)
    assert weights @ S == pytest.approx(100 * np.exp(0.07 * h), rel=1e-9)


CALLS = {
    80: 26.774758743998854,
    90: 20.933349000596710,
    100: 16.070154917028834,
    110: 12.132211516709845,
    120: 9.0249134834578356,
}


def call_errors(solver):
    """Means minus prices in units of their standard errors, with the price itself as control variate."""
    model = Heston(-0.01, 4.0, 0.25, 1.0, -0.5)
    start = Heston.State(jnp.float32(100), jnp.float32(0.04))

    def one(path):
        noise = CounterNoise.of(seed_key(1), path)
        return integrate(model, solver, start, Grid(0.0, 1 / 16, 16, 16), noise, States())["S"][-1]

    S = np.asarray(user_jit(jax.vmap(one))(jnp.arange(2**18, dtype=jnp.uint32)), float)
    results = []
    for K, exact in CALLS.items():
        payoff = np.exp(-0.01) * np.maximum(S - K, 0)
        slope = np.cov(payoff, S)[0, 1] / np.var(S)
        controlled = payoff - slope * (S - 100 * np.exp(-0.01))
        results.append((controlled.mean() - exact) / (controlled.std() / np.sqrt(S.size)))
    return np.array(results)


@pytest.mark.more
def test_andersen_s_sixteen_steps_price_calls_and_euler_s_do_not():
    assert np.abs(call_errors(AndersenQE())).max() < LIMIT
    assert np.abs(call_errors(EulerMaruyama())).max() > LIMIT
