"""Options on the mean of several prices."""

import math

from simkit.closed_forms.arguments import correlation, nonnegative
from simkit.closed_forms.black_scholes import lognormal_call
from simkit.closed_forms.numbers import Number, exp, is_plain, positive_part, sqrt, where
from simkit.closed_forms.registry import closed_form

EXAMPLE = {f"S{i}": 70.0 + 10 * i for i in (1, 2, 3)} | {f"sigma{i}": 0.1 * i for i in (1, 2, 3)}
EXAMPLE |= {"rho12": 0.5, "rho13": -0.2, "rho23": 0.0, "q1": 0.0, "q2": 0.01, "q3": 0.02}


@closed_form(kinked_at_expiry=True, example=EXAMPLE)
def geometric_basket_call(
    *,
    S1: Number,
    S2: Number,
    S3: Number,
    K: Number,
    r: Number,
    sigma1: Number,
    sigma2: Number,
    sigma3: Number,
    rho12: Number,
    rho13: Number,
    rho23: Number,
    T: Number,
    q1: Number = 0.0,
    q2: Number = 0.0,
    q3: Number = 0.0,
) -> Number:
    r"""Call on the geometric mean of three prices, those of `MultiAssetGBM` with $\mu_i = r - q_i$.

    Pays $\max((S_1 S_2 S_3)^{1/3} - K, 0)$ at T, in currency. The mean is lognormal with log variance $s^2
    T$, $s^2 = \frac19 \sum_{ij} \rho_{ij} \sigma_i \sigma_j$, and its present value is $(S_1 S_2 S_3)^{1/3}
    \exp\left(\frac{s^2 T}2 - \frac T3 \sum_i (q_i + \sigma_i^2/2)\right)$. `ValueError` if a price, K, a
    volatility or T is negative or the correlation matrix is not positive semidefinite.
    Reference: Black & Scholes (1973), doi:10.1086/260062, for a lognormal asset.
    """
    valid = nonnegative(S1=S1, S2=S2, S3=S3, K=K, sigma1=sigma1, sigma2=sigma2, sigma3=sigma3, T=T)
    valid &= correlation(rho12=rho12, rho13=rho13, rho23=rho23)
    sigmas = (sigma1, sigma2, sigma3)
    crossed = rho12 * sigma1 * sigma2 + rho13 * sigma1 * sigma3 + rho23 * sigma2 * sigma3
    determinant = 1 + 2 * rho12 * rho13 * rho23 - rho12**2 - rho13**2 - rho23**2
    if not is_plain(determinant):
        valid &= determinant >= -1e-12
    elif determinant < -1e-12:
        raise ValueError(
            "rho12, rho13, rho23: no random variables have these correlations: the determinant of their "
            f"matrix must be >= 0, got {determinant:.3g}; make them smaller"
        )
    variance = positive_part(sum(sigma * sigma for sigma in sigmas) + 2 * crossed) / 9
    yields = sum(q + sigma * sigma / 2 for q, sigma in zip((q1, q2, q3), sigmas, strict=True)) / 3
    mean = math.prod(price ** (1 / 3) for price in (S1, S2, S3))
    asset = where(valid, mean * exp((variance / 2 - yields) * T), math.nan)
    return lognormal_call(asset, K * exp(-r * T), sqrt(variance * T))
