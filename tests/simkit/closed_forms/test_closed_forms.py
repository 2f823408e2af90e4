"""Closed forms against reference numbers, against each other, and at their limits."""

import inspect
import math
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from market_examples import AT_THE_MONEY, SKEWED, duration, price, rate, slope, volatility
from scipy.integrate import solve_ivp

from simkit import CLOSED_FORMS
from simkit.closed_forms import black_scholes as bs
from simkit.closed_forms.bonds import cir_bond, hull_white_bond, vasicek_bond
from simkit.closed_forms.double_well import double_well_square
from simkit.closed_forms.moments import cir_mean, cir_variance, gbm_mean, gbm_variance, ou_mean, ou_variance
from simkit.closed_forms.registry import EXAMPLES, closed_form, example_of


def test_registry():
    for name, form in CLOSED_FORMS.items():
        assert form.__name__ == name
        signature = inspect.signature(form)
        assert all(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values()), name
        assert "$" in form.__doc__ or "`heston_call`" in form.__doc__, name
        assert "doi:10." in f"{form.__doc__} {inspect.getmodule(form).__doc__}", name


def test_import_costs_neither_scipy_nor_jax():
    code = "import sys, simkit.closed_forms; print(sorted({'scipy', 'jax'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("black_scholes_call", 10.4505835721856),
        ("black_scholes_put", 5.57352602225697),
        ("black_scholes_delta", 0.636830651175619),
        ("black_scholes_vega", 37.5240346916938),
        ("black_scholes_gamma", 0.0187620173458469),
        ("black_scholes_theta", -6.4140275464382),
        ("black_scholes_rho", 53.2324815453763),
        ("black_scholes_vanna", -0.281430260187703),
        ("black_scholes_volga", 9.85005910656962),
        ("digital_call", 0.532324815453763),
        ("digital_delta", 0.0187620173458469),
        ("digital_vega", -0.656670607104641),
    ],
)
def test_black_scholes_reference_numbers(name, value):
    assert CLOSED_FORMS[name](**AT_THE_MONEY) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("where", [AT_THE_MONEY, SKEWED], ids=["at the money", "skewed"])
def test_greeks_are_derivatives_of_the_price(where):
    wanted = {
        "black_scholes_delta": slope(bs.black_scholes_call, where, "S", 0.1),
        "black_scholes_gamma": slope(bs.black_scholes_delta, where, "S", 0.1),
        "black_scholes_vega": slope(bs.black_scholes_call, where, "sigma", 1e-3),
        "black_scholes_theta": -slope(bs.black_scholes_call, where, "T", 1e-3),
        "black_scholes_rho": slope(bs.black_scholes_call, where, "r", 1e-3),
        "black_scholes_put_delta": slope(bs.black_scholes_put, where, "S", 0.1),
        "black_scholes_put_theta": -slope(bs.black_scholes_put, where, "T", 1e-3),
        "black_scholes_put_rho": slope(bs.black_scholes_put, where, "r", 1e-3),
        "black_scholes_vanna": slope(bs.black_scholes_vega, where, "S", 0.1),
        "black_scholes_volga": slope(bs.black_scholes_vega, where, "sigma", 1e-3),
        "digital_delta": slope(bs.digital_call, where, "S", 0.1),
        "digital_vega": slope(bs.digital_call, where, "sigma", 1e-3),
        "digital_call": -slope(bs.black_scholes_call, where, "K", 0.1),
        "digital_put": slope(bs.black_scholes_put, where, "K", 0.1),
    }
    for name, value in wanted.items():
        assert CLOSED_FORMS[name](**where) == pytest.approx(value, rel=1e-8), name


@settings(max_examples=200, deadline=None)
@given(S=price, K=price, r=rate, q=rate, sigma=volatility, T=duration)
def test_put_call_parity(**at):
    S, K, r, q, T = (at[n] for n in ("S", "K", "r", "q", "T"))
    asset, strike = S * math.exp(-q * T), K * math.exp(-r * T)
    call, put = bs.black_scholes_call(**at), bs.black_scholes_put(**at)
    assert call - put == pytest.approx(asset - strike, abs=1e-12 * (asset + strike))
    assert max(asset - strike, 0) - 1e-12 * strike <= call <= asset
    assert bs.digital_call(**at) + bs.digital_put(**at) == pytest.approx(math.exp(-r * T), rel=1e-14)
    whole, other = bs.asset_or_nothing_call(**at), bs.asset_or_nothing_put(**at)
    assert whole + other == pytest.approx(asset, rel=1e-14)
    assert whole - K * bs.digital_call(**at) == pytest.approx(call, abs=1e-12 * (asset + strike))
    assert bs.black_scholes_delta(**at) - bs.black_scholes_put_delta(**at) == pytest.approx(
        asset / S, rel=1e-14
    )


@pytest.mark.parametrize("name", [n for n in CLOSED_FORMS if n.startswith(("black", "digital", "asset"))])
@pytest.mark.parametrize("vanishing", ["sigma", "T"])
@pytest.mark.parametrize("K", [80.0, 120.0])
def test_black_scholes_limits(name, vanishing, K):
    form, at = CLOSED_FORMS[name], {**AT_THE_MONEY, "K": K}
    assert form(**{**at, vanishing: 0.0}) == pytest.approx(form(**{**at, vanishing: 1e-7}), abs=1e-4)


def test_limits_on_the_strike():
    flat = {"S": 100.0, "K": 100.0, "r": 0.0, "sigma": 0.2, "T": 0.0}
    assert bs.black_scholes_call(**flat) == bs.black_scholes_put(**flat) == 0
    assert bs.digital_call(**flat) == bs.digital_put(**flat) == bs.black_scholes_delta(**flat) == 0.5
    assert bs.black_scholes_gamma(**flat) == bs.digital_delta(**flat) == math.inf
    for form in (bs.black_scholes_vanna, bs.black_scholes_volga, bs.digital_vega):
        quiet = {**flat, "T": 2.0, "sigma": 0.0}
        assert form(**quiet) == pytest.approx(form(**{**quiet, "sigma": 1e-7}), abs=1e-4), form.__name__
    assert bs.black_scholes_theta(**flat) == -math.inf
    assert bs.black_scholes_call(S=100, K=0, r=0.1, sigma=0.2, T=1) == 100
    assert bs.black_scholes_call(S=0, K=100, r=0.1, sigma=0.2, T=1) == 0


def refusal(form, arguments):
    """What it says of arguments that it refuses; None of others."""
    try:
        form(**arguments)
    except ValueError as error:
        return str(error)
    return None


def assert_arguments_are_checked(name):
    """Of a closed form with its example: what `@closed_form` checks, and what the form has to."""
    form, arguments = CLOSED_FORMS[name], example_of(name)
    assert math.isfinite(form(**arguments)), f"{name}: its example gives no finite value; choose another"
    for argument in arguments:
        for wrong in (math.nan, math.inf):
            said = refusal(form, arguments | {argument: wrong})
            assert said == f"{argument}: must be a finite number, got {wrong}"
        said = refusal(form, arguments | {argument: 0.0})
        assert said is None or argument in said.partition(": ")[0].split(", "), f"name {argument} in: {said}"
    for letters, wrong, text, check in RANGES:
        for argument in letters & {*arguments}:
            said = refusal(form, arguments | {argument: wrong})
            assert said == f"{argument}: must {text}, got {wrong}", (
                f"{name} with {argument} = {wrong}: call {check}({argument}={argument}) in it first"
            )


RANGES = (
    ({"K", "B", "sigma", "sigma1", "T", "v0", "kappa", "xi", "lam"}, -0.25, "be >= 0", "nonnegative"),
    ({"rho", "rho12", "rho13", "rho23"}, 1.5, "lie between -1 and 1", "correlation"),
)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_errors_name_the_argument(name):
    assert_arguments_are_checked(name)


@pytest.mark.parametrize("name", [n for n in CLOSED_FORMS if n.startswith(("ou", "cir", "heston", "bates"))])
def test_rates_and_levels_of_variance_are_not_negative(name):
    arguments = example_of(name)
    if "theta" in arguments:
        with pytest.raises(ValueError, match=r"^theta: must be >= 0, got -0.25$"):
            CLOSED_FORMS[name](**{**arguments, "theta": -0.25})


def test_a_closed_form_of_ones_own_is_told_what_it_lacks():
    with mock.patch.dict(CLOSED_FORMS), mock.patch.dict(EXAMPLES):

        @closed_form(smooth=True)
        def inverse(*, level, T):
            return 1 / (level * T)

        with pytest.raises(ValueError, match=r"^inverse: needs an example of level; write @closed"):
            example_of("inverse")
        with pytest.raises(ValueError, match=r"^T: must not be 0, by which inverse divides$"):
            inverse(level=1.0, T=0.0)
        EXAMPLES["inverse"] = {"level": 2.0}
        with pytest.raises(AssertionError, match=r"^inverse with T = -0.25: call nonnegative\(T=T\) in it"):
            assert_arguments_are_checked("inverse")


def bond_by_riccati(level, speed, additive, proportional, r, T):
    """ln P for dr = (level - speed r) dt + sqrt(additive + proportional r) dW by its Riccati equations."""

    def rates(_, x):
        B, _ = x
        return [1 - speed * B - proportional * B**2 / 2, -level * B + additive * B**2 / 2]

    run = solve_ivp(rates, (0, T), [0.0, 0.0], "DOP853", rtol=1e-12, atol=1e-14)
    return math.exp(run.y[1, -1] - run.y[0, -1] * r)


@pytest.mark.parametrize("speed", [0.0, 1e-6, 0.019, 0.021, 0.5, 3.0])
@pytest.mark.parametrize("sigma", [0.0, 0.02, 0.3])
def test_bonds_solve_their_riccati_equations(speed, sigma):
    r, T = 0.03, 5.0
    result = hull_white_bond(r=r, a=speed, theta=0.004, sigma=sigma, T=T)
    assert result == pytest.approx(bond_by_riccati(0.004, speed, sigma**2, 0.0, r, T), rel=1e-10)
    result = vasicek_bond(r=r, kappa=speed, theta=0.05, sigma=sigma, T=T)
    assert result == pytest.approx(bond_by_riccati(0.05 * speed, speed, sigma**2, 0.0, r, T), rel=1e-10)
    result = cir_bond(r=r, kappa=speed, theta=0.05, sigma=sigma, T=T)
    assert result == pytest.approx(bond_by_riccati(0.05 * speed, speed, 0.0, sigma**2, r, T), rel=1e-10)


@pytest.mark.parametrize("b", [1e-6, 0.3, 1.0, 40.0, 1e6])
@pytest.mark.parametrize("a", [0.5, 3.0])
def test_double_well_against_quadrature(b, a):
    """The trapezoidal rule, which converges geometrically here, on all that matters."""
    reach = math.sqrt(40 / b)  # of x^2 from 1, where the weight is exp(-40)
    far = math.sqrt(1 + reach)
    near = math.sqrt(1 - reach) if reach < 1 else -far
    x = np.linspace(near, far, 40001)
    weight = np.exp(-b * (x * x - 1) ** 2)
    result = np.sum(weight * x * x) / np.sum(weight)
    assert double_well_square(b=b, a=a) == pytest.approx(a * a * result, rel=1e-10)


def test_double_well_needs_a_barrier():
    with pytest.raises(ValueError, match=r"^b: must be > 0, got 0$"):
        double_well_square(b=0, a=1)
    with pytest.raises(ValueError, match=r"^a: must be >= 0, got -1$"):
        double_well_square(b=1, a=-1)


def test_geometric_basket():
    """One asset three times, and the square root of two prices, against options on one price."""
    same = {f"sigma{i}": 0.2 for i in (1, 2, 3)} | {f"S{i}": 100.0 for i in (1, 2, 3)}
    same |= dict.fromkeys(("rho12", "rho13", "rho23"), 1.0)
    basket = CLOSED_FORMS["geometric_basket_call"]
    assert basket(**same, K=90, r=0.05, T=2, q1=0.02, q2=0.02, q3=0.02) == pytest.approx(
        bs.black_scholes_call(S=100, K=90, r=0.05, sigma=0.2, T=2, q=0.02), rel=1e-13
    )
    opposed = {**same, "rho12": -1.0, "rho13": 0.0, "rho23": 0.0, "S3": 64.0, "sigma3": 0.6, "q3": 0.04}
    # ln G has volatility 0.6/3: the first two cancel but for their drifts.
    asset = 100 ** (2 / 3) * 4 * math.exp(2 * (0.02 - (0.04 + 0.04 + 0.36) / 6 - 0.04 / 3))
    wanted = bs.lognormal_call(asset, 80 * math.exp(-0.1), 0.2 * math.sqrt(2))
    assert basket(**opposed, K=80, r=0.05, T=2) == pytest.approx(wanted, rel=1e-13)
    with pytest.raises(ValueError, match=r"^rho12, rho13, rho23: no random variables"):
        basket(**{**same, "rho12": -1.0}, K=90, r=0.05, T=2)


def test_exchange_option():
    at = {"S1": 100.0, "S2": 90.0, "sigma1": 0.3, "sigma2": 0.2, "rho": 0.4, "T": 2.0, "q1": 0.03, "q2": 0.01}
    other = {
        "S1": 90.0,
        "S2": 100.0,
        "sigma1": 0.2,
        "sigma2": 0.3,
        "rho": 0.4,
        "T": 2.0,
        "q1": 0.01,
        "q2": 0.03,
    }
    parity = 100 * math.exp(-0.06) - 90 * math.exp(-0.02)
    assert bs.exchange_option(**at) - bs.exchange_option(**other) == pytest.approx(parity, rel=1e-13)
    fixed = bs.exchange_option(**{**at, "sigma2": 0.0})
    assert fixed == pytest.approx(
        bs.black_scholes_call(S=100, K=90, r=0.01, q=0.03, sigma=0.3, T=2), rel=1e-14
    )
    spread = math.sqrt(0.09 - 2 * 0.4 * 0.06 + 0.04)
    plain = bs.black_scholes_call(S=100, K=90, r=0.01, q=0.03, sigma=spread, T=2)
    assert bs.exchange_option(**at) == pytest.approx(plain, rel=1e-13)
    same = {**at, "sigma1": 0.2, "rho": 1.0}
    assert bs.exchange_option(**same) == pytest.approx(parity, rel=1e-14)


def test_moments_reference_numbers():
    assert ou_mean(X=3, theta=2, mu=1, T=0.7) == pytest.approx(1.493193927883, abs=5e-13)
    assert ou_variance(theta=2, sigma=0.5, T=0.7) == pytest.approx(0.058699371086, abs=5e-13)
    assert cir_mean(r=0.09, kappa=1.5, theta=0.04, T=0.7) == pytest.approx(0.057496887456, abs=5e-13)
    assert cir_variance(r=0.09, kappa=1.5, theta=0.04, sigma=0.3, T=0.7) == pytest.approx(
        0.001735496249, abs=5e-13
    )
    assert cir_mean(r=0.04, kappa=4, theta=0.25, T=1) == pytest.approx(0.246153715833, abs=5e-13)
    assert cir_variance(r=0.04, kappa=4, theta=0.25, sigma=1, T=1) == pytest.approx(0.0302955575, abs=5e-11)
    square = gbm_variance(S=0.1, mu=1.5, sigma=0.1, T=1) + gbm_mean(S=0.1, mu=1.5, T=1) ** 2
    assert square == pytest.approx(0.202873999252409306, rel=1e-14)


def test_moments_without_reversion():
    assert ou_variance(theta=0, sigma=0.5, T=3) == 0.75
    assert ou_mean(X=3, theta=0, mu=1, T=3) == 3
    assert cir_variance(r=0.09, kappa=0, theta=0.04, sigma=0.3, T=2) == pytest.approx(
        0.09 * 0.09 * 2, rel=1e-14
    )
    assert ou_variance(theta=1e-12, sigma=0.5, T=3) == pytest.approx(0.75, rel=1e-11)
