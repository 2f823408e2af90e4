r"""Zero-coupon bonds, $P = E[e^{-\int_0^T r_s\,ds}]$, which pay 1 at T, under models of the short rate.

r is the rate today and sigma its volatility; the letters are the models' own. Reversion rates and sigma may
be zero. A negative T, sigma or reversion rate is a `ValueError` that names it.
References: Vasicek (1977), doi:10.1016/0304-405X(77)90016-2; Cox, Ingersoll & Ross (1985),
doi:10.2307/1911242; Hull & White (1990), doi:10.1093/rfs/3.4.573.
"""

import math

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.moments import decayed_span
from simkit.closed_forms.numbers import Number, exp, log1p, ratio, sqrt, where
from simkit.closed_forms.registry import closed_form

SERIES_BELOW = 0.1
TERMS = 12


@closed_form(smooth=True)
def vasicek_bond(*, r: Number, kappa: Number, theta: Number, sigma: Number, T: Number) -> Number:
    r"""Bond under $dr = \kappa(\theta - r)\,dt + \sigma\,dW$: $e^{-\theta T - (r - \theta) B + V/2}$.

    $B = (1 - e^{-\kappa T})/\kappa$ and $V = \sigma^2 \int_0^T (1 - e^{-\kappa s})^2\,ds/\kappa^2$.
    """
    nonnegative(kappa=kappa, sigma=sigma, T=T)
    return hull_white_bond(r=r, a=kappa, theta=kappa * theta, sigma=sigma, T=T)


@closed_form(smooth=True, example={"a": 1.0})
def hull_white_bond(*, r: Number, a: Number, theta: Number, sigma: Number, T: Number) -> Number:
    r"""Bond under $dr = (\theta - a r)\,dt + \sigma\,dW$: $e^{-rB - \theta (T - B)/a + V/2}$.

    $B = (1 - e^{-aT})/a$ and $V = \sigma^2 \int_0^T (1 - e^{-as})^2\,ds/a^2$.
    """
    nonnegative(a=a, sigma=sigma, T=T)
    first, second = _integrals(a, T)
    return exp(-r * decayed_span(a, T) - theta * first + sigma**2 * second / 2)


@closed_form(smooth=True)
def cir_bond(*, r: Number, kappa: Number, theta: Number, sigma: Number, T: Number) -> Number:
    r"""Bond under $dr = \kappa(\theta - r)\,dt + \sigma\sqrt r\,dW$: $A e^{-rB}$.

    With $\gamma = \sqrt{\kappa^2 + 2\sigma^2}$, $s = (1 - e^{-\gamma T})/\gamma$ and
    $y = -\sigma^2 s/(\kappa + \gamma)$: $B = s/(1 + y)$ and
    $\ln A = -2\kappa\theta\,\bigl(T/(\kappa + \gamma) + \ln(1 + y)/\sigma^2\bigr)$.
    """
    nonnegative(r=r, kappa=kappa, theta=theta, sigma=sigma, T=T)
    gamma = sqrt(kappa**2 + 2 * sigma**2)
    span = decayed_span(gamma, T)
    y = -ratio(sigma**2 * span, kappa + gamma, 0.0)
    small = y >= -1e-300
    slope = where(small, 1.0, log1p(y) / where(small, 1.0, y))
    level = ratio(2 * kappa * theta, kappa + gamma, 0.0) * (T - span * slope)
    return exp(-level - r * span / (1 + y))


def _integrals(a: Number, T: Number) -> tuple[Number, Number]:
    r"""$\int_0^T B(s)^j\,ds$ of $B(s) = (1 - e^{-as})/a$ for j = 1 and 2."""
    x = a * T
    long = x >= SERIES_BELOW
    x = where(long, 0.0, x)
    once, twice = decayed_span(a, T), decayed_span(2 * a, T)
    terms = [(-x) ** n / math.factorial(n + 2) / (n + 3) for n in range(TERMS)]
    first = sum((-x) ** n / math.factorial(n + 1) / (n + 2) for n in range(TERMS))
    second = sum((2.0 ** (n + 2) - 2) * term for n, term in enumerate(terms))
    first = where(long, ratio(T - once, a, 0.0), T**2 * first)
    return first, where(long, ratio(T - 2 * once + twice, a**2, 0.0), T**3 * second)
