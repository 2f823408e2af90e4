import math

from simkit.closed_forms.arguments import finite, nonnegative


def down_and_out_call(
    *, S: float, K: float, B: float, r: float, sigma: float, T: float, q: float = 0.0
) -> float:
    r"""Call that dies where the price touches B on the way, watched continuously; in currency.

    By reflection $V(S) - (B/S)^p\,V(B^2/S)$ with $p = 2(r - q)/\sigma^2 - 1$ and V the price, without
    barrier, of $\max(S_T - K, 0)$ where $S_T > B$. Zero where $S \le B$. A simulation watches only at its
    grid points and so comes out higher: compare as dt goes to 0. Arguments as in `black_scholes_call`; at
    $\sigma = 0$ or $T = 0$ the limit; `ValueError` where S, K, B, sigma or T is negative.
    Reference: Merton (1973), doi:10.2307/3003143; Reiner & Rubinstein (1991), Risk 4(8), 28–35.
    """
    from scipy.special import log_ndtr

    nonnegative(S=S, K=K, B=B, sigma=sigma, T=T)
    finite(r=r, q=q)
    if S <= B:
        return 0.0
    asset, strike, deviation = S * math.exp(-q * T), K * math.exp(-r * T), sigma * math.sqrt(T)
    if deviation == 0:
        alive = asset > B * math.exp(-r * T)
        return max(asset - strike, 0.0) if alive else 0.0

    def truncated(log_price: float, log_weight: float) -> float:
        """exp(log_weight) V(exp(log_price)), in logarithms: the weight may overflow where V underflows."""
        threshold = math.log(max(K, B)) if max(K, B) > 0 else -math.inf
        d2 = (log_price - threshold + (r - q) * T) / deviation - deviation / 2
        kept = math.exp(log_weight + log_price - q * T + log_ndtr(d2 + deviation))
        paid = math.exp(log_weight - r * T + log_ndtr(d2))
        return kept - K * paid

    value = truncated(math.log(S), 0.0)
    if B > 0:
        p = 2 * (r - q) / sigma**2 - 1
        value -= truncated(2 * math.log(B) - math.log(S), p * math.log(B / S))
    return max(value, 0.0)
