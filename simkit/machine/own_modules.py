"""The user's own modules: those that are neither simkit's nor of an installed package."""

import functools
import hashlib
import importlib.metadata
import sys
import sysconfig
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

PACKAGES = ("simkit", "simkit_solvers", "simkit_physics")
LIBRARIES = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib")]

# How a module of one's own enters a class.
ENTRIES = {
    "models": ("simkit_physics", 'MODELS["{0}"] = {0}'),
    "solvers": ("simkit_solvers", 'SOLVERS["{0}"] = SolverInfo({0}, …)'),
}

_digests: dict[str, str] = {}


def is_own(package: str, file: str) -> bool:
    """Whether a file with code of a package, or of a module outside packages, is the user's."""
    if package in PACKAGES or file.startswith("<"):
        return False
    return not any(Path(file).is_relative_to(folder) for folder in LIBRARIES)


def not_entered(given: str, kind: str) -> str:
    """With which line a module of the user's own would enter a class of this name; empty if none has it."""
    for name, module in own_modules().items():
        if isinstance(getattr(module, given, None), type):
            package, entry = ENTRIES[kind]
            imported, line = entry.partition("[")[0], entry.format(given)
            return (
                f"; {name} has this class and does not enter it: add `from {package} import {imported}` and "
                f"`{line}` to it"
            )
    return ""


def own_modules() -> dict[str, ModuleType]:
    """The user's own modules that are imported, by name; the script itself is none.

    Packages that are installed are not the user's, wherever they are.
    """
    installed = _installed() | sys.stdlib_module_names
    return {
        name: module
        for name, module in [*sys.modules.items()]
        if name != "__main__" and (file := getattr(module, "__file__", None)) and module.__name__ == name
        if (package := name.partition(".")[0]) not in installed and is_own(package, file)
    }


@functools.cache
def _installed() -> frozenset[str]:
    """The top-level names of all packages that are installed, in any folder where Python looks."""
    return frozenset(importlib.metadata.packages_distributions())


def remember_code(names: Collection[str]) -> None:
    """Remember the code of own modules of these names, and of no others, as what runs depend on."""
    own = own_modules()
    _digests.clear()
    for name in own.keys() & names:
        _digests[name] = hashlib.sha256(Path(str(own[name].__file__)).read_bytes()).hexdigest()


def remembered_code() -> dict[str, str]:
    """The digests of own modules' code that a run depends on, each with its name."""
    return {f"code of {name}": digest for name, digest in sorted(_digests.items())}
