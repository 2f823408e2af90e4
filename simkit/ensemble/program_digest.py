"""The digest of a program, from all its parts: the same in every process, and different where it differs.

Functions and classes count by their names, so they must belong to packages whose code and version are known.
Things of any other kind have no digest.
"""

import dataclasses
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from simkit_solvers.numerics.traced import Static

KNOWN = ("builtins", "simkit", "simkit_solvers", "simkit_physics", "jax", "jaxlib", "numpy")
KNOWN += ("diffrax", "equinox", "optimistix", "lineax", "functools", "math", "operator")


class NoDigestError(TypeError):
    """There is a part whose kind does not say what it does."""


def digest_of(thing: Any) -> str:
    """A digest of a thing. Raises `NoDigestError`."""
    digest = hashlib.sha256()
    for part in _parts(thing):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def _parts(x: Any) -> Iterator[bytes]:
    """Each begins with its kind, and those of several with how many there are."""
    kind = type(x)
    if x is None or isinstance(x, bool | int | float | complex | str | bytes):
        yield f"{kind.__name__} {x!r}".encode()
    elif isinstance(x, np.ndarray | np.generic | jax.Array):
        array = np.asarray(x)
        yield f"{kind.__name__} {array.dtype.str} {array.shape}".encode()
        yield array.tobytes()
    elif isinstance(x, np.dtype | jax.ShapeDtypeStruct):
        yield repr(x).encode()
    elif isinstance(x, enum.Enum):
        yield from _several(kind, (x.name,))
    elif isinstance(x, frozenset | set):
        yield from _several(kind, sorted(map(digest_of, x)))
    elif isinstance(x, tuple | list):
        yield from _several(kind, x)
    elif isinstance(x, Mapping):
        yield from _several(kind, [item for pair in x.items() for item in pair])
    elif isinstance(x, Static):
        yield from _several(kind, (x.tree,))
    elif isinstance(x, functools.partial):
        yield from _several(kind, (x.func, x.args, x.keywords))
    elif isinstance(x, types.MethodType):
        yield from _several(kind, (x.__func__, x.__self__))
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        # Fields that do not count when two are compared follow from those that do.
        yield from _several(kind, [getattr(x, f.name) for f in dataclasses.fields(x) if f.compare])
    else:
        yield from _kind(x)


def _several(kind: Any, items: Any) -> Iterator[bytes]:
    items = list(items)
    yield from _kind(kind)
    yield f"of {len(items)}".encode()
    for item in items:
        yield from _parts(item)


def _kind(kind: Any) -> Iterator[bytes]:
    """A class by its name, or that of a model in the file by the text from which it is made."""
    make, text = (vars(kind).get("_made_by") if isinstance(kind, type) else None) or (None, None)
    if make is not None and make(text) is kind:
        yield from _several(make, (text,))
    else:
        yield _name(kind)


def _name(x: Any) -> bytes:
    """Where a function or a class is defined. Raises `NoDigestError` where that is unknown."""
    module, name = getattr(x, "__module__", None), getattr(x, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module.split(".")[0] not in KNOWN:
        raise NoDigestError(f"{x!r} is none of {', '.join(KNOWN)}")
    place: Any = sys.modules.get(module)
    for step in name.split("."):
        place = getattr(place, step, None)
    if place is not x:
        raise NoDigestError(f"{x!r} is not what {module} calls {name}")
    return f"{module}.{name}".encode()
