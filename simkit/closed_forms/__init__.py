"""Closed forms by name, in `CLOSED_FORMS`: prices, greeks and moments.

Each takes keyword arguments, plain numbers, and returns a float. Those that are not among `OF_NUMBERS` work
on arrays as well, with derivatives. Importing a module enters its closed forms.
"""

from simkit.closed_forms import (  # noqa: F401
    barrier,
    basket,
    black_scholes,
    bonds,
    double_well,
    geometric_asian,
    heston,
    implied_volatility,
    jump_diffusions,
    lookback,
    moments,
)
from simkit.closed_forms.registry import CLOSED_FORMS, KINKED_AT_EXPIRY, OF_NUMBERS, SMOOTH, closed_form

__all__ = ["CLOSED_FORMS", "KINKED_AT_EXPIRY", "OF_NUMBERS", "SMOOTH", "closed_form"]
