"""Payoffs as observables against published prices and closed forms: three standard errors and the bias."""

import math

import numpy as np
import pytest
from ensemble_examples import rows_of

from simkit import CLOSED_FORMS, load

pytestmark = pytest.mark.user_code
BLACK_SCHOLES = {"S": 100.0, "K": 100.0, "r": 0.05, "sigma": 0.2, "T": 1.0}
CALL, PUT = "exp(-r*t) * maximum(exp(x) - K, 0)", "exp(-r*t) * maximum(K - exp(x), 0)"
MONTHLY = 21  # steps
# Broadie, Glasserman & Kou (1999), doi:10.1007/s007800050052: of a maximum at 252 dates, to o(1/sqrt(252)).
DATES = math.exp(0.5825971579390107 * 0.2 / math.sqrt(252))


def lookback_at_dates(K):
    at = {**BLACK_SCHOLES, "K": K * DATES}
    return CLOSED_FORMS["lookback_fixed_call"](**at) / DATES


PAYOFFS = {  # value, every, exact, bias of the exact value
    "call": (CALL, None, 10.4505835721856, 0),
    "put": (PUT, None, 5.57352602225697, 0),
    "digital": ("exp(-r*t) * (x > log(K))", None, 0.532324815453763, 0),
    "asian_12": ("exp(-r*t) * maximum(mean(exp(x)) - K, 0)", MONTHLY, 6.156040766, 0),
    "asian_252": ("exp(-r*t) * maximum(mean(exp(x)) - K, 0)", None, 5.781824408, 0),
    "geometric_asian_12": ("exp(-r*t) * maximum(exp(mean(x)) - K, 0)", MONTHLY, 5.940200222, 0),
    "down_and_out_12": (f"{CALL} * (min(x) > log(90))", MONTHLY, 9.57337242, 0),
    "down_and_out_252": (f"{CALL} * (min(x) > log(90))", None, 8.91387122, 0),
    "down_and_out": (f"{CALL} * no_touch(x - log(90), vol)", MONTHLY, 8.665471658, 0),
    "up_and_in": (
        f"{PUT} * (1 - no_touch(log(110) - x, vol))",
        MONTHLY,
        CLOSED_FORMS["up_and_in_put"](**BLACK_SCHOLES, B=110),
        0,
    ),
    "lookback_fixed": ("exp(-r*t) * maximum(exp(max(x)) - 105, 0)", None, lookback_at_dates(105), 0.01),
    "lookback_put": (
        "exp(-r*t) * (exp(max(x)) - exp(x))",
        None,
        lookback_at_dates(100) + 100 * math.exp(-0.05) - 100,
        0.01,
    ),
}


def ends(experiment, paths):
    """The observables of so many paths at the end, by name."""
    simulation = load(experiment)
    return {name: x[-1] for name, x in rows_of(simulation, paths, simulation.observables).items()}


def z(values, exact, bias=0.0):
    """The distance of the mean from the exact value, beyond a bias, in standard errors."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    return max(abs(values.mean() - exact) - bias, 0.0) / error


@pytest.fixture(scope="module")
def prices():
    """One run for all payoffs; the logarithm of the price is exact on any grid."""
    observe = {
        name: {"value": value} | ({} if every is None else {"every": every})
        for name, (value, every, _, _) in PAYOFFS.items()
    }
    return ends(
        {
            "constants": {"K": 100.0, "r": 0.05, "vol": 0.2},
            "model": {"sde": {"x": {"drift": "r - vol**2/2", "noise": {"W": "vol"}}}},
            "initial": {"x": "log(100)"},
            "time": {"t1": 1.0, "steps": 252},
            "ensemble": {"seed": 5},
            "observe": observe,
        },
        2**16,
    )


@pytest.mark.more
@pytest.mark.parametrize("name", PAYOFFS)
def test_payoff(name, prices):
    _, _, exact, bias = PAYOFFS[name]
    assert z(prices[name], exact, bias) < 3


@pytest.mark.more
def test_continuous_barrier_needs_no_dates(prices):
    """What a dozen dates miss is far more than the error of the bridges between them."""
    gap = prices["down_and_out_12"].mean() - prices["down_and_out"].mean()
    assert abs(gap - (9.57337242 - 8.665471658)) < 0.03


def test_baskets():
    """On three correlated prices: the right to exchange two, geometric and arithmetic means."""
    rates = {"r": 0.03, "rho12": 0.6, "rho13": 0.3, "rho23": 0.1, "s1": 0.2, "s2": 0.3, "s3": 0.25}
    rhos = {key: rates[key] for key in ("rho12", "rho13", "rho23")}
    starts = {"S1": 100, "S2": 95, "sigma1": 0.2, "sigma2": 0.3, "T": 2}
    exact = {
        "exchange": CLOSED_FORMS["exchange_option"](**starts, rho=0.6),
        "geometric": CLOSED_FORMS["geometric_basket_call"](
            **starts, **rhos, S3=110, sigma3=0.25, K=100, r=0.03
        ),
        "parity": 305 / 3 - 100 * math.exp(-0.06),
    }
    value = {
        "exchange": "exp(-r*t) * maximum(exp(x1) - exp(x2), 0)",
        "geometric": "exp(-r*t) * maximum(exp((x1 + x2 + x3)/3) - 100, 0)",
        "arithmetic": "exp(-r*t) * maximum((exp(x1) + exp(x2) + exp(x3))/3 - 100, 0)",
        "parity": "exp(-r*t) * (maximum((exp(x1) + exp(x2) + exp(x3))/3 - 100, 0)"
        " - maximum(100 - (exp(x1) + exp(x2) + exp(x3))/3, 0))",
    }
    sde = {f"x{i}": {"drift": f"r - s{i}**2/2", "noise": {f"W{i}": f"s{i}"}} for i in (1, 2, 3)}
    pairs = {f"W{i}-W{j}": f"rho{i}{j}" for i, j in ((1, 2), (1, 3), (2, 3))}
    payoffs = ends(
        {
            "constants": rates,
            "model": {"sde": sde, "correlation": pairs},
            "initial": {"x1": "log(100)", "x2": "log(95)", "x3": "log(110)"},
            "time": {"t1": 2.0, "steps": 2},
            "ensemble": {"seed": 4},
            "observe": value,
        },
        2**17,
    )
    for name, value in exact.items():
        assert z(payoffs[name], value) < 3, name
    assert (payoffs["arithmetic"] >= payoffs["geometric"]).all()


def test_discounting_by_the_short_rate_of_the_path():
    """A bond under Vasicek's rate, in closed form (Vasicek 1977, doi:10.1016/0304-405X(77)90016-2)."""
    theta, mu, sigma, r0, T, steps = 0.8, 0.06, 0.03, 0.02, 3.0, 60
    span = (1 - math.exp(-theta * T)) / theta
    mean = mu * T + (r0 - mu) * span
    variance = sigma**2 / theta**2 * (T - 2 * span + (1 - math.exp(-2 * theta * T)) / (2 * theta))
    # The same of Euler's steps and the trapezoidal rule, whose integral is normal too.
    h = T / steps
    weights = h * np.array([0.5, *[1] * (steps - 1), 0.5])
    kept = (1 - theta * h) ** np.arange(steps + 1)
    stepped_mean = weights @ (mu + (r0 - mu) * kept)
    noise = [sigma * math.sqrt(h) * (weights[j + 1 :] @ kept[: steps - j]) for j in range(steps)]
    stepped = math.exp(np.square(noise).sum() / 2 - stepped_mean)
    assert abs(stepped - math.exp(variance / 2 - mean)) < 1e-3
    payoffs = ends(
        {
            "model": {"type": "OrnsteinUhlenbeck", "theta": theta, "mu": mu, "sigma": sigma},
            "initial": {"X": r0},
            "time": {"t1": T, "steps": steps},
            "ensemble": {"seed": 6},
            "observe": {"bond": "exp(-integral(X))"},
        },
        2**15,
    )
    assert z(payoffs["bond"], stepped) < 3
    assert payoffs["bond"].std() / math.sqrt(len(payoffs["bond"])) < 3e-4
