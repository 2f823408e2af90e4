"""Starts of Newton's method over a box, and which of the roots found are different."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simkit.errors import InputError
from simkit.steady_states.newton import Fixed, Root
from simkit.suggestions import did_you_mean, shown

USUAL = 10.0  # typical sizes that the box reaches from zero
APART = 10.0  # errors by which roots differ
CLOSE = 1e-12  # relative distance of roots that are one
MOST = 1_000_000

Ranges = Mapping[str, Sequence[float]]


def checked_search(search: int, ranges: Ranges, names: Sequence[str]) -> None:
    """Raise `InputError` for a number of starts or ranges that make no sense."""
    if not 0 <= search <= MOST:
        raise InputError(f"search: must be a number of starts from 0 to {MOST:,}, got {search}")
    for name, ends in ranges.items():
        place = f"--from {name} (in Python ranges)"
        if name not in names:
            raise InputError(f"{place}: there is no variable {shown(name)}{did_you_mean(name, names)}")
        if not _is_range(ends):
            got = ":".join(map(str, ends)) if isinstance(ends, tuple | list) else shown(ends)
            raise InputError(f"{place}: must be two numbers, the lesser first, as in {name}=0:2, got {got}")
    if ranges and not search:
        raise InputError(
            f"--from {next(iter(ranges))} (in Python ranges): is for a search; give how many starts, too, "
            "as in --search 100 (in Python search=100)"
        )


def _is_range(ends: Any) -> bool:
    """Whether something is two finite numbers, the lesser first."""
    try:
        low, high = map(float, ends)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite([low, high]).all()) and low < high


def box(fixed: Fixed, ranges: Ranges, known: Sequence[Root] = ()) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each variable in a search.

    Without a range they are, to both sides of zero, ten times the typical size, or the value at a
    steady state known already, whichever is larger. What has a least value begins there.
    """
    reach = USUAL * np.max([fixed.scale, *(abs(root.state) for root in known)], axis=0)
    low, high = np.maximum(-reach, fixed.rates.least), reach.copy()
    for name, (least, most) in ranges.items():
        i = fixed.rates.names.index(name)
        low[i], high[i] = least, most
    return low, high


def searched(
    fixed: Fixed, starts: int, ranges: Ranges, seed: int, known: Sequence[Root] = ()
) -> tuple[list[Root], int, int]:
    """The new roots in the box that Newton's method finds from starts in a Latin hypercube.

    Then how many starts led to one, and how many different ones there are outside of the box, which are left
    out. A start is moved to the totals of the initial values.
    """
    low, high = box(fixed, ranges, known)
    generator = np.random.default_rng(seed)
    places = np.stack([generator.permutation(starts) for _ in low], 1) + generator.random((starts, len(low)))
    inside: list[Root] = []
    outside: list[Root] = []
    converged = 0
    for start in low + (high - low) * places / starts:
        root = fixed.root_from(start)
        if not root.converged:
            continue
        converged += 1
        if any(is_same(fixed, root, other) for other in known):
            continue
        margin = CLOSE * np.maximum(abs(root.state), fixed.scale) + root.error
        is_inside = bool(np.all((root.state >= low - margin) & (root.state <= high + margin)))
        same_side = inside if is_inside else outside
        if not any(is_same(fixed, root, other) for other in same_side):
            same_side.append(root)
    return inside, converged, len(outside)


def is_same(fixed: Fixed, one: Root, other: Root) -> bool:
    """Whether two roots are as near as their errors."""
    sizes = np.maximum(abs(one.state), fixed.scale)
    allowed = APART * (one.error + other.error) + CLOSE * sizes
    return bool(np.all(abs(one.state - other.state) <= allowed))
