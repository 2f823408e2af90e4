"""`--import MODULE`: modules of the user's own, and where in them an import failed."""

import importlib
import sys
import traceback
from collections.abc import Collection
from pathlib import Path

from simkit.errors import InputError, SimkitError
from simkit.machine.own_modules import is_own, remember_code
from simkit.machine.process import tune_process


def import_modules(names: Collection[str]) -> None:
    """Import modules, from the current directory too, of which runs then depend.

    Raises `InputError` for one that does not exist, and for whatever a module raises, with its place there.
    """
    tune_process()  # before a module makes an array
    sys.path.insert(0, "")
    before = {*sys.modules}
    for name in names:
        try:
            importlib.import_module(name)
        except (SimkitError, MemoryError):  # which have messages and exit codes of their own
            raise
        except Exception as error:
            raise InputError(f"--import {name}: {_reason(name, error)}") from error
    remember_code({*names} | ({*sys.modules} - before))


def _reason(name: str, error: Exception) -> str:
    """Why a module was not imported: `my_solvers.py:25: ValueError: ...`."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and f"{name}.".startswith(f"{missing}."):
        return "no such module; name it as Python does, without .py, from the folder that it is in"
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    first_line = message.strip().partition("\n")[0]
    return f"{_place(name, error)}{type(error).__name__}{first_line and f': {first_line}'}"


def _place(name: str, error: Exception) -> str:
    """The innermost line that is the user's; of a module among the libraries its own innermost line."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}: "
    frames = [
        (frame.f_globals.get("__name__", "").partition(".")[0], frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    users = [(file, line) for package, file, line in frames if is_own(package, file)]
    own = [(file, line) for package, file, line in frames if package == name.partition(".")[0]]
    for file, line in (users or own)[-1:]:
        return f"{_short(file)}:{line}: "
    return ""


def _short(file: str) -> str:
    """A path from the current directory where the file is in it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
