r"""European options on geometric Brownian motion.

Under the pricing measure $dS = (r - q) S\,dt + \sigma S\,dW$. S is today's price and K the strike (both in
currency), r and q the continuously compounded interest and dividend rates (1/time), sigma the volatility
(1/time^0.5), T the time to expiry. Throughout
$d_{1,2} = (\ln(S/K) + (r - q)T)/\sigma\sqrt T \pm \sigma\sqrt T/2$. At $\sigma = 0$ or $T = 0$ every function
gives its limit; a negative S, K, sigma or T is a `ValueError` that names it.
References: Black & Scholes (1973), doi:10.1086/260062; Merton (1973), doi:10.2307/3003143 (dividends).
"""

import math

from simkit.closed_forms.arguments import correlation, finite, nonnegative


def normal_cdf(x: float) -> float:
    """The standard normal distribution function, accurate in the far lower tail too."""
    return math.erfc(-x / math.sqrt(2)) / 2


def normal_pdf(x: float) -> float:
    """The standard normal density."""
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def scores(asset: float, strike: float, deviation: float) -> tuple[float, float]:
    """(d1, d2) from present values and the deviation of the log price, or their limits where it is 0."""
    if asset > 0 and strike > 0 and deviation > 0:
        middle = math.log(asset / strike) / deviation
        return middle + deviation / 2, middle - deviation / 2
    limit = 0.0 if asset == strike else math.copysign(math.inf, asset - strike)
    return limit, limit


def lognormal_call(asset: float, strike: float, deviation: float) -> float:
    """Present value of max(A - B, 0) for lognormal A/B with the given present values and log deviation."""
    d1, d2 = scores(asset, strike, deviation)
    return max(asset * normal_cdf(d1) - strike * normal_cdf(d2), 0.0)


def weighted(score: float, numerator: float, sigma: float, limit: float) -> float:
    """phi(score) numerator/sigma; `limit` is that ratio's at sigma = 0, where the price is the strike."""
    density = normal_pdf(score)
    if density == 0:
        return 0.0
    return density * (numerator / sigma if sigma > 0 else limit)


def present_values(
    S: float, K: float, r: float, sigma: float, T: float, q: float
) -> tuple[float, float, float]:
    """Checked arguments as present value of the asset and of the strike and deviation of the log price."""
    nonnegative(S=S, K=K, sigma=sigma, T=T)
    finite(r=r, q=q)
    return S * math.exp(-q * T), K * math.exp(-r * T), sigma * math.sqrt(T)


def black_scholes_call(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Call, pays $\max(S_T - K, 0)$: $S e^{-qT} N(d_1) - K e^{-rT} N(d_2)$, in currency."""
    return lognormal_call(*present_values(S, K, r, sigma, T, q))


def black_scholes_put(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Put, pays $\max(K - S_T, 0)$: $K e^{-rT} N(-d_2) - S e^{-qT} N(-d_1)$, in currency."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    return lognormal_call(strike, asset, deviation)


def black_scholes_delta(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Call's derivative in S: $e^{-qT} N(d_1)$, dimensionless; the put's is smaller by $e^{-qT}$."""
    d1, _ = scores(*present_values(S, K, r, sigma, T, q))
    return math.exp(-q * T) * normal_cdf(d1)


def black_scholes_put_delta(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Put's derivative in S: $-e^{-qT} N(-d_1)$, dimensionless."""
    d1, _ = scores(*present_values(S, K, r, sigma, T, q))
    return -math.exp(-q * T) * normal_cdf(-d1)


def black_scholes_gamma(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Second derivative in S of call and put: $e^{-qT} \varphi(d_1) / S\sigma\sqrt T$, in 1/currency.

    Infinite at $\sigma\sqrt T = 0$ when the forward price is the strike.
    """
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, _ = scores(asset, strike, deviation)
    density = math.exp(-q * T) * normal_pdf(d1)
    if density == 0:
        return 0.0
    return density / (S * deviation) if S * deviation > 0 else math.inf


def black_scholes_vega(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Derivative in sigma of call and put: $S e^{-qT} \varphi(d_1) \sqrt T$, in currency per unit sigma."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, _ = scores(asset, strike, deviation)
    return asset * normal_pdf(d1) * math.sqrt(T)


def black_scholes_theta(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Call's change with passing time, in currency/time (not per day).

    $-S e^{-qT} \varphi(d_1) \sigma / 2\sqrt T - r K e^{-rT} N(d_2) + q S e^{-qT} N(d_1)$. Minus infinity at
    $T = 0$ when the price is the strike.
    """
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, d2 = scores(asset, strike, deviation)
    decay = asset * normal_pdf(d1) * sigma
    if decay > 0:
        decay = decay / (2 * math.sqrt(T)) if T > 0 else math.inf
    return -decay - r * strike * normal_cdf(d2) + q * asset * normal_cdf(d1)


def black_scholes_put_theta(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Put's change with passing time, in currency/time: the call's plus $r K e^{-rT} - q S e^{-qT}$."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, d2 = scores(asset, strike, deviation)
    decay = asset * normal_pdf(d1) * sigma
    if decay > 0:
        decay = decay / (2 * math.sqrt(T)) if T > 0 else math.inf
    return -decay + r * strike * normal_cdf(-d2) - q * asset * normal_cdf(-d1)


def black_scholes_rho(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Call's derivative in r: $K T e^{-rT} N(d_2)$, in currency·time (not per percent)."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    _, d2 = scores(asset, strike, deviation)
    return T * strike * normal_cdf(d2)


def black_scholes_put_rho(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Put's derivative in r: $-K T e^{-rT} N(-d_2)$, in currency·time."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    _, d2 = scores(asset, strike, deviation)
    return -T * strike * normal_cdf(-d2)


def black_scholes_vanna(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Delta's derivative in sigma, vega's in S: $-e^{-qT} \varphi(d_1)\,d_2/\sigma$, per unit sigma."""
    d1, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return -math.exp(-q * T) * weighted(d1, d2, sigma, -math.sqrt(T) / 2)


def black_scholes_volga(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Vega's derivative in sigma: $S e^{-qT} \varphi(d_1) \sqrt T\,d_1 d_2/\sigma$, in currency."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    d1, d2 = scores(asset, strike, deviation)
    return asset * math.sqrt(T) * weighted(d1, d1 * d2, sigma, 0.0)


def digital_call(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Pays 1 where $S_T > K$: $e^{-rT} N(d_2)$; half of $e^{-rT}$ where $S_T = K$ is certain."""
    _, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return math.exp(-r * T) * normal_cdf(d2)


def digital_put(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Pays 1 where $S_T < K$: $e^{-rT} N(-d_2)$; half of $e^{-rT}$ where $S_T = K$ is certain."""
    _, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return math.exp(-r * T) * normal_cdf(-d2)


def digital_delta(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Derivative of `digital_call` in S: $e^{-rT} \varphi(d_2)/S\sigma\sqrt T$, in 1/currency.

    The put's is its negative. Infinite at $\sigma\sqrt T = 0$ when the forward price is the strike.
    """
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    _, d2 = scores(asset, strike, deviation)
    density = math.exp(-r * T) * normal_pdf(d2)
    if density == 0:
        return 0.0
    return density / (S * deviation) if S * deviation > 0 else math.inf


def digital_vega(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Derivative of `digital_call` in sigma: $-e^{-rT} \varphi(d_2)\,d_1/\sigma$; the put's is opposite."""
    d1, d2 = scores(*present_values(S, K, r, sigma, T, q))
    return -math.exp(-r * T) * weighted(d2, d1, sigma, math.sqrt(T) / 2)


def asset_or_nothing_call(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Pays $S_T$ where $S_T > K$: $S e^{-qT} N(d_1)$, in currency; half where $S_T = K$ is certain."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    return asset * normal_cdf(scores(asset, strike, deviation)[0])


def asset_or_nothing_put(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Pays $S_T$ where $S_T < K$: $S e^{-qT} N(-d_1)$, in currency; half where $S_T = K$ is certain."""
    asset, strike, deviation = present_values(S, K, r, sigma, T, q)
    return asset * normal_cdf(-scores(asset, strike, deviation)[0])


def exchange_option(
    *,
    S1: float,
    S2: float,
    sigma1: float,
    sigma2: float,
    rho: float,
    T: float,
    q1: float = 0.0,
    q2: float = 0.0,
) -> float:
    r"""Pays $\max(S_1 - S_2, 0)$ on two geometric Brownian motions with correlation rho, in currency.

    Black–Scholes with $\sigma^2 = \sigma_1^2 - 2\rho\sigma_1\sigma_2 + \sigma_2^2$ and $S_2$ as the strike,
    whatever the interest rate. Reference: Margrabe (1978), doi:10.1111/j.1540-6261.1978.tb03397.x.
    """
    nonnegative(S1=S1, S2=S2, sigma1=sigma1, sigma2=sigma2, T=T)
    correlation(rho=rho)
    finite(q1=q1, q2=q2)
    # As a sum of squares it cannot come out negative at rho = 1.
    variance = (sigma1 - rho * sigma2) ** 2 + (1 - rho * rho) * sigma2**2
    return lognormal_call(S1 * math.exp(-q1 * T), S2 * math.exp(-q2 * T), math.sqrt(variance * T))
