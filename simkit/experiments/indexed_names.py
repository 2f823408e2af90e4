"""Short forms for numbered names: `x: 8.0` or `x: [8.01, 8.0]` for x1, x2, …, `rho: 0.3` for rho12, …"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from simkit_physics.sized import pair_name

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import KeyPath

ROUNDING = 1e-12


def indexed_names(name: str, known: Collection[str]) -> list[str]:
    """`x1`, `x2`, … as far as there are such names; none where `x` itself is one, or x1 is alone."""
    result = []
    while name not in known and f"{name}{len(result) + 1}" in known:
        result.append(f"{name}{len(result) + 1}")
    return result if len(result) > 1 else []


def pair_names(name: str, known: Collection[str]) -> dict[tuple[int, int], str]:
    """`rho12`, `rho13`, … by their two numbers, from 1 on; none where `rho` or `rho1` is such a name."""
    size = 1
    while not {name, f"{name}1"} & set(known) and pair_name(name, 1, size + 1) in known:
        size += 1
    pairs = itertools.combinations(range(1, size + 1), 2)
    result = {(i, j): pair_name(name, i, j) for i, j in pairs}
    return result if set(result.values()) <= set(known) else {}


def names_for(name: str, known: Collection[str]) -> list[str]:
    """The single names for which a short form stands; none where it is no short form."""
    return list(pair_names(name, known).values()) or indexed_names(name, known)


def places(given: Mapping[str, Any], known: Collection[str]) -> dict[str, KeyPath]:
    """Where each single name was given: `rho` for rho12 of `rho: 1.5`, `sigma[1]` for sigma2 of a list."""
    result: dict[str, KeyPath] = {}
    for name, value in given.items():
        pairs = pair_names(name, known)
        for i, single in enumerate(names_for(name, known)):
            inside = [entry for entry, pair in pairs.items() if pair == single]
            index = (inside[0][0] - 1, inside[0][1] - 1) if inside else (i,)
            result[single] = (name, *index) if isinstance(value, list) else (name,)
    return result | {name: (name,) for name in given if not names_for(name, known)}


def turned_pairs(known: Collection[str]) -> dict[str, str]:
    """`rho12` for `rho21`, and so on."""
    bases = dict.fromkeys(name.rstrip("0123456789_") for name in known)
    return {
        pair_name(base, j, i): single for base in bases for (i, j), single in pair_names(base, known).items()
    }


def _same(a: float | str, b: float | str) -> bool:
    """Whether two entries are the same, but for the rounding of computed ones."""
    return a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) < ROUNDING)


def _of_matrix(rows: Sequence[Any], names: Mapping[tuple[int, int], str], place: KeyPath) -> dict[str, Any]:
    """The entries of a symmetric matrix with ones on its diagonal, by single names."""
    size = max(j for _, j in names)
    if len(rows) != size or any(not isinstance(row, list) or len(row) != size for row in rows):
        raise SettingError(place, f"must be one value, or {size} rows of {size} values: a matrix")
    for i, row in enumerate(rows):
        if not _same(row[i], 1.0):
            message = f"must be 1, the correlation of {i + 1} with itself, got {row[i]}"
            raise SettingError((*place, i, i), message)
        for j in range(i):
            if not _same(row[j], rows[j][i]):
                message = f"must be {rows[j][i]}, as in row {j + 1}: the matrix is symmetric; got {row[j]}"
                raise SettingError((*place, i, j), message)
    return {name: rows[i - 1][j - 1] for (i, j), name in names.items()}


def written_out(
    given: Mapping[str, Any], known: Collection[str], place: KeyPath, diagnostics: Diagnostics
) -> dict[str, Any]:
    """The entries by single names: one value for all numbered ones or a list of them, single ones on top.

    Of pairs it is one value or a symmetric matrix. A list of another length, or for a single name, goes to
    the diagnostics and is left out.
    """
    result: dict[str, Any] = {}
    for name in given:
        with diagnostics.collecting():
            result |= _written_out(name, given, known, (*place, name))
    single = {
        name: value
        for name, value in given.items()
        if not isinstance(value, list) and not names_for(name, known)
    }
    return result | single


def _written_out(
    name: str, given: Mapping[str, Any], known: Collection[str], place: KeyPath
) -> dict[str, Any]:
    """What a short form stands for, nothing where the name is no short form."""
    value, names, pairs = given[name], names_for(name, known), pair_names(name, known)
    if names and given.keys() >= {*names}:
        message = f"has no effect: {names[0]} to {names[-1]} are given one by one; leave it out, or those"
        raise SettingError(place, message)
    if pairs and isinstance(value, list):
        return _of_matrix(value, pairs, place)
    if not isinstance(value, list):
        return dict.fromkeys(names, value)
    if not names:
        per_path = "; write {values: […]} for one value for each path" if place[0] == "initial" else ""
        several = "a list is for numbered names, and `variants` are for one run after the other"
        raise SettingError(place, f"must be a single value: {several}{per_path}")
    if any(isinstance(each, list) for each in value):
        raise SettingError(place, "must be one value, or a list of values")
    if len(value) != len(names):
        there = f"{len(names)}, {names[0]} to {names[-1]}"
        raise SettingError(place, f"has {len(value)} values, and there are {there}")
    return dict(zip(names, value, strict=True))
