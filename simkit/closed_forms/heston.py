r"""European options under Heston's stochastic volatility, by one Fourier integral.

Under the pricing measure $dS = (r - q) S\,dt + \sqrt v S\,dW_1$ and $dv = \kappa(\theta - v)\,dt +
\xi\sqrt v\,dW_2$ with correlation rho. S and K in currency; r, q, v0, kappa, theta, xi in 1/time; T in time.
At $T = 0$ or $\xi = 0$ the limits. A negative S, K, T, v0, kappa, theta or xi, or $|\rho| > 1$, is a
`ValueError` that names it.
References: Heston (1993), doi:10.1093/rfs/6.2.327; Lewis (2001), doi:10.2139/ssrn.282110 (the integral); Lord
& Kahl (2010), doi:10.1111/j.1467-9965.2010.00416.x (why this logarithm needs no branch tracking).
"""

import math
import sys
from typing import TYPE_CHECKING

from simkit.closed_forms.arguments import correlation, nonnegative
from simkit.closed_forms.black_scholes import lognormal_call, put_by_parity
from simkit.closed_forms.lewis import call_by_integral
from simkit.closed_forms.moments import decayed_span
from simkit.closed_forms.registry import closed_form

if TYPE_CHECKING:
    import numpy as np


@closed_form(of_numbers=True, example={"v0": 0.04, "xi": 1.0})
def heston_call(
    *,
    S: float,
    K: float,
    r: float,
    T: float,
    v0: float,
    kappa: float,
    theta: float,
    xi: float,
    rho: float,
    q: float = 0.0,
) -> float:
    r"""Call, pays $\max(S_T - K, 0)$, in currency, to about 1e-12 of the price level.

    $C = S e^{-qT} - \frac1\pi \sqrt{S e^{-qT} K e^{-rT}} \int_0^\infty \Re[e^{iuk} \phi(u - i/2)]
    \frac{du}{u^2 + 1/4}$, where $k = \ln(S/K) + (r - q)T$ and $\phi$ is the characteristic function of $\ln
    S_T - \ln E[S_T]$. The difference from Black–Scholes with the same mean variance is integrated.
    """
    nonnegative(S=S, K=K, T=T, v0=v0, kappa=kappa, theta=theta, xi=xi)
    correlation(rho=rho)
    asset, strike = S * math.exp(-q * T), K * math.exp(-r * T)
    variance = max(mean_variance(T, v0, kappa, theta), 0.0)
    if xi * xi < sys.float_info.min:
        return lognormal_call(asset, strike, math.sqrt(variance))

    def log_phi(u):
        return log_characteristic(u, T, v0, kappa, theta, xi, rho)

    return call_by_integral(asset, strike, variance, log_phi, f"heston_call at T = {T:g}, v0 = {v0:g}")


@closed_form(of_numbers=True, arguments_of=heston_call)
def heston_put(**arguments: float) -> float:
    r"""Put, pays $\max(K - S_T, 0)$, in currency: `heston_call` $- S e^{-qT} + K e^{-rT}$."""
    return put_by_parity(heston_call, arguments)


def mean_variance(T: float, v0: float, kappa: float, theta: float) -> float:
    r"""$E[\int_0^T v_s\,ds]$."""
    return theta * T + (v0 - theta) * decayed_span(kappa, T)


def log_characteristic(
    u: "np.ndarray", T: float, v0: float, kappa: float, theta: float, xi: float, rho: float
) -> "np.ndarray":
    r"""$\ln \phi(u - i/2)$ at real u, with everything divided by $\xi^2$ cancelled by hand."""
    import numpy as np

    w = u * u + 0.25
    beta = kappa - 1j * rho * xi * (u - 0.5j)
    d = np.sqrt(beta * beta + xi * xi * w)
    span = -np.expm1(-d * T) / d
    # (beta - d)/xi^2 = -w/(beta + d), and 1 - g exp(-dT) = 2d/(beta + d) (1 + (beta - d)/2 span)
    over = w / (beta + d)
    y = -xi * xi * over * span / 2
    slope = -over * span * (beta + d) / 2 / (1 + y)
    level = kappa * theta * (-over * T - 2 * _log1p(y) / (xi * xi))
    return level + slope * v0


def _log1p(z):
    """ln(1 + z) for complex z; numpy's own loses the real part of a small z."""
    import numpy as np

    x, y = z.real, z.imag
    return np.log1p(x * (2 + x) + y * y) / 2 + 1j * np.arctan2(y, 1 + x)
