"""The docstring of a class or function as `simkit describe` shows it."""

import inspect
import re
from collections.abc import Callable

from simkit.cli.plain_math import plain_text


def documentation(described: type | Callable) -> dict[str, str]:
    """The docstring in Unicode, without its example in Python, and the reference in it."""
    text = plain_text((inspect.getdoc(described) or "").partition("\n\n>>> ")[0])
    result = re.search(r"References?: (.+?)(?:\n\n|\Z)", text, flags=re.DOTALL)
    return {"text": text} | ({"reference": " ".join(result[1].split())} if result else {})
