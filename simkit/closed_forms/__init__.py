"""Closed forms by name, in `CLOSED_FORMS`: prices, greeks and moments.

Each takes keyword arguments, plain numbers, and returns a float. Those that are not among `OF_NUMBERS` work
on arrays as well, with derivatives.
"""

from collections.abc import Callable
from types import ModuleType

from simkit.closed_forms import barrier, bonds, double_well, heston, jump_diffusions, lookback, moments
from simkit.closed_forms.barrier import (
    discrete_barrier,
    down_and_in_call,
    down_and_in_put,
    down_and_out_call,
    down_and_out_put,
    up_and_in_call,
    up_and_in_put,
    up_and_out_call,
    up_and_out_put,
)
from simkit.closed_forms.basket import geometric_basket_call
from simkit.closed_forms.black_scholes import (
    asset_or_nothing_call,
    asset_or_nothing_put,
    black_scholes_call,
    black_scholes_delta,
    black_scholes_gamma,
    black_scholes_put,
    black_scholes_put_delta,
    black_scholes_put_rho,
    black_scholes_put_theta,
    black_scholes_rho,
    black_scholes_theta,
    black_scholes_vanna,
    black_scholes_vega,
    black_scholes_volga,
    digital_call,
    digital_delta,
    digital_put,
    digital_vega,
    exchange_option,
)
from simkit.closed_forms.bonds import cir_bond, hull_white_bond, vasicek_bond
from simkit.closed_forms.double_well import double_well_square
from simkit.closed_forms.geometric_asian import geometric_asian_call
from simkit.closed_forms.heston import heston_call, heston_put
from simkit.closed_forms.implied_volatility import implied_volatility, implied_volatility_put
from simkit.closed_forms.jump_diffusions import bates_call, kou_call, kou_put, merton_call, merton_put
from simkit.closed_forms.lookback import (
    lookback_call,
    lookback_fixed_call,
    lookback_fixed_put,
    lookback_put,
)
from simkit.closed_forms.moments import cir_mean, cir_variance, gbm_mean, gbm_variance, ou_mean, ou_variance


def _from(*modules: ModuleType) -> frozenset[str]:
    """The closed forms of some modules."""
    homes = {module.__name__ for module in modules}
    return frozenset(name for name, form in CLOSED_FORMS.items() if form.__module__ in homes)


CLOSED_FORMS: dict[str, Callable[..., float]] = {
    form.__name__: form
    for form in (
        black_scholes_call,
        black_scholes_put,
        black_scholes_delta,
        black_scholes_gamma,
        black_scholes_vega,
        black_scholes_theta,
        black_scholes_rho,
        black_scholes_put_delta,
        black_scholes_put_theta,
        black_scholes_put_rho,
        black_scholes_vanna,
        black_scholes_volga,
        digital_call,
        digital_put,
        digital_delta,
        digital_vega,
        asset_or_nothing_call,
        asset_or_nothing_put,
        exchange_option,
        implied_volatility,
        implied_volatility_put,
        geometric_asian_call,
        geometric_basket_call,
        down_and_out_call,
        down_and_out_put,
        up_and_out_call,
        up_and_out_put,
        down_and_in_call,
        down_and_in_put,
        up_and_in_call,
        up_and_in_put,
        discrete_barrier,
        lookback_call,
        lookback_put,
        lookback_fixed_call,
        lookback_fixed_put,
        heston_call,
        heston_put,
        merton_call,
        merton_put,
        kou_call,
        kou_put,
        bates_call,
        vasicek_bond,
        cir_bond,
        hull_white_bond,
        gbm_mean,
        gbm_variance,
        ou_mean,
        ou_variance,
        cir_mean,
        cir_variance,
        double_well_square,
    )
}

OF_NUMBERS = _from(
    barrier, lookback, heston, jump_diffusions, double_well
)  # of a length that depends on them
KINKED_AT_EXPIRY = frozenset(  # that is at T = 0, where a price is what is paid
    each.__name__
    for each in (
        black_scholes_call,
        black_scholes_put,
        exchange_option,
        geometric_asian_call,
        geometric_basket_call,
    )
)
SMOOTH = _from(bonds, moments)
