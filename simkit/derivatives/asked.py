"""The estimator that an experiment asks for, where it is right."""

from typing import cast

from simkit.derivatives.choice import (
    Choice,
    Method,
    Offer,
    first_offer,
    no_copies,
    release_interval,
    smooth,
    wide_differences,
)
from simkit.derivatives.facts import Facts, not_smooth
from simkit.errors import InputError


def offer_asked(facts: Facts, method: str, quantity: str, target: int) -> Offer:
    """The estimator asked for, or those that are right."""
    offer = first_offer(facts, quantity, target)
    if method == "auto":
        return offer
    asked = _asked(facts, method, quantity, target, offer.rivals[0])
    return Offer((asked,), wide_differences(facts, asked) if method == "finite_differences" else ())


def _asked(facts: Facts, method: str, quantity: str, target: int, right: Choice) -> Choice:
    """The estimator asked for; `right` is what is right in most cases."""
    if method == right.method.replace(" ", "_"):
        return right
    label = facts.targets[target].label
    asked = "asked for"
    if method == "finite_differences":
        return Choice(quantity, (target,), "finite differences", asked)
    if method in ("pathwise", "reverse"):
        if not facts.is_rough(quantity, target):
            return Choice(quantity, (target,), cast(Method, method), asked)
        reason = not_smooth(facts, target) or right.reason.split(", and ")[0]
        raise InputError(
            f"sensitivity.method: the {method} derivative of {quantity} in {label} would be wrong: {reason}; "
            f"leave method out for {right.method}"
        )
    if method == "smoothing":
        smoothed = smooth(facts, quantity, (target,), kinks=False)
        if isinstance(smoothed, str):
            raise InputError(
                f"sensitivity.method: no smoothing for {quantity} in {label}: {smoothed}; leave method out "
                f"for {right.method}"
            )
        return Choice(quantity, (target,), "smoothing", asked, 0, smoothed)
    if method in ("weak_derivative", "coupled_differences"):
        name, reason = method.replace("_", " "), no_copies(facts, quantity, target, method)
        if reason is not None:
            raise InputError(
                f"sensitivity.method: no {name} for {quantity} in {label}: {reason}; leave method out for "
                f"{right.method}"
            )
        return Choice(quantity, (target,), cast(Method, name), asked)
    look = release_interval(facts, quantity, target, "jumps")
    if isinstance(look, str):
        raise InputError(
            f"sensitivity.method: no score for {quantity} in {label}: {look}; leave method out for "
            f"{right.method}"
        )
    return Choice(quantity, (target,), "score", asked, look)
