"""Every method of molecular dynamics by its name in YAML."""

import difflib
from typing import Any

import numpy as np
from jax.core import Tracer

from simkit_solvers.methods.particles.baoab import ParticleBAOAB
from simkit_solvers.methods.particles.brownian_dynamics import BrownianDynamics
from simkit_solvers.methods.particles.fire import FIRE
from simkit_solvers.methods.particles.nose_hoover_chains import NoseHooverChains
from simkit_solvers.methods.particles.particle_method import AbstractParticleMethod
from simkit_solvers.methods.particles.stochastic_velocity_rescaling import StochasticVelocityRescaling
from simkit_solvers.methods.particles.velocity_verlet import VelocityVerlet
from simkit_solvers.problems.curve import AbstractTimeFunction, Curve
from simkit_solvers.problems.problem import Parameter, parameters_of

PARTICLE_METHODS: dict[str, type[AbstractParticleMethod]] = {
    "VelocityVerlet": VelocityVerlet,
    "BAOAB": ParticleBAOAB,
    "NoseHooverChains": NoseHooverChains,
    "StochasticVelocityRescaling": StochasticVelocityRescaling,
    "BrownianDynamics": BrownianDynamics,
    "FIRE": FIRE,
}

ELSEWHERE: dict[str, str] = {"langevin": "BAOAB", "brownian": "BrownianDynamics"}
ELSEWHERE |= dict.fromkeys(("verlet", "leapfrog", "rk4", "rk45", "lsoda", "bdf"), "VelocityVerlet")


def make_particle_method(name: str, options: dict[str, Any] | None = None) -> AbstractParticleMethod:
    """The method of a name with its options set; a temperature may be a `Curve`.

    `ValueError` for a name or an option that there is not, one that is missing, and a value out of its range.

    >>> from simkit_solvers import make_particle_method
    >>> make_particle_method("BAOAB", {"temperature": 1.0, "friction": 0.5}).ensemble
    'NVT'
    """
    if name not in PARTICLE_METHODS:
        other = method_elsewhere(name)
        remedy = f"; use {other}" if other else _suggestion(name, PARTICLE_METHODS)
        raise ValueError(f"unknown method {name!r} of molecular dynamics{remedy}")
    cls, options = PARTICLE_METHODS[name], dict(options or {})
    known = parameters_of(cls)
    for key, value in options.items():
        if key not in known:
            remedy = _suggestion(key, known) if known else "; it has none"
            raise ValueError(f"solver {name} has no option {key!r}{remedy}")
        _check_value(f"solver {name}: {key}", known[key], getattr(cls, key, None), value)
    missing = [key for key in known if key not in options and not hasattr(cls, key)]
    if missing:
        example = f"{{type: {name}, {', '.join(f'{key}: 1.0' for key in missing)}}}"
        raise ValueError(f"solver {name} needs {' and '.join(missing)}: give, say, {example}")
    return cls(**options)


def method_elsewhere(name: str) -> str | None:
    """The methods here for which other programs have this name, or that of an ensemble."""
    name = name.upper()
    if name in ("NPT", "NPH"):
        return (
            f"one of {method_elsewhere('NVT')}, at the density wanted: no method here controls the pressure"
        )
    of_ensemble = [each for each, cls in PARTICLE_METHODS.items() if cls.ensemble == name]
    return " or ".join(of_ensemble) or ELSEWHERE.get(name.casefold())


def _check_value(place: str, spec: Parameter, default: Any, value: Any) -> None:
    """Raise `ValueError` for a value of the wrong kind or outside its range.

    What is traced passes, and so does a function of time that is not given by values.
    """
    value = value.values if isinstance(value, Curve) else value
    if isinstance(value, Tracer | AbstractTimeFunction):
        return
    numbers = np.ravel(np.asarray(value))
    kinds, wanted = {bool: ("b", "true or false"), int: ("iu", "a whole number")}.get(
        type(default), ("iuf", "a number")
    )
    if numbers.dtype.kind not in kinds:
        raise ValueError(f"{place} must be {wanted}, got {value!r}")
    for number in numbers:
        if not spec.admits(float(number)):
            raise ValueError(f"{place} must be {spec.range}, got {float(number):g}")


def _suggestion(given: str, known) -> str:
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(str(given).casefold(), folded, n=1)
    return f"; did you mean {folded[close[0]]!r}?" if close else f"; known: {', '.join(known)}"
