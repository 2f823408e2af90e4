r"""European options on prices that jump.

Under the pricing measure $dS = (r - q - \lambda k) S\,dt + \sigma S\,dW + (e^z - 1) S_-\,dN$ with jumps at
the rate $\lambda$ and $k = E[e^z] - 1$, as in the models of the same names; in Bates's $\sigma^2$ is Heston's
variance v. S and K in currency; r, q and lam in 1/time, sigma in 1/time^0.5; T in time; m, delta, p, eta1 and
eta2 are numbers. At $T = 0$ the limits. A negative S, K, sigma, lam, delta or T is a `ValueError` that names
it, as is eta1 of at most 1, eta2 that is not positive, or p outside [0, 1].
References: Merton (1976), doi:10.1016/0304-405X(76)90022-2; Kou (2002), doi:10.1287/mnsc.48.8.1086.166; Bates
(1996), doi:10.1093/rfs/9.1.69; Lewis (2001), doi:10.2139/ssrn.282110 (the integral).
"""

import math
import sys

from simkit.closed_forms.arguments import correlation, nonnegative
from simkit.closed_forms.black_scholes import lognormal_call, put_by_parity
from simkit.closed_forms.heston import log_characteristic, mean_variance
from simkit.closed_forms.lewis import call_by_integral
from simkit.closed_forms.registry import closed_form

LEFT_OUT = 1e-17


@closed_form(of_numbers=True, example={"lam": 1.0, "m": -0.1, "delta": 0.2})
def merton_call(
    *,
    S: float,
    K: float,
    r: float,
    sigma: float,
    T: float,
    lam: float,
    m: float,
    delta: float,
    q: float = 0.0,
) -> float:
    r"""Call with normal jumps $N(m, \delta^2)$ of $\ln S$, in currency: the mean of Black–Scholes over the
    number n of jumps, $\sum_n e^{-\lambda T} \frac{(\lambda T)^n}{n!} C_n$.

    In $C_n$ the asset is worth $S e^{-qT - \lambda k T} (1 + k)^n$ today and the variance of its logarithm is
    $\sigma^2 T + n\delta^2$.
    """
    nonnegative(S=S, K=K, sigma=sigma, T=T, lam=lam, delta=delta)
    strike = K * math.exp(-r * T)
    mean, grown = lam * T, m + delta**2 / 2
    start = -q * T - mean * math.expm1(grown)
    tilted = mean * math.exp(grown)  # the mean of n where the asset counts
    total, n = 0.0, 0
    while True:
        weight = -mean + (n * math.log(mean) - math.lgamma(n + 1) if n else 0.0)
        try:
            asset = S * math.exp(start + n * grown)
        except OverflowError:
            raise ValueError(
                f"delta: jumps with lam = {lam:g}, m = {m:g} and delta = {delta:g} give a price too large to "
                "compute"
            ) from None
        term = math.exp(weight) * lognormal_call(asset, strike, math.sqrt(sigma**2 * T + n * delta**2))
        total, n = total + term, n + 1
        if mean == 0 or (n > max(mean, tilted) + 10 and term <= LEFT_OUT * total):
            return total


@closed_form(of_numbers=True, arguments_of=merton_call)
def merton_put(**arguments: float) -> float:
    r"""Put on the same price, in currency: `merton_call` $- S e^{-qT} + K e^{-rT}$."""
    return put_by_parity(merton_call, arguments)


@closed_form(of_numbers=True, example={"lam": 1.0, "p": 0.4, "eta1": 10.0, "eta2": 5.0})
def kou_call(
    *,
    S: float,
    K: float,
    r: float,
    sigma: float,
    T: float,
    lam: float,
    p: float,
    eta1: float,
    eta2: float,
    q: float = 0.0,
) -> float:
    r"""Call with jumps of $\ln S$ that are exponential, upwards with probability p and rate $\eta_1$, else
    downwards with $\eta_2$, in currency.

    By the integral of `heston_call`, with
    $\ln\phi(u) = -\sigma^2 T (iu + u^2)/2 + \lambda T (M(iu) - 1 - iuk)$
    and $M(s) = p\eta_1/(\eta_1 - s) + (1 - p)\eta_2/(\eta_2 + s)$. $\sigma = 0$ is a `ValueError` where there
    are jumps: the integrand does not decay.
    """
    nonnegative(S=S, K=K, sigma=sigma, T=T, lam=lam, p=p)
    for name, value, least in (("eta1", eta1, 1), ("eta2", eta2, 0)):
        if value <= least:
            raise ValueError(f"{name}: must be > {least}, got {value:g}")
    if p > 1:
        raise ValueError(f"p: must be <= 1, got {p:g}")
    asset, strike, variance = S * math.exp(-q * T), K * math.exp(-r * T), sigma**2 * T
    if lam * T == 0 or asset == 0 or strike == 0:
        return lognormal_call(asset, strike, math.sqrt(variance))
    if variance == 0:
        raise ValueError("sigma: must be > 0 for a price by this integral, got 0; use a small one")

    def moment(s):
        return p * eta1 / (eta1 - s) + (1 - p) * eta2 / (eta2 + s)

    def log_phi(u):
        s = 1j * u + 0.5
        return -variance / 2 * (u * u + 0.25) + lam * T * (moment(s) - 1 - s * (moment(1.0) - 1))

    return call_by_integral(asset, strike, variance, log_phi, f"kou_call at T = {T:g}, sigma = {sigma:g}")


@closed_form(of_numbers=True, arguments_of=kou_call)
def kou_put(**arguments: float) -> float:
    r"""Put on the same price, in currency: `kou_call` $- S e^{-qT} + K e^{-rT}$."""
    return put_by_parity(kou_call, arguments)


@closed_form(of_numbers=True, example={"v0": 0.04, "xi": 1.0, "lam": 1.0, "m": -0.1, "delta": 0.2})
def bates_call(
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
    lam: float,
    m: float,
    delta: float,
    q: float = 0.0,
) -> float:
    r"""Call under Heston's variance with Merton's jumps, in currency.

    By the integral of `heston_call`, whose $\ln\phi(u)$ has the additional term $\lambda T (e^{ium -
    u^2\delta^2/2} - 1 - iuk)$.
    """
    nonnegative(S=S, K=K, T=T, v0=v0, kappa=kappa, theta=theta, xi=xi, lam=lam, delta=delta)
    correlation(rho=rho)
    variance = mean_variance(T, v0, kappa, theta)
    if xi * xi < sys.float_info.min or variance <= 0:
        sigma = math.sqrt(variance / T) if T > 0 else 0.0
        return merton_call(S=S, K=K, r=r, sigma=sigma, T=T, lam=lam, m=m, delta=delta, q=q)
    asset, strike = S * math.exp(-q * T), K * math.exp(-r * T)

    def log_phi(u):
        import numpy as np

        s = 1j * u + 0.5
        jumps = np.expm1(s * m + (s * delta) ** 2 / 2) - s * math.expm1(m + delta**2 / 2)
        return log_characteristic(u, T, v0, kappa, theta, xi, rho) + lam * T * jumps

    return call_by_integral(asset, strike, variance, log_phi, f"bates_call at T = {T:g}, v0 = {v0:g}")
