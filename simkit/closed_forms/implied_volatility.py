r"""The volatility at which a European option on geometric Brownian motion has a given price.

Arguments as in `black_scholes_call`. With $F$ and $B$ the present values of the asset and of the strike, the
price of the out-of-the-money option, its parity partner's less $|F - B|$, is a fraction p of the smaller of
the two: $p = N(x/s + s/2) - e^{-x} N(x/s - s/2)$ with $x = -|\ln F/B|$ and $s = \sigma\sqrt T$. Newton's
iteration for s starts at the point of inflection $\sqrt{2|x|}$: below it for $(-\ln p)^{-1/2}$, which is
nearly a line through 0, and above it for $-\ln(1 - p)$; a step that would leave the bracketing interval is
replaced by a bisection. The answer is as exact as the price: an error of the price is divided by vega.
References: Manaster & Koehler (1982), doi:10.1111/j.1540-6261.1982.tb01105.x; Jäckel (2015), Let's be
rational, doi:10.1002/wilm.10395.
"""

import math
from typing import Any, NamedTuple

from simkit.closed_forms.arguments import finite, nonnegative
from simkit.closed_forms.numbers import (
    Number,
    exp,
    expm1,
    is_plain,
    log,
    log1p,
    log_normal_cdf,
    normal_cdf,
    normal_pdf,
    ratio,
    sqrt,
    where,
)

MOST_STEPS = 100
LARGEST = 70.0  # of s, where 1 - p is as good as 0 and has a logarithm yet
LEAST = 1e-300
MOSTLY = -0.7  # of ln p, above which 1 - p is computed by itself


def implied_volatility(
    *, price: Number, S: Number, K: Number, r: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""The sigma at which `black_scholes_call` gives this price, in 1/time^0.5.

    `ValueError` unless S, K and T are above 0 and the price is from $\max(S e^{-qT} - K e^{-rT}, 0)$, where
    sigma is 0, up to and without $S e^{-qT}$; NaN on a path where it is not.
    """
    asset, strike = _present_values(S, K, r, T, q)
    _check(price, asset, strike, T)
    return deviation(price, asset, strike) / sqrt(T)


def implied_volatility_put(
    *, price: Number, S: Number, K: Number, r: Number, T: Number, q: Number = 0.0
) -> Number:
    r"""The sigma at which `black_scholes_put` gives this price, in 1/time^0.5.

    `ValueError` unless S, K and T are above 0 and the price is from $\max(K e^{-rT} - S e^{-qT}, 0)$, where
    sigma is 0, up to and without $K e^{-rT}$; NaN on a path where it is not.
    """
    asset, strike = _present_values(S, K, r, T, q)
    _check(price, strike, asset, T)
    return deviation(price, strike, asset) / sqrt(T)


def deviation(price: Number, asset: Number, strike: Number) -> Number:
    """The log deviation at which `lognormal_call` gives this price; NaN among arrays where none does."""
    if is_plain(price, asset, strike):
        return solved(price, asset, strike)
    from simkit.closed_forms.traced_deviation import traced_deviation

    return traced_deviation(price, asset, strike)


class Search(NamedTuple):
    """The deviation so far, between `low` and `high`, and whether the next would be the same."""

    s: Number
    low: Number
    high: Number
    done: Any


def solved(price: float, asset: float, strike: float) -> float:
    """The deviation of plain numbers."""
    share, x = normalised(price, asset, strike)
    if share == 0:
        return 0.0
    search = begun(share, x)
    for _ in range(MOST_STEPS):
        if search.done:
            break
        search = improved(search, share, x)
    return search.s


def normalised(price: Number, asset: Number, strike: Number) -> tuple[Number, Number]:
    """The share p and the x of a call with these present values; p is outside [0, 1) where there is none."""
    value = price - where(asset > strike, asset - strike, 0.0)
    return value / where(asset < strike, asset, strike), -abs(log(asset / strike))


def begun(share: Number, x: Number) -> Search:
    """Where the search begins."""
    bend = sqrt(-2 * x)
    log_share, _ = _log_share(x, where(bend > 0, bend, 1.0))
    below = (bend > 0) & (log(share) < log_share)
    least = share * math.sqrt(2 * math.pi)  # nearly the answer at the money
    first = where(bend > least, bend, least)
    return Search(first, where(below, 0.0, bend), where(below, bend, LARGEST), share != share)


def improved(search: Search, share: Number, x: Number) -> Search:
    """One step further."""
    s, low, high, _ = search
    wanted = log(share)
    found, beyond = _log_share(x, s)
    below = found < wanted
    low, high = where(below, s, low), where(below, high, s)
    d1 = x / s + s / 2
    root, aim = sqrt(-1 / found), sqrt(-1 / wanted)
    falling = (aim - root) / (root * root * root * exp(-d1 * d1 / 2 - found) / math.sqrt(8 * math.pi))
    rare = found < MOSTLY
    rest = where(rare, log1p(-exp(where(rare, found, MOSTLY))), log(beyond))
    rising = (rest - log1p(-share)) * ratio(beyond, normal_pdf(d1), 0.0)
    small = s < sqrt(-2 * x)
    new = s + where(small, falling, rising)
    inside = (new > low) & (new < high)
    new = where(inside, new, (low + high) / 2)
    return Search(new, low, high, abs(new - s) <= 4e-16 * s)


def _log_share(x: Number, s: Number) -> tuple[Number, Number]:
    """ln p and 1 - p, each without loss of figures."""
    d1, d2 = x / s + s / 2, x / s - s / 2
    first, second = log_normal_cdf(d1), log_normal_cdf(d2)
    gap = second - first - x  # below 0, but for rounding
    share = first + log(-expm1(where(gap < -LEAST, gap, -LEAST)))
    return where(share < -LEAST, share, -LEAST), normal_cdf(-d1) + exp(second - x)


def _present_values(S: Number, K: Number, r: Number, T: Number, q: Number) -> tuple[Number, Number]:
    nonnegative(S=S, K=K, T=T)
    finite(r=r, q=q)
    for name, value in {"S": S, "K": K, "T": T}.items():
        if is_plain(value) and value == 0:
            raise ValueError(f"{name}: must be > 0, got 0: no price tells the volatility")
    return S * exp(-q * T), K * exp(-r * T)


def _check(price: Number, asset: Number, strike: Number, T: Number) -> None:
    """Raise `ValueError` where plain numbers allow arbitrage, so that no volatility gives the price."""
    finite(price=price)
    if not is_plain(price, asset, strike):
        return
    least = max(asset - strike, 0.0)
    if not least <= price < asset:
        raise ValueError(
            f"price: no volatility gives {price:g}; without arbitrage it is from {least:g} up to and without "
            f"{asset:g}"
        )
