"""Prices that jump, by Merton and Kou: published numbers, another integral, and limits."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import poisson

from simkit.closed_forms import black_scholes as bs
from simkit.closed_forms.heston import heston_call
from simkit.closed_forms.jump_diffusions import bates_call, kou_call, merton_call

JUMPY = {"S": 100.0, "K": 95.0, "r": 0.03, "q": 0.01, "T": 0.7, "lam": 0.8}
KOU = {
    "S": 100.0,
    "K": 98.0,
    "r": 0.05,
    "T": 0.5,
    "sigma": 0.16,
    "lam": 1.0,
    "p": 0.4,
    "eta1": 10.0,
    "eta2": 5.0,
}


def test_merton_and_kou_published_values():
    """Merton's by QuantLib's Merton76, whose parameters are fractions of the variance; Kou's by his paper."""
    jump = 0.25 * math.sqrt(0.25)
    merton = {"S": 100, "K": 100, "r": 0.08, "T": 0.25, "sigma": 0.25 * math.sqrt(0.75), "lam": 1}
    value = merton_call(**merton, m=-(jump**2) / 2, delta=jump)
    assert value == pytest.approx(5.8753140278, abs=5e-11)
    assert kou_call(**KOU) == pytest.approx(9.14732, abs=5e-6)


def call_by_inversion(log_phi, S, K, r, q, T):
    r"""$S e^{-qT} P_1 - K e^{-rT} P_2$ with the two probabilities by Gil-Pelaez, not by Lewis's contour.

    `log_phi` is the logarithm of the characteristic function of ln S_T at complex arguments.
    """
    k = math.log(K)

    def probability(shift):
        def integrand(u):
            phi = np.exp(log_phi(u - 1j * shift) - log_phi(-1j * shift) - 1j * u * k)
            return (phi / (1j * u)).real

        return 0.5 + quad(integrand, 1e-12, 200, limit=2000, epsabs=1e-12)[0] / math.pi

    return S * math.exp(-q * T) * probability(1) - K * math.exp(-r * T) * probability(0)


def jumping(sigma, T, lam, moment, S, r, q):
    """The characteristic function of a price that jumps, from $E[e^{sz}]$ of its marks."""
    drift = r - q - sigma**2 / 2 - lam * (moment(1) - 1)

    def log_phi(u):
        return 1j * u * (math.log(S) + drift * T) - sigma**2 * u * u * T / 2 + lam * T * (moment(1j * u) - 1)

    return log_phi


def test_jump_prices_by_another_integral():
    p, eta1, eta2 = KOU["p"], KOU["eta1"], KOU["eta2"]

    def double_exponential(s):
        return p * eta1 / (eta1 - s) + (1 - p) * eta2 / (eta2 + s)

    def normal(s):
        return np.exp(-0.1 * s + (0.15 * s) ** 2 / 2)

    at = {"S": 100.0, "K": 98.0, "r": 0.05, "q": 0.0, "T": 0.5}
    phi = jumping(0.16, 0.5, 1.0, double_exponential, 100.0, 0.05, 0.0)
    assert kou_call(**KOU) == pytest.approx(call_by_inversion(phi, **at), abs=1e-9)
    at = {name: JUMPY[name] for name in ("S", "K", "r", "q", "T")}
    phi = jumping(0.2, 0.7, 0.8, normal, 100.0, 0.03, 0.01)
    wanted = call_by_inversion(phi, **at)
    assert merton_call(**JUMPY, sigma=0.2, m=-0.1, delta=0.15) == pytest.approx(wanted, abs=1e-9)
    steady = {"v0": 0.04, "kappa": 1.0, "theta": 0.04, "rho": 0.0, "m": -0.1, "delta": 0.15}
    assert bates_call(**JUMPY, **steady, xi=0.0) == pytest.approx(wanted, abs=1e-9)
    assert bates_call(**JUMPY, **steady, xi=1e-4) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("m", "K"), [(0.3, 100.0), (-0.4, 90.0), (3.0, 1e4), (3.0, 1e14)])
def test_a_price_that_jumps_by_one_factor_and_else_drifts(m, K):
    """The formula of Cox and Ross: two Poisson probabilities, that of the asset far above the other."""
    S, r, q, lam, T = 100.0, 0.03, 0.01, 0.8, 1.5
    k = math.expm1(m)
    jumps = (math.log(K / S) - (r - q - lam * k) * T) / m
    share, cash = (
        poisson.sf(math.floor(jumps), mean) if m > 0 else poisson.cdf(math.ceil(jumps) - 1, mean)
        for mean in (lam * T * (1 + k), lam * T)
    )
    wanted = S * math.exp(-q * T) * share - K * math.exp(-r * T) * cash
    price = merton_call(S=S, K=K, r=r, q=q, T=T, sigma=0.0, lam=lam, m=m, delta=0.0)
    assert price == pytest.approx(wanted, rel=1e-12)


def test_jump_prices_without_jumps():
    at = {"S": 100.0, "K": 110.0, "r": 0.03, "q": 0.01, "T": 0.7}
    plain = bs.black_scholes_call(**at, sigma=0.2)
    jumps = {"m": -0.1, "delta": 0.15}
    assert merton_call(**at, sigma=0.2, lam=0.0, **jumps) == pytest.approx(plain, rel=1e-13)
    assert merton_call(**at, sigma=0.2, lam=3.0, m=0.0, delta=0.0) == pytest.approx(plain, rel=1e-13)
    assert kou_call(**{**KOU, **at, "sigma": 0.2, "lam": 0.0}) == plain
    heston = {"v0": 0.04, "kappa": 4.0, "theta": 0.25, "xi": 1.0, "rho": -0.5}
    wanted = heston_call(**at, **heston)
    assert bates_call(**at, **heston, lam=0.0, **jumps) == pytest.approx(wanted, abs=1e-11)


@pytest.mark.parametrize(
    ("name", "value", "range"), [("eta1", 1.0, "> 1"), ("eta2", 0.0, "> 0"), ("p", 1.5, "<= 1")]
)
def test_kou_needs_finite_means(name, value, range):
    with pytest.raises(ValueError, match=rf"^{name}: must be {range}, got {value:g}$"):
        kou_call(**{**KOU, name: value})


def test_kou_needs_some_volatility():
    with pytest.raises(ValueError, match="sigma: must be > 0 for a price by this integral"):
        kou_call(**{**KOU, "sigma": 0.0})
