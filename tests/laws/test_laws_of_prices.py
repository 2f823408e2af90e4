"""Correlations, special cases and exact prices of the models of finance."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_examples import build, columns, state
from scipy.stats import kstest, ncx2, norm
from simkit_physics import (
    CEV,
    GBM,
    SABR,
    MultiAssetGBM,
    Vasicek,
)
from simkit_solvers import (
    CounterNoise,
    Grid,
    States,
    integrate,
    make_solver,
    seed_key,
)
from user_code import user_jit


def test_assets_have_the_requested_correlations():
    problem, y = build(MultiAssetGBM), state(MultiAssetGBM)
    own = np.diag([x * s for x, s in zip(y, (0.2, 0.15, 0.3), strict=True)])
    rho = np.array([[1, 0.5, 0.3], [0.5, 1, -0.2], [0.3, -0.2, 1]])
    g = columns(problem, y)
    np.testing.assert_allclose(g @ g.T, own @ rho @ own, rtol=1e-13)
    singular = MultiAssetGBM(**{**MultiAssetGBM.example, "rho12": 1.0, "rho13": 0.4, "rho23": 0.4})
    g = columns(singular, y)
    correlations = np.linalg.solve(own, np.linalg.solve(own, g @ g.T).T)
    np.testing.assert_allclose(correlations, [[1, 1, 0.4], [1, 1, 0.4], [0.4, 0.4, 1]], rtol=1e-13)


def test_impossible_correlations_are_refused():
    wrong = {**MultiAssetGBM.example, "rho12": 0.9, "rho13": 0.9, "rho23": -0.9}
    with pytest.raises(ValueError, match=r"^MultiAssetGBM\.rho12, rho13, rho23: .* must be >= 0, got -0\.8;"):
        MultiAssetGBM(**wrong)


def test_elasticity_one_is_gbm_and_no_volatility_of_volatility_is_cev():
    S, w = jnp.asarray(90.0), jnp.asarray(0.3)
    cev, gbm = CEV(mu=0.05, sigma=0.2, beta=1.0), GBM(mu=0.05, sigma=0.2)
    for name in ("drift", "noise"):
        more = () if name == "drift" else (CEV.Noise(w),)
        one, other = (getattr(model, name)(0.0, model.State(S), *more).S for model in (cev, gbm))
        assert one == pytest.approx(float(other), rel=1e-14)
    sabr = SABR(beta=0.4, nu=0.0, rho=-0.3).noise(0.0, SABR.State(S, jnp.asarray(2.0)), SABR.Noise(w, w))
    cev = CEV(mu=0.0, sigma=2.0, beta=0.4).noise(0.0, CEV.State(S), CEV.Noise(w))
    assert pytest.approx(float(cev.S), rel=1e-14) == sabr.F
    assert sabr.alpha == 0


@functools.cache
def ends(model, dt, steps):
    """Final states of Euler–Maruyama paths, for stacked parameters and initial values."""
    grid, solver = Grid(t0=0.0, dt=dt, steps=steps, every=steps), make_solver("EulerMaruyama")

    def one(parameters, start, path):
        noise = CounterNoise.of(seed_key(5), path)
        rows = integrate(model(*parameters), solver, model.State(*start), grid, noise, States())
        return [rows[name][-1] for name in model.State._fields]

    return user_jit(jax.vmap(jax.vmap(one, (None, None, 0)), (0, 0, None)))


PATHS = jnp.arange(2**16, dtype=jnp.uint32)


def off(payoffs, wanted):
    """How many standard errors the mean of payoffs lies off."""
    return (payoffs.mean() - wanted) / (payoffs.std() / np.sqrt(payoffs.size))


def test_vasicek_has_its_transition_distribution():
    problem, start = Vasicek(kappa=0.8, theta=0.04, sigma=0.02), Vasicek.State(jnp.asarray(0.01))
    parameters = [jnp.asarray([x]) for x in (0.8, 0.04, 0.02)]
    (samples,) = ends(Vasicek, 0.01, 150)(parameters, [jnp.asarray([0.01])], PATHS[:8192])
    distribution = norm(
        float(problem.exact_mean(1.5, start).r), float(problem.exact_variance(1.5, start).r) ** 0.5
    )
    assert kstest(np.asarray(samples[0]), distribution.cdf).pvalue > 1e-4


def cev_call(S, K, sigma, beta, T):
    """Without rates: Schroder (1989) for beta < 1, Black & Scholes at one, Bachelier at zero."""
    if beta == 1:
        d = np.log(S / K) / (sigma * T**0.5) + sigma * T**0.5 / 2
        return S * norm.cdf(d) - K * norm.cdf(d - sigma * T**0.5)
    if beta == 0:
        d = (S - K) / (sigma * T**0.5)
        return (S - K) * norm.cdf(d) + sigma * T**0.5 * norm.pdf(d)
    scale, df = (1 - beta) ** 2 * sigma**2 * T, 1 / (1 - beta)
    a, c = (x ** (2 * (1 - beta)) / scale for x in (K, S))
    return S * ncx2.sf(a, df + 2, c) - K * ncx2.cdf(c, df, a)


def test_cev_prices_are_those_of_its_exact_distribution():
    """One program for every elasticity; at 1/2 with a volatility at which every eighth path dies."""
    betas, sigmas = np.array([0.0, 0.5, 0.7, 1.0]), np.array([20.0, 10.0, 0.8, 0.2])
    parameters = [jnp.zeros(4), jnp.asarray(sigmas), jnp.asarray(betas)]
    (samples,) = ends(CEV, 0.01, 100)(parameters, [jnp.full(4, 100.0)], PATHS)
    for S, beta, sigma in zip(np.asarray(samples), betas, sigmas, strict=True):
        for K in (90.0, 120.0):
            assert abs(off(np.maximum(S - K, 0), cev_call(100.0, K, sigma, beta, 1.0))) < 4.5, (beta, K)


def hagan_volatility(F, K, alpha, beta, nu, rho, T):
    """Lognormal volatility by Hagan et al. (2002), formula 2.17."""
    middle, log = (F * K) ** ((1 - beta) / 2), np.log(F / K)
    z = nu / alpha * middle * log
    chi = np.log((np.sqrt(1 - 2 * rho * z + z * z) + z - rho) / (1 - rho))
    denominator = 1 + ((1 - beta) * log) ** 2 / 24 + ((1 - beta) * log) ** 4 / 1920
    first = ((1 - beta) * alpha / middle) ** 2 / 24
    second = rho * beta * nu * alpha / (4 * middle) + (2 - 3 * rho**2) / 24 * nu**2
    return alpha / (middle * denominator) * z / chi * (1 + (first + second) * T)


def test_sabr_prices_are_near_hagans():
    """His expansion is for short times: at half a year it is good to a thousandth of the price here."""
    parameters = [jnp.asarray([x]) for x in (0.5, 0.4, -0.3)]
    F, _ = ends(SABR, 0.01, 50)(parameters, [jnp.asarray([100.0]), jnp.asarray([2.0])], PATHS)
    for K in (90.0, 105.0, 120.0):
        vol = hagan_volatility(100.0, K, 2.0, 0.5, 0.4, -0.3, 0.5)
        payoffs = np.maximum(np.asarray(F[0]) - K, 0)
        assert abs(off(payoffs, cev_call(100.0, K, vol, 1, 0.5))) < 4.5, K
        error = payoffs.std() / 2**8
        assert error < 0.02 * payoffs.mean()
