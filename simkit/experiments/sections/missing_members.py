"""Which members a model's class must have and lacks."""

import inspect
from typing import Any, get_args

from simkit_solvers.problems.problem import Calculus, NoiseKind

from simkit.suggestions import did_you_mean, shown

ATTRIBUTES = {
    "State": "the NamedTuple class of its variables",
    "Noise": "the NamedTuple class of its noises",
    "calculus": f"one of {', '.join(get_args(Calculus))}",
    "noise_kind": f"one of {', '.join(get_args(NoiseKind))}",
    "reactions": 'a dict of reactions, such as {"decay": reaction("X -> 0")}',
}


def missing_members(cls: Any) -> list[str]:
    """One message for each: `FHN has no drift(self, t, y); did you mean 'drfit'?`."""
    inherited = {name for base in cls.__mro__ if base.__module__.startswith("simkit_") for name in dir(base)}
    own = {name: inspect.isfunction(getattr(cls, name)) for name in dir(cls) if name not in inherited}
    messages = []
    for name in sorted(cls.__abstractmethods__ | cls.__abstractvars__ | cls.__abstractclassvars__):
        method = name in cls.__abstractmethods__
        arguments = f"({', '.join(inspect.signature(getattr(cls, name)).parameters)})" if method else ""
        hint = did_you_mean(name, [other for other, function in own.items() if function is method], few=0)
        if not hint and name in ATTRIBUTES:
            hint = f"; it is {ATTRIBUTES[name]}"
        messages.append(f"{cls.__name__} has no {name}{arguments}{hint}")
    for name in ("State", "Noise"):
        given = getattr(cls, name, None)
        if given is not None and not hasattr(given, "_fields"):
            messages.append(f"{cls.__name__}.{name}: must be {ATTRIBUTES[name]}, got {shown(given)}")
    return messages
