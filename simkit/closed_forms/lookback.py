r"""Options on the extremes of geometric Brownian motion, monitored continuously from now on.

With the maximum M and the minimum m of the price on [0, T], both with today's price S, $b = r - q$,
$\lambda = 2b/\sigma^2$ and $d = (\ln(S/x) + (b + \sigma^2/2)T)/\sigma\sqrt T$,

$$e^{-rT} E[(M - x)^+] = C(x) + \frac{S e^{-rT}}{\lambda}
  \left[e^{bT} N(d) - (x/S)^{\lambda} N(d - \lambda\sigma\sqrt T)\right], \quad x \ge S,$$

where C is the Black–Scholes call; for the minimum likewise, with the put. If b is near 0 the bracket is
averaged over a circle of complex b about it (Kassam & Trefethen 2005, doi:10.1137/S1064827502410633), because
its terms cancel. A simulation monitors only at its grid points, so its extremes are less extreme. Arguments
as in `black_scholes_call`; at $\sigma = 0$ or $T = 0$ the limit; `ValueError` where S, K, sigma or T is
negative.
References: Goldman, Sosin & Gatto (1979), doi:10.1111/j.1540-6261.1979.tb00059.x (floating strike); Conze &
Viswanathan (1991), doi:10.1111/j.1540-6261.1991.tb04648.x (fixed strike).
"""

import cmath
import math

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.black_scholes import lognormal_call
from simkit.closed_forms.registry import closed_form

NEAR_ZERO = 0.5  # of lambda, below which the bracket is averaged over a circle
NODES = 32


@closed_form(of_numbers=True)
def lookback_call(*, S: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Floating strike call, pays $S_T - m$: $S e^{-qT} - S e^{-rT} + e^{-rT} E[(S - m)^+]$, in currency."""
    nonnegative(S=S, sigma=sigma, T=T)
    return max(S * math.exp(-q * T) - S * math.exp(-r * T) + _below(S, S, r, sigma, T, q), 0.0)


@closed_form(of_numbers=True)
def lookback_put(*, S: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Floating strike put, pays $M - S_T$: $S e^{-rT} - S e^{-qT} + e^{-rT} E[(M - S)^+]$, in currency."""
    nonnegative(S=S, sigma=sigma, T=T)
    return max(S * math.exp(-r * T) - S * math.exp(-q * T) + _above(S, S, r, sigma, T, q), 0.0)


@closed_form(of_numbers=True)
def lookback_fixed_call(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Pays $\max(M - K, 0)$: $e^{-rT}(S - K)^+ + e^{-rT} E[(M - \max(K, S))^+]$, in currency."""
    nonnegative(S=S, K=K, sigma=sigma, T=T)
    return math.exp(-r * T) * max(S - K, 0.0) + _above(max(K, S), S, r, sigma, T, q)


@closed_form(of_numbers=True)
def lookback_fixed_put(*, S: float, K: float, r: float, sigma: float, T: float, q: float = 0.0) -> float:
    r"""Pays $\max(K - m, 0)$: $e^{-rT}(K - S)^+ + e^{-rT} E[(\min(K, S) - m)^+]$, in currency."""
    nonnegative(S=S, K=K, sigma=sigma, T=T)
    return math.exp(-r * T) * max(K - S, 0.0) + _below(min(K, S), S, r, sigma, T, q)


def _above(x: float, S: float, r: float, sigma: float, T: float, q: float) -> float:
    """Present value of (M - x)^+ for x >= S."""
    asset, strike, deviation = S * math.exp(-q * T), x * math.exp(-r * T), sigma * math.sqrt(T)
    if S == 0:
        return 0.0
    if deviation == 0:
        return max(math.exp(-r * T) * S * max(math.exp((r - q) * T), 1.0) - strike, 0.0)
    return lognormal_call(asset, strike, deviation) + _beyond(1, x, S, r, sigma, T, q)


def _below(x: float, S: float, r: float, sigma: float, T: float, q: float) -> float:
    """Present value of (x - m)^+ for x <= S."""
    asset, strike, deviation = S * math.exp(-q * T), x * math.exp(-r * T), sigma * math.sqrt(T)
    if x == 0:
        return 0.0
    if deviation == 0:
        return max(strike - math.exp(-r * T) * S * min(math.exp((r - q) * T), 1.0), 0.0)
    return lognormal_call(strike, asset, deviation) + _beyond(-1, x, S, r, sigma, T, q)


def _beyond(side: int, x: float, S: float, r: float, sigma: float, T: float, q: float) -> float:
    """What passing x on the way adds to ending beyond it; `side` is 1 above and -1 below."""
    from scipy.special import log_ndtr

    deviation, far = sigma * math.sqrt(T), math.log(S / x)

    def bracket(ratio):
        """Over lambda, which may be complex."""
        d = far / deviation + (1 + ratio) * deviation / 2
        first = cmath.exp(ratio * deviation**2 / 2 + log_ndtr(side * d))
        second = cmath.exp(-ratio * far + log_ndtr(side * (d - ratio * deviation)))
        return side * (first - second) / ratio

    ratio = 2 * (r - q) / sigma**2
    if abs(ratio) >= NEAR_ZERO:
        value = bracket(complex(ratio)).real
    else:
        circle = [cmath.exp(2j * math.pi * (k + 0.5) / NODES) for k in range(NODES)]
        value = sum(bracket(ratio + point).real for point in circle) / NODES
    return S * math.exp(-r * T) * max(value, 0.0)
