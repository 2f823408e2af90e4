"""The section `plot`."""

from typing import Annotated, Any

from pydantic import Field

from simkit.config.settings.values import NAMES_SCHEMA, Names, Section, checked, wrong
from simkit.suggestions import shown


def _pairs(value: Any) -> list[list[str]]:
    pairs = [value] if isinstance(value, list) and all(isinstance(name, str) for name in value) else value
    if isinstance(pairs, list) and pairs:
        lists = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
        if len(lists) == len(pairs) and all(isinstance(name, str) for pair in lists for name in pair):
            return pairs
    raise wrong(f"must be two names such as [x, y], or a list of such pairs, got {shown(value)}")


class Plot(Section):
    """What the picture shows."""

    over_time: Names | None = Field(
        None,
        description="State variables and observables evaluated at each saved time, a row for each. The "
        "default is the first twelve variables, or four next to a portrait, and observables up to five rows.",
        examples=[["V", "n"]],
    )
    portrait: (
        Annotated[
            list[list[str]],
            *checked(_pairs, {"type": "array", "items": {"anyOf": [{"type": "string"}, NAMES_SCHEMA]}}),
        ]
        | None
    ) = Field(
        None,
        description="A phase portrait of two such quantities against each other: [x, y], or a list of pairs.",
        examples=[["x", "y"]],
    )
