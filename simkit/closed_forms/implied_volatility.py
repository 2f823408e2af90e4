r"""The volatility at which a European option on geometric Brownian motion has a given price.

Arguments as in `black_scholes_call`. With $F$ and $B$ the present values of the asset and of the strike, the
price of the out-of-the-money option, its parity partner's less $|F - B|$, is a fraction p of the smaller of
the two: $p = N(x/s + s/2) - e^{-x} N(x/s - s/2)$ with $x = -|\ln F/B|$ and $s = \sigma\sqrt T$.
`deviation_search` solves that for s. The answer is as exact as the price: an error of the price is divided
by vega.
References: Manaster & Koehler (1982), doi:10.1111/j.1540-6261.1982.tb01105.x; Jäckel (2015), Let's be
rational, doi:10.1002/wilm.10395.
"""

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.deviation_search import solved
from simkit.closed_forms.numbers import Number, exp, is_plain, sqrt
from simkit.closed_forms.registry import closed_form


@closed_form(example={"price": 12.0})
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


@closed_form(example={"price": 12.0})
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


def _present_values(S: Number, K: Number, r: Number, T: Number, q: Number) -> tuple[Number, Number]:
    nonnegative(S=S, K=K, T=T)
    for name, value in {"S": S, "K": K, "T": T}.items():
        if is_plain(value) and value == 0:
            raise ValueError(f"{name}: must be > 0, got 0: no price determines the volatility")
    return S * exp(-q * T), K * exp(-r * T)


def _check(price: Number, asset: Number, strike: Number, T: Number) -> None:
    """Raise `ValueError` where plain numbers allow arbitrage, so that no volatility gives the price."""
    if not is_plain(price, asset, strike):
        return
    least = max(asset - strike, 0.0)
    if not least <= price < asset:
        raise ValueError(
            f"price: no volatility gives {price:g}; it must be at least {least:g} and below {asset:g}"
        )
