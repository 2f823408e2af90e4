r"""European options on geometric Brownian motion.

Under the pricing measure $dS = (r - q) S\,dt + \sigma S\,dW$. S is today's price and K the strike (both in
currency), r and q the continuously compounded interest and dividend rates (1/time), sigma the volatility
(1/time^0.5), T the time to expiry. Throughout
$d_{1,2} = (\ln(S/K) + (r - q)T)/\sigma\sqrt T \pm \sigma\sqrt T/2$. At $\sigma = 0$ or $T = 0$ every function
gives its limit; a negative S, K, sigma or T is a `ValueError` that names it.
References: Black & Scholes (1973), doi:10.1086/260062; Merton (1973), doi:10.2307/3003143 (dividends).
"""

import math
from collections.abc import Callable, Mapping

from simkit.closed_forms.arguments import correlation, nonnegative
from simkit.closed_forms.numbers import (
    Number,
    exp,
    is_plain,
    log,
    normal_cdf,
    normal_pdf,
    positive_part,
    ratio,
    sqrt,
    where,
)
from simkit.closed_forms.registry import closed_form


def scores(asset: Number, strike: Number, deviation: Number) -> tuple[Number, Number]:
    """(d1, d2) from present values and the deviation of the log price, or their limits where it is 0."""
    inside = (asset > 0) & (strike > 0) & (deviation > 0)
    nowhere = math.nan if not is_plain(asset, strike, deviation) else math.inf
    limit = where(asset < strike, -math.inf, where(asset > strike, math.inf, nowhere))
    limit = where(asset == strike, 0.0, limit)
    a, b, s = (where(inside, x, 1.0) for x in (asset, strike, deviation))
    middle = log(a / b) / s
    return where(inside, middle + s / 2, limit), where(inside, middle - s / 2, limit)


def lognormal_call(asset: Number, strike: Number, deviation: Number) -> Number:
    """Present value of max(A - B, 0) for lognormal A/B with the given present values and log deviation."""
    d1, d2 = scores(asset, strike, deviation)
    return positive_part(asset * normal_cdf(d1) - strike * normal_cdf(d2))


def weighted(score: Number, numerator: Number, sigma: Number, limit: Number) -> Number:
    """phi(score) numerator/sigma; `limit` is that ratio's at sigma = 0, where the price is the strike."""
    density = normal_pdf(score)
    inside = density != 0  # elsewhere the numerator may be infinite
    return where(inside, density * ratio(where(inside, numerator, 0.0), sigma, limit), 0.0)


def present_values(
    S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number
) -> tuple[Number, Number, Number]:
    """Checked arguments as present value of the asset and of the strike and deviation of the log price."""
    valid = nonnegative(S=S, K=K, sigma=sigma, T=T)
    return where(valid, S * exp(-q * T), math.nan), K * exp(-r * T), sigma * sqrt(T)


def put_by_parity(call: Callable[..., float], arguments: Mapping[str, float]) -> float:
    r"""The price of the put with the arguments of a call: $P = C - S e^{-qT} + K e^{-rT}$."""
    price, T = call(**arguments), arguments["T"]
    asset = arguments["S"] * math.exp(-arguments.get("q", 0.0) * T)
    return price - asset + arguments["K"] * math.exp(-arguments["r"] * T)


@closed_form(kinked_at_expiry=True)
def black_scholes_call(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Call, pays $\max(S_T - K, 0)$: $S e^{-qT} N(d_1) - K e^{-rT} N(d_2)$, in currency."""
    return lognormal_call(*present_values(S, K, r, sigma, T, q))


@closed_form(kinked_at_expiry=True)
def black_scholes_put(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Put, pays $\max(K - S_T, 0)$: $K e^{-rT} N(-d_2) - S e^{-qT} N(-d_1)$, in currency."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    return lognormal_call(strike, asset, deviation)


@closed_form()
def black_scholes_delta(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Call's derivative in S: $e^{-qT} N(d_1)$, dimensionless; the put's is smaller by $e^{-qT}$."""
    d1, _ = scores(*present_values(S, K, r, sigma, T, q))
    return exp(-q * T) * normal_cdf(d1)


@closed_form()
def black_scholes_put_delta(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Put's derivative in S: $-e^{-qT} N(-d_1)$, dimensionless."""
    d1, _ = scores(*present_values(S, K, r, sigma, T, q))
    return -exp(-q * T) * normal_cdf(-d1)


@closed_form()
def black_scholes_gamma(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Second derivative in S of call and put: $e^{-qT} \varphi(d_1) / S\sigma\sqrt T$, in 1/currency.

    Infinite at $\sigma\sqrt T = 0$ when the forward price is the strike.
    """
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, _ = scores(asset, strike, deviation)
    density = exp(-q * T) * normal_pdf(d1)
    return where(density == 0, 0.0, ratio(density, S * deviation, math.inf))


@closed_form()
def black_scholes_vega(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Derivative in sigma of call and put: $S e^{-qT} \varphi(d_1) \sqrt T$, in currency per unit sigma."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, _ = scores(asset, strike, deviation)
    return asset * normal_pdf(d1) * sqrt(T)


@closed_form()
def black_scholes_theta(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Call's change with passing time, in currency/time (not per day).

    $-S e^{-qT} \varphi(d_1) \sigma / 2\sqrt T - r K e^{-rT} N(d_2) + q S e^{-qT} N(d_1)$. Minus infinity at
    $T = 0$ when the price is the strike.
    """
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, d2 = scores(asset, strike, deviation)
    decay = asset * normal_pdf(d1) * sigma
    decay = where(decay > 0, ratio(decay, 2 * sqrt(T), math.inf), decay)
    return -decay - r * strike * normal_cdf(d2) + q * asset * normal_cdf(d1)


@closed_form()
def black_scholes_put_theta(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Put's change with passing time, in currency/time: the call's plus $r K e^{-rT} - q S e^{-qT}$."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, d2 = scores(asset, strike, deviation)
    decay = asset * normal_pdf(d1) * sigma
    decay = where(decay > 0, ratio(decay, 2 * sqrt(T), math.inf), decay)
    return -decay + r * strike * normal_cdf(-d2) - q * asset * normal_cdf(-d1)


@closed_form()
def black_scholes_rho(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Call's derivative in r: $K T e^{-rT} N(d_2)$, in currency·time (not per percent)."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    _, d2 = scores(asset, strike, deviation)
    return T * strike * normal_cdf(d2)


@closed_form()
def black_scholes_put_rho(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Put's derivative in r: $-K T e^{-rT} N(-d_2)$, in currency·time."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    _, d2 = scores(asset, strike, deviation)
    return -T * strike * normal_cdf(-d2)


@closed_form()
def black_scholes_vanna(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Delta's derivative in sigma, vega's in S: $-e^{-qT} \varphi(d_1)\,d_2/\sigma$, per unit sigma."""
    d1, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return -exp(-q * T) * weighted(d1, d2, sigma, -sqrt(T) / 2)


@closed_form()
def black_scholes_volga(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Vega's derivative in sigma: $S e^{-qT} \varphi(d_1) \sqrt T\,d_1 d_2/\sigma$, in currency."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, d2 = scores(asset, strike, deviation)
    return asset * sqrt(T) * weighted(d1, d1 * d2, sigma, 0.0)


@closed_form()
def digital_call(*, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0) -> Number:
    r"""Pays 1 where $S_T > K$: $e^{-rT} N(d_2)$; half of $e^{-rT}$ where $S_T = K$ is certain."""
    _, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return exp(-r * T) * normal_cdf(d2)


@closed_form()
def digital_put(*, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0) -> Number:
    r"""Pays 1 where $S_T < K$: $e^{-rT} N(-d_2)$; half of $e^{-rT}$ where $S_T = K$ is certain."""
    _, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return exp(-r * T) * normal_cdf(-d2)


@closed_form()
def digital_delta(*, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0) -> Number:
    r"""Derivative of `digital_call` in S: $e^{-rT} \varphi(d_2)/S\sigma\sqrt T$, in 1/currency.

    The put's is its negative. Infinite at $\sigma\sqrt T = 0$ when the forward price is the strike.
    """
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    _, d2 = scores(asset, strike, deviation)
    density = exp(-r * T) * normal_pdf(d2)
    return where(density == 0, 0.0, ratio(density, S * deviation, math.inf))


@closed_form()
def digital_vega(*, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0) -> Number:
    r"""Derivative of `digital_call` in sigma: $-e^{-rT} \varphi(d_2)\,d_1/\sigma$; the put's is opposite."""
    d1, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return -exp(-r * T) * weighted(d2, d1, sigma, sqrt(T) / 2)


@closed_form()
def asset_or_nothing_call(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Pays $S_T$ where $S_T > K$: $S e^{-qT} N(d_1)$, in currency; half where $S_T = K$ is certain."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    return asset * normal_cdf(scores(asset, strike, deviation)[0])


@closed_form()
def asset_or_nothing_put(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""Pays $S_T$ where $S_T < K$: $S e^{-qT} N(-d_1)$, in currency; half where $S_T = K$ is certain."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    return asset * normal_cdf(-scores(asset, strike, deviation)[0])


@closed_form(
    kinked_at_expiry=True,
    example={"S1": 100.0, "S2": 90.0, "sigma1": 0.2, "sigma2": 0.3, "q1": 0.01, "q2": 0.02},
)
def exchange_option(
    *,
    S1: Number,
    S2: Number,
    sigma1: Number,
    sigma2: Number,
    rho: Number,
    T: Number,
    q1: Number = 0.0,
    q2: Number = 0.0,
) -> Number:
    r"""Pays $\max(S_1 - S_2, 0)$ on two geometric Brownian motions with correlation rho, in currency.

    Black–Scholes with $\sigma^2 = \sigma_1^2 - 2\rho\sigma_1\sigma_2 + \sigma_2^2$ and $S_2$ as the strike,
    whatever the interest rate. Reference: Margrabe (1978), doi:10.1111/j.1540-6261.1978.tb03397.x.
    """
    valid = nonnegative(S1=S1, S2=S2, sigma1=sigma1, sigma2=sigma2, T=T) & correlation(rho=rho)
    # As a sum of squares it cannot come out negative at rho = 1.
    variance = (sigma1 - rho * sigma2) ** 2 + (1 - rho * rho) * sigma2**2
    asset = where(valid, S1 * exp(-q1 * T), math.nan)
    return lognormal_call(asset, S2 * exp(-q2 * T), sqrt(variance * T))
