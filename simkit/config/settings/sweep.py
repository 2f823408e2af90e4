"""The section `sweep`."""

import re
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from simkit.config.settings.values import Section, checked, wrong
from simkit.suggestions import shown

RANGE = re.compile(r"\s*([-+.\w]+)\s*:\s*([-+.\w]+)\s*:\s*([-+.\w]+)\s*(:\s*log\s*)?")
MOST = 100_000  # points, and values of a key
DIGITS = 15
_VALUES = {
    "anyOf": [
        {"type": "array", "minItems": 1},
        {"type": "string", "pattern": r"^[^:]+:[^:]+:[^:]+(:\s*log)?$"},
    ]
}


def swept_values(value: Any) -> list[Any]:
    """The values of a key: a list, or a range such as `0.1:0.5:9`, its first, its last, and how many."""
    if isinstance(value, list) and value:
        return value
    parts = RANGE.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise wrong(f"must be a list such as [0.1, 0.2], or a range such as 0.1:0.5:9, got {shown(value)}")
    try:
        first, last, count = float(parts[1]), float(parts[2]), int(parts[3])
    except ValueError:
        raise wrong(
            f"must be a range of two numbers and how many, such as 0.1:0.5:9, got {shown(value)}"
        ) from None
    if not np.isfinite([first, last]).all():
        raise wrong(f"must begin and end with finite numbers, got {shown(value)}")
    if not 2 <= count <= MOST:
        raise wrong(
            f"must have from 2 to {MOST} values, got {count} in {shown(value)}; for one give [{first:g}]"
        )
    if first == last:
        raise wrong(f"must end with another number than it begins with, got {shown(value)}")
    if parts[4] is None:
        low, high = Fraction(str(first)), Fraction(str(last))  # in floating point -0.9:0.9:7 has no 0
        numbers = [float(low + (high - low) * i / (count - 1)) for i in range(count)]
    elif first * last > 0:
        numbers = [float(f"{x:.{DIGITS}g}") for x in np.geomspace(first, last, count)]
    else:
        raise wrong(f"must begin and end with numbers of one sign for equal ratios, got {shown(value)}")
    whole = all(part.lstrip("+-").isdigit() for part in parts.group(1, 2)) and all(
        x == x // 1 for x in numbers
    )
    return [int(x) for x in numbers] if whole else numbers


def _swept(value: Any) -> dict[str, list[Any]]:
    if not isinstance(value, dict) or not value:
        raise wrong(f"must be keys with their values such as {{model.sigma: [0.1, 0.2]}}, got {shown(value)}")
    result = {}
    for key, values in value.items():
        try:
            result[str(key)] = swept_values(values)
        except ValueError as error:
            raise wrong(f"{key} {error}") from None
    return result


class Sweep(Section):
    """What `simkit sweep` varies."""

    over: Annotated[
        dict[str, list[Any]],
        *checked(_swept, {"type": "object", "minProperties": 1, "additionalProperties": _VALUES}),
    ] = Field(
        description="Keys, dotted as in --set, with their values: a list, or a range `first:last:count`, "
        "which `:log` gives equal ratios. Each combination is run.",
        examples=[{"model.sigma": "0.1:0.5:9", "solver": ["EulerMaruyama", "Milstein"]}],
    )
    zip: bool = Field(False, description="Go through all lists side by side, in place of their combinations.")
