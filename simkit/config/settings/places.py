"""What the settings say of a key path: which sections may stand there, and what a bare value means."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from simkit.config.settings.experiment import Experiment
from simkit.config.settings.particles import POTENTIAL, SYSTEM, ParticleExperiment
from simkit.config.settings.values import Section, Shorthand

Root = type[Experiment] | type[ParticleExperiment]


def is_particles(data: Any) -> bool:
    """Whether a document is one of molecular dynamics: it has a `system`, or a `potential` and no `model`."""
    return isinstance(data, dict) and (SYSTEM in data or (POTENTIAL in data and "model" not in data))


def root_of(data: Any) -> Root:
    """The sections of a document: those of molecular dynamics, or of an ensemble of paths."""
    return ParticleExperiment if is_particles(data) else Experiment


def sections_at(path: tuple[str | int, ...], root: Root = Experiment) -> list[type[Section]]:
    """The sections that may stand at a key path; none where it holds other values."""
    return [kind for kind, _ in _types_at(path, root) if _is_section(kind)]


def shorthand_at(path: tuple[str | int, ...], root: Root = Experiment) -> str | None:
    """The key that a bare value at a path stands for, such as `type` at `solver`."""
    notes = (note for _, own in _types_at(path, root) for note in own)
    return next((note.key for note in notes if isinstance(note, Shorthand)), None)


def _types_at(path: tuple[str | int, ...], root: Root) -> list[tuple[Any, tuple]]:
    """The types that may stand at a path, each with what annotates it."""
    result: list[tuple[Any, tuple]] = [(root, ())]
    for part in path:
        result = [
            each for kind, _ in result for inner in _inside(kind, part) for each in _alternatives(inner)
        ]
    return result


def _inside(kind: Any, part: str | int) -> Iterator[Any]:
    """The annotation of what stands under a key of a section or of a mapping."""
    if _is_section(kind) and part in kind.model_fields:
        field = kind.model_fields[str(part)]
        yield Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    elif get_origin(kind) is dict:
        yield get_args(kind)[1]


def _alternatives(annotation: Any) -> Iterator[tuple[Any, tuple]]:
    """The members of a union, also of unions inside it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        for kind, own in _alternatives(arguments[0]):
            yield kind, (*arguments[1:], *own)
    elif origin in (Union, types.UnionType):
        for member in arguments:
            yield from _alternatives(member)
    else:
        yield annotation, ()


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)
