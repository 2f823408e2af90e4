"""The estimator that an experiment asks for, where it is right."""

import dataclasses
from typing import cast

from simkit.errors import InputError
from simkit.sensitivity.choice import Choice, Method, choose, no_copies, release_interval, smooth
from simkit.sensitivity.facts import Facts, not_smooth


def choose_asked(facts: Facts, method: str, quantity: str, target: int) -> Choice:
    """The estimator asked for, or the one that is right."""
    right = choose(facts, quantity, target)
    if method == "auto" or method == right.method.replace(" ", "_"):
        return right
    label = facts.targets[target].label
    asked = "asked for"
    if method == "finite_differences":
        return Choice(quantity, (target,), "finite differences", asked)
    if method in ("pathwise", "reverse"):
        if right.method == "pathwise":
            return dataclasses.replace(right, method="reverse", reason=asked)
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
        name, reason = method.replace("_", " "), no_copies(facts, target, method)
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
