"""Short forms for numbered names: `x: 8.0` or `x: [8.01, 8.0]` for x1, x2, …"""

from collections.abc import Collection, Mapping
from typing import Any

from simkit.documents import KeyPath
from simkit.mistakes import Mistakes


def numbered_names(name: str, known: Collection[str]) -> list[str]:
    """`x1`, `x2`, … as far as there are such names; none where `x` itself is one, or x1 is alone."""
    found = []
    while name not in known and f"{name}{len(found) + 1}" in known:
        found.append(f"{name}{len(found) + 1}")
    return found if len(found) > 1 else []


def written_out(
    given: Mapping[str, Any], known: Collection[str], place: KeyPath, mistakes: Mistakes
) -> dict[str, Any]:
    """The entries by single names: one value for all numbered ones or a list of them, single ones on top.

    A list of another length, or for a single name, goes to the mistakes and is left out.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        names = numbered_names(name, known)
        if not isinstance(value, list):
            found |= dict.fromkeys(names, value) if names else {}
        elif not names:
            mistakes.add((*place, name), "must be a single value: a list is for numbered names")
        elif len(value) != len(names):
            there = f"{len(names)}, {names[0]} to {names[-1]}"
            mistakes.add((*place, name), f"has {len(value)} values, and there are {there}")
        else:
            found |= dict(zip(names, value, strict=True))
    single = {
        name: value
        for name, value in given.items()
        if not isinstance(value, list) and not numbered_names(name, known)
    }
    return found | single
