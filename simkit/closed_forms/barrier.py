r"""Options with a continuously monitored barrier B, on geometric Brownian motion.

A knock-out expires, and a knock-in becomes active, when the price touches B. By reflection, with $p = 2(r -
q)/\sigma^2 - 1$ and $V(S)$, $D(S)$ the prices without barrier of the payoff where $S_T$ ends on the active
side of B and on the other one,

$$\text{out} = V(S) - (B/S)^p\,V(B^2/S), \qquad \text{in} = D(S) + (B/S)^p\,V(B^2/S).$$

A simulation monitors only at its grid points, so its knock-outs are worth more and its knock-ins less: use
`no_touch`, move the barrier by `discrete_barrier`, or compare as dt goes to 0. Arguments as in
`black_scholes_call`, in currency, 1/time and time; at $\sigma = 0$ or $T = 0$ the limit; `ValueError` where
S, K, B, sigma or T is negative.
References: Merton (1973), doi:10.2307/3003143; Reiner & Rubinstein (1991), Risk 4(8), 28–35.
"""

import math
from typing import Literal

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.black_scholes import black_scholes_call, black_scholes_put
from simkit.closed_forms.registry import closed_form

BROADIE_GLASSERMAN_KOU = 0.5825971579390107  # -zeta(1/2)/sqrt(2 pi)


@closed_form(of_numbers=True)
def down_and_out_call(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Call that expires when the price falls to B: $V(S) - (B/S)^p\,V(B^2/S)$. Zero where $S \le B$."""
    return _knock_out(1, "down", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def down_and_out_put(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Put that expires when the price falls to B: $V(S) - (B/S)^p\,V(B^2/S)$. Zero where $S \le B$."""
    return _knock_out(-1, "down", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def up_and_out_call(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Call that expires when the price rises to B: $V(S) - (B/S)^p\,V(B^2/S)$. Zero where $S \ge B$."""
    return _knock_out(1, "up", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def up_and_out_put(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Put that expires when the price rises to B: $V(S) - (B/S)^p\,V(B^2/S)$. Zero where $S \ge B$."""
    return _knock_out(-1, "up", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def down_and_in_call(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Call once the price has fallen to B: $D(S) + (B/S)^p\,V(B^2/S)$. The plain call where $S \le B$."""
    return _knock_in(1, "down", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def down_and_in_put(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Put once the price has fallen to B: $D(S) + (B/S)^p\,V(B^2/S)$. The plain put where $S \le B$."""
    return _knock_in(-1, "down", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def up_and_in_call(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Call once the price has risen to B: $D(S) + (B/S)^p\,V(B^2/S)$. The plain call where $S \ge B$."""
    return _knock_in(1, "up", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True)
def up_and_in_put(*, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Put once the price has risen to B: $D(S) + (B/S)^p\,V(B^2/S)$. The plain put where $S \ge B$."""
    return _knock_in(-1, "up", S, K, B, r, sigma, T, q)


@closed_form(of_numbers=True, example={"dt": 0.1})
def discrete_barrier(*, S: float, B: float, sigma: float, dt: float) -> float:
    r"""The continuously monitored level equivalent to monitoring B each dt: $B e^{\pm\beta\sigma\sqrt{dt}}$.

    With $\beta = -\zeta(1/2)/\sqrt{2\pi} \approx 0.5826$, upwards where $B > S$ and downwards where $B < S$;
    in currency. A barrier option monitored each dt is worth one monitored continuously at this level, up to
    $o(\sqrt{dt})$. `ValueError` where S, B, sigma or dt is negative.
    Reference: Broadie, Glasserman & Kou (1997), doi:10.1111/1467-9965.00035.
    """
    nonnegative(S=S, B=B, sigma=sigma, dt=dt)
    away = math.copysign(1.0, B - S) if B != S else 0.0
    return B * math.exp(away * BROADIE_GLASSERMAN_KOU * sigma * math.sqrt(dt))


Side = Literal["down", "up"]


def _knock_out(kind: int, side: Side, S, K, B, r, sigma, T, q) -> float:
    """`kind` is 1 for a call and -1 for a put."""
    nonnegative(S=S, K=K, B=B, sigma=sigma, T=T)
    if S <= B if side == "down" else S >= B:
        return 0.0
    if S == 0 or sigma * T == 0:
        return _plain(kind, S, K, r, sigma, T, q) if _certain(side, S, B, r, q, T) else 0.0
    value = _ending(kind, side, math.log(S), 0.0, K, B, r, sigma, T, q)
    if B > 0:
        value -= _image(kind, side, S, K, B, r, sigma, T, q)
    return max(value, 0.0)


def _knock_in(kind: int, side: Side, S, K, B, r, sigma, T, q) -> float:
    nonnegative(S=S, K=K, B=B, sigma=sigma, T=T)
    if S <= B if side == "down" else S >= B:
        return _plain(kind, S, K, r, sigma, T, q)
    if S == 0 or sigma * T == 0:
        return 0.0 if _certain(side, S, B, r, q, T) else _plain(kind, S, K, r, sigma, T, q)
    if B == 0:
        return 0.0
    other = "up" if side == "down" else "down"
    value = _ending(kind, other, math.log(S), 0.0, K, B, r, sigma, T, q)
    return max(value + _image(kind, side, S, K, B, r, sigma, T, q), 0.0)


def _plain(kind: int, S, K, r, sigma, T, q) -> float:
    form = black_scholes_call if kind == 1 else black_scholes_put
    return form(S=S, K=K, r=r, sigma=sigma, T=T, q=q)


def _certain(side: Side, S, B, r, q, T) -> bool:
    """Whether a price without noise, which moves one way only, stayed on its side of B."""
    end = S * math.exp((r - q) * T)
    return end > B if side == "down" else end < B


def _image(kind: int, side: Side, S, K, B, r, sigma, T, q) -> float:
    p = 2 * (r - q) / sigma**2 - 1
    return _ending(kind, side, 2 * math.log(B) - math.log(S), p * math.log(B / S), K, B, r, sigma, T, q)


def _ending(kind: int, side: Side, log_price, log_weight, K, B, r, sigma, T, q) -> float:
    """exp(log_weight) times the price of the payoff where S_T ends above (`down`) or below (`up`) B.

    In logarithms: the weight may overflow where the price underflows.
    """
    from scipy.special import log_ndtr

    low, high = (K, math.inf) if kind == 1 else (0.0, K)
    low, high = (max(low, B), high) if side == "down" else (low, min(high, B))
    if low >= high:
        return 0.0
    deviation = sigma * math.sqrt(T)

    def score(level: float) -> float:
        if level in (0.0, math.inf):
            return math.inf if level == 0 else -math.inf
        return (log_price - math.log(level) + (r - q) * T) / deviation - deviation / 2

    def between(log_value: float, shift: float) -> float:
        first, last = score(low) + shift, score(high) + shift
        if last > 0:  # near 1 the two differ by less than their rounding
            first, last = -last, -first
        return math.exp(log_value + log_ndtr(first)) - math.exp(log_value + log_ndtr(last))

    inside = between(log_weight + log_price - q * T, deviation)
    return kind * (inside - K * between(log_weight - r * T, 0.0))
