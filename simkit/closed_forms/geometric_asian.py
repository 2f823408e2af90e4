"""Options on the geometric mean of geometric Brownian motion."""

import math

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.black_scholes import lognormal_call
from simkit.closed_forms.numbers import Number, exp, is_plain, sqrt, where
from simkit.closed_forms.registry import closed_form


@closed_form(kinked_at_expiry=True, example={"n": 12})
def geometric_asian_call(
    *, S: Number, K: Number, r: Number, sigma: Number, T: Number, n: int, q: Number = 0.0
) -> Number:
    r"""Call on the geometric mean of n prices of a geometric Brownian motion, in currency.

    Pays $\max(G - K, 0)$ at T with $G = (\prod_{i=1}^n S_{iT/n})^{1/n}$, the starting price not included.
    $\ln G$ is normal with mean $\ln S + (r - q - \sigma^2/2)\,T\,\frac{n+1}{2n}$ and variance
    $\sigma^2 T\,\frac{(n+1)(2n+1)}{6n^2}$. Arguments as in `black_scholes_call`; at $\sigma = 0$ or $T = 0$
    the limit; `ValueError` where S, K, sigma or T is negative or n is not a whole number of at least 1.
    Reference: Kemna & Vorst (1990), doi:10.1016/0378-4266(90)90039-5.
    """
    valid = nonnegative(S=S, K=K, sigma=sigma, T=T)
    if is_plain(n) and (n < 1 or n != int(n)):
        raise ValueError(f"n: must be a whole number of at least 1, got {n:g}")
    mean_time = T * (n + 1) / (2 * n)
    variance = sigma**2 * T * (n + 1) * (2 * n + 1) / (6 * n**2)
    asset = S * exp((r - q - sigma**2 / 2) * mean_time + variance / 2 - r * T)
    return lognormal_call(where(valid, asset, math.nan), K * exp(-r * T), sqrt(variance))
