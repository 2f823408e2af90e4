"""What functions and classes of the user's read from outside, such as globals."""

import contextlib
import functools
import hashlib
from collections.abc import Hashable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from simkit.machine.own_modules import PACKAGES

LIBRARIES = (*PACKAGES, "jax", "jaxlib", "numpy", "diffrax", "equinox")


def outside_values(code: Any) -> Hashable:
    """The values that a function or the methods of a class read, to be compared with those of later.

    Numbers, texts, arrays and collections of them count by value, functions and classes of the user's by what
    they read in turn, and all else by identity: a change inside another object is not noticed.
    """
    return _of(code, set())


def is_of_library(code: Any) -> bool:
    """Whether a function or a class is simkit's or of a library below it, and reads nothing that changes."""
    return str(getattr(code, "__module__", "")).partition(".")[0] in LIBRARIES


def _of(value: Any, seen: set[int]) -> Hashable:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type):
        with contextlib.suppress(TypeError):  # of keys of random numbers, and of traced values
            array = np.asarray(value)
            return array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).hexdigest()
    if is_of_library(value) or id(value) in seen:
        return id(value)
    seen.add(id(value))
    match value:
        case Mapping():
            inside = value.items()
        case list() | tuple():
            inside = enumerate(value)
        case functools.partial():
            inside = (("func", value.func), ("args", value.args), ("keywords", value.keywords))
        case FunctionType():
            inside = _read_by(value)
        case property():
            inside = (("fget", value.fget),)
        case type():
            own = [cls for cls in value.__mro__ if not is_of_library(cls) and cls is not object]
            names = sorted({name for cls in own for name in vars(cls) if not name.startswith("__")})
            inside = ((name, getattr(value, name)) for name in names)
        case _:
            return id(value)
    return tuple((repr(name), _of(each, seen)) for name, each in inside)


def _read_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values from outside of a function, and its defaults."""
    outside = function.__globals__
    for name in sorted(_names_in(function.__code__)):
        if name in outside:
            yield name, outside[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield "defaults", (function.__defaults__, function.__kwdefaults__)


def _names_in(code: CodeType) -> set[str]:
    """The names of globals and attributes in a function, and in those that it defines."""
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inner)
