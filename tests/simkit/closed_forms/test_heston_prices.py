"""Heston's closed forms against published numbers, symmetries and limits."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from market_examples import rate, slope

from simkit.closed_forms import black_scholes as bs
from simkit.closed_forms.heston import heston_call, heston_put

HESTON = {"S": 100.0, "r": 0.01, "q": 0.02, "T": 1.0}
HESTON |= {"v0": 0.04, "kappa": 4.0, "theta": 0.25, "xi": 1.0, "rho": -0.5}


@pytest.mark.parametrize(
    ("K", "value"),
    [
        (80, 26.774758743998854),
        (90, 20.933349000596710),
        (100, 16.070154917028834),
        (110, 12.132211516709845),
        (120, 9.0249134834578356),
    ],
)
def test_heston_calls(K, value):
    assert heston_call(K=K, **HESTON) == pytest.approx(value, abs=1e-12)


def test_heston_put_delta_and_digital():
    at = {**HESTON, "K": 100.0}
    assert heston_put(**at) == pytest.approx(17.05527096127, abs=1e-11)
    assert slope(heston_call, at, "S", 0.05) == pytest.approx(0.59947132575, abs=5e-12)
    assert -slope(heston_call, at, "K", 0.05) == pytest.approx(0.4387697765797, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    S=st.floats(60, 160),
    K=st.floats(60, 160),
    r=rate,
    q=rate,
    T=st.floats(0.02, 10),
    v0=st.floats(0.001, 0.5),
    kappa=st.floats(2.1, 6),
    theta=st.floats(0, 0.5),
    xi=st.floats(0.0, 2.0),
    rho=st.floats(-1, 1),
)
def test_heston_is_symmetric_under_change_of_numeraire(**at):
    r"""A call on S is a put on 1/S priced in shares: $\kappa' = \kappa - \rho\xi$, $\rho' = -\rho$."""
    other = at["kappa"] - at["rho"] * at["xi"]
    swapped = {
        **at,
        "S": at["K"],
        "K": at["S"],
        "r": at["q"],
        "q": at["r"],
        "kappa": other,
        "theta": at["kappa"] * at["theta"] / other,
        "rho": -at["rho"],
    }
    assert heston_call(**at) == pytest.approx(heston_put(**swapped), abs=2e-10)


@pytest.mark.parametrize("K", [70.0, 100.0, 130.0])
@pytest.mark.parametrize("T", [1e-4, 1.0, 30.0])
def test_heston_tends_to_black_scholes(K, T):
    at = {**HESTON, "K": K, "T": T}
    certain = heston_call(**{**at, "xi": 0.0})
    assert heston_call(**{**at, "xi": 1e-7}) == pytest.approx(certain, abs=1e-6)
    flat = {**at, "v0": 0.25, "theta": 0.25, "xi": 0.0}
    plain = bs.black_scholes_call(S=100, K=K, r=0.01, q=0.02, sigma=0.5, T=T)
    assert heston_call(**flat) == pytest.approx(plain, rel=1e-13)
    assert heston_call(**{**at, "kappa": 0.0, "xi": 0.0}) == pytest.approx(
        bs.black_scholes_call(S=100, K=K, r=0.01, q=0.02, sigma=0.2, T=T), rel=1e-13, abs=1e-13
    )


def test_heston_at_expiry():
    assert heston_call(**{**HESTON, "T": 0.0, "K": 90.0}) == 10
    assert heston_put(**{**HESTON, "T": 0.0, "K": 90.0}) == 0
    assert heston_call(**{**HESTON, "K": 0.0}) == 100 * math.exp(-0.02)
    assert heston_call(**{**HESTON, "S": 0.0, "K": 90.0}) == 0
    assert heston_call(**{**HESTON, "v0": 0.0, "theta": 0.0, "K": 90.0}) == pytest.approx(
        100 * math.exp(-0.02) - 90 * math.exp(-0.01), rel=1e-14
    )
