"""Means and variances of the one-variable models, given their value at time zero.

The letters are the models' own; the first argument is the value at time zero and T the time since. Rates may
be zero. A negative volatility, rate or T is a `ValueError` that names it.
"""

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.numbers import Number, exp, expm1, ratio
from simkit.closed_forms.registry import closed_form


def decayed_span(rate: Number, T: Number) -> Number:
    r"""$\int_0^T e^{-\text{rate}\,s}\,ds$, which is T at rate zero."""
    return ratio(-expm1(-rate * T), rate, T)


@closed_form(smooth=True)
def gbm_mean(*, S: Number, mu: Number, T: Number) -> Number:
    r"""Mean of $dS = \mu S\,dt + \sigma S\,dW$: $S e^{\mu T}$. Reference: doi:10.1086/260062."""
    nonnegative(T=T)
    return S * exp(mu * T)


@closed_form(smooth=True)
def gbm_variance(*, S: Number, mu: Number, sigma: Number, T: Number) -> Number:
    r"""Variance of $dS = \mu S\,dt + \sigma S\,dW$: $S^2 e^{2\mu T}(e^{\sigma^2 T} - 1)$.

    Reference: doi:10.1086/260062.
    """
    nonnegative(sigma=sigma, T=T)
    return gbm_mean(S=S, mu=mu, T=T) ** 2 * expm1(sigma**2 * T)


@closed_form(smooth=True, example={"X": 3.0})
def ou_mean(*, X: Number, theta: Number, mu: Number, T: Number) -> Number:
    r"""Mean of $dX = \theta(\mu - X)\,dt + \sigma\,dW$: $\mu + (X - \mu) e^{-\theta T}$.

    Reference: Uhlenbeck & Ornstein (1930), doi:10.1103/PhysRev.36.823.
    """
    nonnegative(theta=theta, T=T)
    return X + (X - mu) * expm1(-theta * T)


@closed_form(smooth=True)
def ou_variance(*, theta: Number, sigma: Number, T: Number) -> Number:
    r"""Variance of $dX = \theta(\mu - X)\,dt + \sigma\,dW$: $\sigma^2(1 - e^{-2\theta T})/2\theta$.

    Reference: Uhlenbeck & Ornstein (1930), doi:10.1103/PhysRev.36.823.
    """
    nonnegative(theta=theta, sigma=sigma, T=T)
    return sigma**2 * decayed_span(2 * theta, T)


@closed_form(smooth=True)
def cir_mean(*, r: Number, kappa: Number, theta: Number, T: Number) -> Number:
    r"""Mean of $dr = \kappa(\theta - r)\,dt + \sigma\sqrt r\,dW$: $\theta + (r - \theta) e^{-\kappa T}$.

    Reference: Cox, Ingersoll & Ross (1985), doi:10.2307/1911242.
    """
    nonnegative(r=r, kappa=kappa, theta=theta, T=T)
    return r + (r - theta) * expm1(-kappa * T)


@closed_form(smooth=True)
def cir_variance(*, r: Number, kappa: Number, theta: Number, sigma: Number, T: Number) -> Number:
    r"""Variance of $dr = \kappa(\theta - r)\,dt + \sigma\sqrt r\,dW$.

    $r\sigma^2(e - e^2)/\kappa + \theta\sigma^2(1 - e)^2/2\kappa$ with $e = e^{-\kappa T}$.
    Reference: Cox, Ingersoll & Ross (1985), doi:10.2307/1911242.
    """
    nonnegative(r=r, kappa=kappa, theta=theta, sigma=sigma, T=T)
    span = decayed_span(kappa, T)
    return sigma**2 * span * (r * exp(-kappa * T) + kappa * theta * span / 2)
