r"""The deviation at which an option has a given price, on plain numbers or arrays.

The deviation is $s = \sigma\sqrt T$. With p and x as in `implied_volatility`, Newton's iteration for s starts
at the point of inflection $\sqrt{2|x|}$: below it for $(-\ln p)^{-1/2}$, which is nearly a line through 0,
and above it for $-\ln(1 - p)$; a step that would leave the bracketing interval is replaced by a bisection.
"""

import math
from typing import Any, NamedTuple

from simkit.closed_forms.numbers import (
    Number,
    exp,
    expm1,
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


class Search(NamedTuple):
    """The deviation so far, between `low` and `high`, and whether the next would be the same."""

    s: Number
    low: Number
    high: Number
    done: Any


def solved(price: float, asset: float, strike: float) -> float:
    """The deviation of plain numbers."""
    fraction, x = normalised(price, asset, strike)
    if fraction == 0:
        return 0.0
    search = initial(fraction, x)
    for _ in range(MOST_STEPS):
        if search.done:
            break
        search = improved(search, fraction, x)
    return search.s


def normalised(price: Number, asset: Number, strike: Number) -> tuple[Number, Number]:
    """The p and x of a call with these present values; p is outside [0, 1) where there is none."""
    value = price - where(asset > strike, asset - strike, 0.0)
    return value / where(asset < strike, asset, strike), -abs(log(asset / strike))


def initial(fraction: Number, x: Number) -> Search:
    """Where the search begins."""
    bend = sqrt(-2 * x)
    log_fraction, _ = _log_fraction(x, where(bend > 0, bend, 1.0))
    below = (bend > 0) & (log(fraction) < log_fraction)
    least = fraction * math.sqrt(2 * math.pi)  # nearly the answer at the money
    first = where(bend > least, bend, least)
    return Search(first, where(below, 0.0, bend), where(below, bend, LARGEST), fraction != fraction)


def improved(search: Search, fraction: Number, x: Number) -> Search:
    """One step further."""
    s, low, high, _ = search
    wanted = log(fraction)
    log_p, beyond = _log_fraction(x, s)
    below = log_p < wanted
    low, high = where(below, s, low), where(below, high, s)
    d1 = x / s + s / 2
    root, aim = sqrt(-1 / log_p), sqrt(-1 / wanted)
    falling = (aim - root) / (root * root * root * exp(-d1 * d1 / 2 - log_p) / math.sqrt(8 * math.pi))
    rare = log_p < MOSTLY
    rest = where(rare, log1p(-exp(where(rare, log_p, MOSTLY))), log(beyond))
    rising = (rest - log1p(-fraction)) * ratio(beyond, normal_pdf(d1), 0.0)
    small = s < sqrt(-2 * x)
    new = s + where(small, falling, rising)
    inside = (new > low) & (new < high)
    new = where(inside, new, (low + high) / 2)
    return Search(new, low, high, abs(new - s) <= 4e-16 * s)


def _log_fraction(x: Number, s: Number) -> tuple[Number, Number]:
    """ln p and 1 - p, each without loss of figures."""
    d1, d2 = x / s + s / 2, x / s - s / 2
    first, second = log_normal_cdf(d1), log_normal_cdf(d2)
    gap = second - first - x  # below 0, but for rounding
    fraction = first + log(-expm1(where(gap < -LEAST, gap, -LEAST)))
    return where(fraction < -LEAST, fraction, -LEAST), normal_cdf(-d1) + exp(second - x)
