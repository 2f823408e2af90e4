"""Closed forms against reference numbers, against each other, and at their limits."""

import inspect
import math
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from scipy.stats import poisson

from simkit import CLOSED_FORMS
from simkit.closed_forms import black_scholes as bs
from simkit.closed_forms.barrier import down_and_out_call
from simkit.closed_forms.bonds import cir_bond, hull_white_bond, vasicek_bond
from simkit.closed_forms.double_well import double_well_square
from simkit.closed_forms.geometric_asian import geometric_asian_call
from simkit.closed_forms.heston import heston_call, heston_put
from simkit.closed_forms.jump_diffusions import bates_call, kou_call, merton_call
from simkit.closed_forms.moments import cir_mean, cir_variance, gbm_mean, gbm_variance, ou_mean, ou_variance
from simkit.closed_forms.registry import EXAMPLES, closed_form, example_of

AT_THE_MONEY = {"S": 100.0, "K": 100.0, "r": 0.05, "sigma": 0.2, "T": 1.0}
SKEWED = {"S": 90.0, "K": 105.0, "r": 0.03, "sigma": 0.35, "T": 0.6, "q": 0.07}
HESTON = {"S": 100.0, "r": 0.01, "q": 0.02, "T": 1.0}
HESTON |= {"v0": 0.04, "kappa": 4.0, "theta": 0.25, "xi": 1.0, "rho": -0.5}

price = st.floats(20, 300)
rate = st.floats(-0.1, 0.2)
volatility = st.floats(0.01, 1.0)
duration = st.floats(0.01, 5.0)


def slope(function, arguments, name, step):
    """Central difference of fourth order."""

    def at(shift):
        return function(**{**arguments, name: arguments[name] + shift * step})

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


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


def test_barrier_limits():
    at = {**SKEWED, "K": 80.0}
    assert down_and_out_call(**at, B=0.0) == pytest.approx(bs.black_scholes_call(**at), rel=1e-14)
    assert down_and_out_call(**at, B=90.0) == 0
    assert 0 < down_and_out_call(**at, B=89.9999) < 1e-3
    for B in (50.0, 87.5, 89.0):  # the forward price 87.86 lies between the last two
        for vanishing in ("sigma", "T"):
            certain = down_and_out_call(**{**at, vanishing: 0.0}, B=B)
            assert certain == pytest.approx(down_and_out_call(**{**at, vanishing: 1e-6}, B=B), abs=1e-4)


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
