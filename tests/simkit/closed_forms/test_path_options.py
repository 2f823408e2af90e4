"""Options on averages, extremes and barriers, against reference numbers, densities and limits."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from market_examples import AT_THE_MONEY, SKEWED, duration, price, rate

from simkit import CLOSED_FORMS
from simkit.closed_forms import black_scholes as bs
from simkit.closed_forms.barrier import down_and_out_call
from simkit.closed_forms.geometric_asian import geometric_asian_call


@pytest.mark.parametrize("n", [0, 2.5, -3])
def test_asian_fixings_are_counted(n):
    with pytest.raises(ValueError, match=r"^n: must be a whole number of at least 1"):
        geometric_asian_call(**AT_THE_MONEY, n=n)


def test_path_options_reference_numbers():
    assert geometric_asian_call(**AT_THE_MONEY, n=12) == pytest.approx(5.940200222, abs=5e-10)
    assert down_and_out_call(**AT_THE_MONEY, B=90) == pytest.approx(8.665471658, abs=5e-10)


def test_asian_with_one_fixing_is_european():
    for at in (AT_THE_MONEY, SKEWED):
        assert geometric_asian_call(**at, n=1) == pytest.approx(bs.black_scholes_call(**at), rel=1e-14)
    assert geometric_asian_call(**{**SKEWED, "sigma": 0.0}, n=3) == 0
    certain = geometric_asian_call(S=100, K=90, r=0.05, q=0.01, sigma=0, T=1, n=3)
    assert certain == pytest.approx(math.exp(-0.05) * (100 * math.exp(0.04 * 2 / 3) - 90), rel=1e-14)


@pytest.mark.parametrize("B", [60.0, 85.0, 98.0, 104.0])
@pytest.mark.parametrize("q", [0.0, 0.12])
def test_barrier_against_the_killed_density(B, q):
    r"""Payoff integrated over Brownian motion with drift killed at ln(B/S), by its density of two images."""
    S, K, r, sigma, T = 106.0, 95.0, 0.05, 0.25, 0.8
    nu, b, var = r - q - sigma**2 / 2, math.log(B / S), sigma**2 * T
    low = max(b, math.log(K / S))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    x = low + 1.5 * (nodes + 1)
    density = np.exp(-((x - nu * T) ** 2) / (2 * var))
    density -= np.exp(2 * nu * b / sigma**2 - (x - 2 * b - nu * T) ** 2 / (2 * var))
    wanted = (
        math.exp(-r * T)
        * np.sum(1.5 * weights * (S * np.exp(x) - K) * density)
        / math.sqrt(2 * math.pi * var)
    )
    assert down_and_out_call(S=S, K=K, B=B, r=r, q=q, sigma=sigma, T=T) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("kind", ["call", "put"])
@pytest.mark.parametrize(("side", "B"), [("down", 60.0), ("down", 98.0), ("up", 108.0), ("up", 150.0)])
@pytest.mark.parametrize("q", [0.0, 0.12])
def test_every_knock_out_against_the_killed_density(kind, side, B, q):
    S, K, r, sigma, T = 106.0, 100.0, 0.05, 0.25, 0.8
    nu, b, var = r - q - sigma**2 / 2, math.log(B / S), sigma**2 * T
    k = math.log(K / S)
    low, high = (k, 3.0) if kind == "call" else (-3.0, k)
    low, high = (max(low, b), high) if side == "down" else (low, min(high, b))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half = max(high - low, 0.0) / 2
    x = low + half * (nodes + 1)
    density = np.exp(-((x - nu * T) ** 2) / (2 * var))
    density -= np.exp(2 * nu * b / sigma**2 - (x - 2 * b - nu * T) ** 2 / (2 * var))
    paid = np.abs(S * np.exp(x) - K)
    wanted = math.exp(-r * T) * half * np.sum(weights * paid * density) / math.sqrt(2 * math.pi * var)
    form = CLOSED_FORMS[f"{side}_and_out_{kind}"]
    assert form(S=S, K=K, B=B, r=r, q=q, sigma=sigma, T=T) == pytest.approx(wanted, rel=1e-10, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(S=price, K=price, B=price, r=rate, q=rate, sigma=st.floats(0.05, 1.0), T=duration)
def test_knock_in_and_knock_out_are_the_plain_option(**at):
    plain = {name: at[name] for name in at if name != "B"}
    for side in ("down", "up"):
        for kind in ("call", "put"):
            parts = [CLOSED_FORMS[f"{side}_and_{fate}_{kind}"](**at) for fate in ("in", "out")]
            whole = CLOSED_FORMS[f"black_scholes_{kind}"](**plain)
            assert min(parts) >= 0
            assert sum(parts) == pytest.approx(whole, abs=1e-11 * (at["S"] + at["K"]))


def test_knock_in_far_away_keeps_its_digits():
    """Where all that pays lies beyond the barrier it is the plain option, however little that is worth."""
    at = {"r": 0.02, "q": 0.01, "sigma": 0.2, "T": 0.25}
    for S in (150.0, 250.0):
        plain = bs.black_scholes_put(**at, S=S, K=95)
        assert 0 < plain < 1e-3
        result = CLOSED_FORMS["down_and_in_put"](**at, S=S, K=95, B=100)
        assert result / plain == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("vanishing", ["sigma", "T"])
@pytest.mark.parametrize("side", ["down", "up"])
def test_knock_in_limits(side, vanishing):
    at = {**SKEWED, "K": 88.0}
    far = 50.0 if side == "down" else 150.0
    for kind in ("call", "put"):
        for fate in ("in", "out"):
            form = CLOSED_FORMS[f"{side}_and_{fate}_{kind}"]
            for B in (far, 88.5, 89.5, 91.0):
                certain = form(**{**at, vanishing: 0.0}, B=B)
                assert certain == pytest.approx(form(**{**at, vanishing: 1e-7}, B=B), abs=1e-4)
        assert CLOSED_FORMS[f"down_and_in_{kind}"](**at, B=0.0) == 0


@pytest.mark.parametrize(("n", "value"), [(12, 9.57337242), (252, 8.91387122)])
def test_discrete_barrier_stands_for_dates(n, value):
    """What is left falls as fast as 1/n, where the unshifted barrier is off by 1/sqrt(n)."""
    level = CLOSED_FORMS["discrete_barrier"](S=100, B=90, sigma=0.2, dt=1 / n)
    assert level < 90
    shifted, unshifted = (down_and_out_call(**AT_THE_MONEY, B=B) for B in (level, 90))
    assert shifted == pytest.approx(value, abs=0.1 / n)
    assert abs(unshifted - value) > 2 / n
    assert CLOSED_FORMS["discrete_barrier"](S=80, B=90, sigma=0.2, dt=1 / n) * level == pytest.approx(90**2)


@pytest.mark.parametrize("r", [0.05, 0.11, 0.05 + 1e-11, 0.0501, 0.062])
@pytest.mark.parametrize("sigma", [0.08, 0.3])
def test_lookbacks_against_the_distribution_of_the_extremes(r, sigma):
    r"""$P(M > x)$ and $P(m < x)$ by reflection, integrated; r - q is 0, near 0 and far from it."""
    S, q, T = 100.0, 0.05, 0.7
    nu, deviation = r - q - sigma**2 / 2, sigma * math.sqrt(T)
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def passing(side, level):
        """The integral of P(M > x) above the level, of P(m < x) below it."""
        start = side * math.log(level / S)
        y = start + 6 * deviation * (nodes + 1)
        drift = side * nu * T
        tail = np.array([bs.normal_cdf((drift - z) / deviation) for z in y])
        tail += np.exp(2 * drift * y / deviation**2) * np.array(
            [bs.normal_cdf((-drift - z) / deviation) for z in y]
        )
        return math.exp(-r * T) * np.sum(6 * deviation * weights * tail * S * np.exp(side * y))

    at = {"S": S, "r": r, "q": q, "sigma": sigma, "T": T}
    bond, stock = S * math.exp(-r * T), S * math.exp(-q * T)
    wanted = {
        "lookback_call": stock - bond + passing(-1, S),
        "lookback_put": bond - stock + passing(1, S),
    }
    for name, value in wanted.items():
        assert CLOSED_FORMS[name](**at) == pytest.approx(value, rel=1e-10)
    for K in (90.0, 100.0, 115.0):
        call = math.exp(-r * T) * max(S - K, 0) + passing(1, max(K, S))
        put = math.exp(-r * T) * max(K - S, 0) + passing(-1, min(K, S))
        assert CLOSED_FORMS["lookback_fixed_call"](**at, K=K) == pytest.approx(call, rel=1e-10)
        assert CLOSED_FORMS["lookback_fixed_put"](**at, K=K) == pytest.approx(put, rel=1e-10)


@pytest.mark.parametrize("name", [n for n in CLOSED_FORMS if n.startswith("lookback")])
@pytest.mark.parametrize("vanishing", ["sigma", "T"])
@pytest.mark.parametrize("q", [0.0, 0.07])
def test_lookback_limits(name, vanishing, q):
    form = CLOSED_FORMS[name]
    at = {**AT_THE_MONEY, "K": 98.0, "q": q}
    at = {argument: at[argument] for argument in inspect.signature(form).parameters}
    assert form(**{**at, vanishing: 0.0}) == pytest.approx(form(**{**at, vanishing: 1e-5}), abs=0.1)
    assert form(**{**at, "S": 0.0}) == pytest.approx(form(**{**at, "S": 1e-9}), abs=1e-7)


def test_barrier_limits():
    at = {**SKEWED, "K": 80.0}
    assert down_and_out_call(**at, B=0.0) == pytest.approx(bs.black_scholes_call(**at), rel=1e-14)
    assert down_and_out_call(**at, B=90.0) == 0
    assert 0 < down_and_out_call(**at, B=89.9999) < 1e-3
    for B in (50.0, 87.5, 89.0):  # the forward price 87.86 lies between the last two
        for vanishing in ("sigma", "T"):
            certain = down_and_out_call(**{**at, vanishing: 0.0}, B=B)
            assert certain == pytest.approx(down_and_out_call(**{**at, vanishing: 1e-6}, B=B), abs=1e-4)
