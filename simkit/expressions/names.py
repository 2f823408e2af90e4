"""Which names can be given to what is defined in an experiment."""

import keyword
import re

from simkit.expressions.functions import NUMBERS, is_function
from simkit.suggestions import shown


def check_spelling(name: str) -> str | None:
    """Why a name cannot be that of a result, to which no expression refers; `None` if it can."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        letters = "letters" if name.isascii() else "plain letters (a to z)"
        return f"{shown(name)} is not a name: use {letters}, digits and _, and begin with a letter"
    return f"{name!r} begins with _; begin with a letter" if name.startswith("_") else None


def check_name(name: str) -> str | None:
    """Why a name cannot be given to something that expressions refer to; `None` if it can."""
    reason = check_spelling(name)
    if reason:
        return reason
    if keyword.iskeyword(name):
        return f"{name!r} is a reserved word; choose another name, such as {name + '_'!r}"
    if is_function(name):
        return f"{name!r} is a function; choose another name"
    if name in NUMBERS:
        return f"{name!r} is the number {NUMBERS[name]:.4f}…; choose another name"
    if name == "t":
        return "'t' is the time; choose another name"
    return None
