"""A simulation as bytes for another process, with the source of the user's own modules.

What is defined in a module of the user's own goes by its name, and the source of that module with it, which
the other process imports when it needs it: classes of equinox cannot be put together from their parts. What
has no name there, such as a lambda, goes by value (cloudpickle).
"""

import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from simkit_solvers.numerics.scalar import scalars

from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.machine.own_modules import own_modules

SCRIPT = "__main__"
SCRIPT_THERE = "__script__"  # so that its `if __name__ == "__main__":` does not run


class Source(NamedTuple):
    """The code of a module, where it was, and whether it is a package."""

    code: str
    file: str
    is_package: bool


def packed(simulation: Simulation, threads: int | None) -> bytes:
    """A simulation as bytes, to be run in so many threads, all that a process has unless given.

    Raises `InputError` where it has something that cannot be sent.
    """
    sources, stream = _sources(), io.BytesIO()
    try:
        pickler = _pickler(stream, {SCRIPT if name == SCRIPT_THERE else name for name in sources})
        pickler.dump(dataclasses.replace(simulation, threads=threads))
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        raise InputError(f"cluster: the experiment cannot be sent to another process: {error}") from error
    return pickle.dumps((sources, stream.getvalue()))


@functools.lru_cache(maxsize=8)  # so that programs are compiled once
def unpacked(data: bytes) -> Simulation:
    """The simulation that was packed, with the modules of the user's own as they were there."""
    sources, content = pickle.loads(data)
    _shipped.take({name: Source(*source) for name, source in sources.items()})
    return pickle.loads(content)


def _sources() -> dict[str, Source]:
    modules: dict[str, Any] = dict(own_modules())
    script = sys.modules.get(SCRIPT)
    if getattr(script, "__file__", None):
        modules[SCRIPT_THERE] = script
    files = {name: Path(str(module.__file__)) for name, module in modules.items()}
    return {
        name: Source(file.read_text("utf-8"), str(file), file.name == "__init__.py")
        for name, file in files.items()
        if file.suffix == ".py" and file.exists()
    }


def _pickler(stream: io.BytesIO, own: set[str]) -> pickle.Pickler:
    import cloudpickle
    import equinox as eqx

    class OfOwnModules(cloudpickle.Pickler):
        """Writes classes and functions of own modules by name, and other functions by value."""

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, type) and (made := _made_by(obj)):
                return made
            if isinstance(obj, type | types.FunctionType):
                module, name = obj.__module__, obj.__qualname__
                if module in own and _at(sys.modules[module], name) is obj:
                    return _found, (SCRIPT_THERE if module == SCRIPT else module, name)
                if module == SCRIPT and isinstance(obj, type) and issubclass(obj, eqx.Module):
                    raise pickle.PicklingError(
                        f"the class {name} is in no file, as in a notebook; put it into a module of its own, "
                        "and import that"
                    )
            return super().reducer_override(obj)

    return OfOwnModules(stream)


def _made_by(kind: type) -> tuple[Callable, tuple] | None:
    """What makes a class that has no name in its module, such as a model in the file, and of what."""
    made = vars(kind).get("_made_by")
    if made is not None:
        make, of = made
        return make, (of,)
    if issubclass(kind, tuple) and kind.__module__ == scalars.__module__:
        return scalars, (kind.__name__, kind._fields)  # pyright: ignore[reportAttributeAccessIssue]
    return None


def _at(place: Any, qualified: str) -> Any:
    for name in qualified.split("."):
        place = getattr(place, name, None)
    return place


def _found(module: str, name: str) -> Any:
    """A class or function of a module that was shipped."""
    return _at(importlib.import_module(module), name)


class _Shipped(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from the sources that were shipped, rather than from where Python would look."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def take(self, sources: dict[str, Source]) -> None:
        """Serve these sources; modules of another source are imported again."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name, source in sources.items():
            if self.sources.get(name) != source:
                sys.modules.pop(name, None)
        self.sources |= sources

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        source = self.sources.get(fullname)
        if source is None:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=source.is_package)

    def exec_module(self, module: types.ModuleType) -> None:
        source = self.sources[module.__name__]
        module.__file__ = source.file
        exec(compile(source.code, source.file, "exec"), vars(module))


_shipped = _Shipped()
