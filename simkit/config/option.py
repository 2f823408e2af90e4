"""An override that comes from an option of the command line.

The command line imports this module before anything else.
"""

from typing import NamedTuple


class Option(NamedTuple):
    """A text such as `model.sigma=0.3`, and the `name` that messages call it by."""

    text: str
    name: str


def set_option(text: str) -> Option:
    """The text given to `--set`."""
    return Option(text, f"--set {text.partition('=')[0].strip()}")
