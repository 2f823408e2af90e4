"""`implied_volatility.deviation` of arrays, where programs may trace and differentiate it."""

import jax
import jax.numpy as jnp

from simkit.closed_forms.black_scholes import scores
from simkit.closed_forms.deviation_search import MOST_STEPS, Search, improved, initial, normalised
from simkit.closed_forms.numbers import normal_cdf, normal_pdf


@jax.custom_jvp
def _deviation(price: jax.Array, asset: jax.Array, strike: jax.Array) -> jax.Array:
    fraction, x = normalised(price, asset, strike)
    sound = (fraction > 0) & (fraction < 1)
    beyond = jnp.where(fraction == 0, 0.0, jnp.nan)
    fraction = jnp.where(sound, fraction, 0.5)
    start = initial(fraction, x)
    carried = jnp.int32(0), Search(*(jnp.asarray(each, fraction.dtype) for each in start[:3]), start.done)
    _, search = jax.lax.while_loop(
        lambda carry: (carry[0] < MOST_STEPS) & ~carry[1].done,
        lambda carry: (carry[0] + 1, improved(carry[1], fraction, x)),
        carried,
    )
    return jnp.where(sound, search.s, beyond)


@_deviation.defjvp
def _(primals, tangents):
    """The derivative of the implicit function: the price moves with the deviation by vega."""
    _, asset, strike = primals
    s = _deviation(*primals)
    d1, d2 = scores(asset, strike, s)
    d_price, d_asset, d_strike = tangents
    explicit = normal_cdf(d1) * d_asset - normal_cdf(d2) * d_strike
    return s, (d_price - explicit) / (asset * normal_pdf(d1))


def traced_deviation(price: jax.Array, asset: jax.Array, strike: jax.Array) -> jax.Array:
    """The log deviation at which a lognormal call has this price, NaN where none does."""
    dtype = jnp.result_type(price, asset, strike)
    return _deviation(*(jnp.asarray(each, dtype) for each in (price, asset, strike)))
