"""The sections of an experiment of molecular dynamics: `observe` has a key for each function such as g(r)."""

import copy
import functools
import inspect
from typing import Annotated, Any

from pydantic import Field, create_model

from simkit.config.settings import ParticleExperiment
from simkit.config.settings.particles import ParticleObservable
from simkit.config.settings.values import Section, Shorthand
from simkit.md.functions import FUNCTIONS, AbstractFunction


def particle_experiment() -> type[ParticleExperiment]:
    """The sections with the keys of all functions that there are in `FUNCTIONS`."""
    return _with_functions(tuple(FUNCTIONS.items()))


@functools.cache
def _with_functions(functions: tuple[tuple[str, type[AbstractFunction]], ...]) -> type[ParticleExperiment]:
    keys: dict[str, Any] = {name: (function.settings | None, _key(function)) for name, function in functions}
    observable = _extended(ParticleObservable, **keys)
    observe = copy.copy(ParticleExperiment.model_fields["observe"])
    return _extended(
        ParticleExperiment, observe=(dict[str, Annotated[observable, Shorthand("value")]], observe)
    )


def _key(function: type[AbstractFunction]) -> Any:
    """The optional key of a function, described by the first line of its section."""
    section = function.settings
    text = str(inspect.getdoc(section)).partition("\n")[0].removesuffix(".")
    defaults = "" if any(x.is_required() for x in section.model_fields.values()) else "; {} for the defaults"
    return Field(None, description=f"{text}{defaults}.", examples=[function.example])


def _extended(section: type[Section], **keys: Any) -> Any:
    """A section with more keys, or others, that is otherwise the same."""
    return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **keys)
