"""Extended XYZ: frames of positions, species and velocities with their box, one after the other.

Reference: https://github.com/libAtoms/extxyz.
"""

import re
from pathlib import Path
from typing import TextIO

import numpy as np

from simkit.md.files.frame import Cell, Frame, Lines, numbers
from simkit.md.particle_names import by_line

KEY = re.compile(r'(\w+)=(?:"([^"]*)"|(\S+))')
PLAIN = "species:S:1:pos:R:3"
POSITION, VELOCITY = ("pos", "positions"), ("velo", "velocities", "vel")


def read_xyz(path: Path) -> Frame:
    """The last frame of a file. Raises `InputError` with the line where something is wrong."""
    lines, frame = Lines(path), None
    while lines.more:
        line = lines.next()
        if not line.strip():
            continue
        frame = _frame(lines, line)
    if frame is None:
        lines.fail("the file has no frame, which begins with the number of its particles")
    return frame


def write_frame(file: TextIO, frame: Frame, **about: float) -> None:
    """Append a frame; `about` are numbers for its second line, such as the time."""
    cell = frame.cell
    lattice = "" if cell is None else f'Lattice="{" ".join(map(repr, cell.vectors.ravel().tolist()))}" '
    kinds = PLAIN if frame.velocities is None else f"{PLAIN}:velo:R:3"
    periodic = "F F F" if cell is None else "T T T"
    attributes = "".join(f" {key}={value!r}" for key, value in about.items())
    file.write(f'{len(frame.positions)}\n{lattice}Properties={kinds} pbc="{periodic}"{attributes}\n')
    columns = [frame.positions] if frame.velocities is None else [frame.positions, frame.velocities]
    rows = np.concatenate(columns, axis=1).tolist()
    names = frame.names
    file.writelines(
        f"{names[kind]} {' '.join(map(repr, row))}\n"
        for kind, row in zip(frame.species.tolist(), rows, strict=True)
    )


def _frame(lines: Lines, first: str) -> Frame:
    if not first.strip().isdigit():
        lines.fail(f"expected the number of particles, got {first.strip()[:40]!r}")
    about = {key: quoted or plain for key, quoted, plain in KEY.findall(lines.next())}
    places = _columns(lines, about.get("Properties", PLAIN))
    cell = _cell(lines, about)
    words = lines.table(int(first), "particles")
    called = by_line(lines.number - len(words) + 1 + np.arange(len(words)), lines.path.name)
    if not words:
        lines.fail("the frame has no particles")
    if "species" not in places:
        lines.fail("Properties must name species:S:1")
    position = next((places[key] for key in POSITION if key in places), None)
    if position is None:
        lines.fail("Properties must name pos:R:3")
    velocity = next((places[key] for key in VELOCITY if key in places), None)
    if velocity is None and "momenta" in places:
        lines.fail("momenta are not read, as their units are not known; give velo:R:3 instead, or neither")
    longest = max(columns.stop for columns in places.values())
    if short := next((row for row in words if len(row) < longest), None):
        lines.fail(f"a particle has {len(short)} of {longest} columns: {' '.join(short)[:60]!r}")
    kinds = [row[places["species"].start] for row in words]
    names = tuple(dict.fromkeys(kinds))
    number = {name: i for i, name in enumerate(names)}
    return Frame(
        numbers(lines, words, position, "pos"),
        np.array([number[kind] for kind in kinds]),
        names,
        cell,
        None if velocity is None else numbers(lines, words, velocity, "velo"),
        called=called,
    )


def _columns(lines: Lines, properties: str) -> dict[str, slice]:
    """Where each property stands."""
    parts, places, start = properties.split(":"), {}, 0
    if len(parts) % 3 or not all(part.isdigit() for part in parts[2::3]):
        lines.fail(f"Properties={properties}: expected name:kind:columns, several times")
    for name, _, columns in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        places[name] = slice(start, start + int(columns))
        start += int(columns)
    return places


def _cell(lines: Lines, about: dict[str, str]) -> Cell | None:
    """The box: none without a lattice, or where nothing is periodic."""
    periodic = about.get("pbc", "T T T" if "Lattice" in about else "F F F").split()
    if "Lattice" not in about or all(each.upper().startswith("F") for each in periodic):
        return None
    if any(each.upper().startswith("F") for each in periodic):
        lines.fail("pbc: a box must be periodic along all three axes, or along none")
    words = [about["Lattice"].split()]
    if len(words[0]) != 9:
        lines.fail(f"Lattice must have 9 numbers, got {len(words[0])}")
    try:
        return Cell.of_vectors(numbers(lines, words, slice(0, 9), "Lattice").reshape(3, 3))
    except ValueError as error:
        lines.fail(f"Lattice: {error}")
