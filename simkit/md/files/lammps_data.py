"""LAMMPS data files of atom style `atomic`: box, masses, positions and velocities.

Reference: https://docs.lammps.org/read_data.html.
"""

import re
from pathlib import Path

import numpy as np

from simkit.md.files.frame import Cell, Frame, Lines, numbers
from simkit.md.particle_names import by_id

COUNT = re.compile(r"\s*(\d+)\s+(atoms|atom types)\s*$")
BOUNDS = re.compile(r"\s*(\S+)\s+(\S+)\s+([xyz])lo\s+[xyz]hi\s*$")
TILTS = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+xy\s+xz\s+yz\s*$")
SECTIONS = ("Masses", "Atoms", "Velocities")


def read_lammps_data(path: Path) -> Frame:
    """The particles of a file; species are called by the comments behind their masses, if all have one.

    Without them they are called by the numbers of their types, as "1". Positions are from the lower corner
    of the box. Raises `InputError` with the line of what is wrong.
    """
    lines = Lines(path)
    counts, bounds, tilts, labels = {}, {}, (0.0, 0.0, 0.0), {}
    tables: dict[str, np.ndarray] = {}
    if lines.more:
        lines.next()  # a title
    while lines.more:
        line = lines.next()
        text, _, note = line.partition("#")
        if not text.strip():
            continue
        if match := COUNT.match(text):
            counts[match[2]] = int(match[1])
        elif match := BOUNDS.match(text):
            bounds[match[3]] = numbers(lines, [[match[1], match[2]]], slice(0, 2), "box")[0]
        elif match := TILTS.match(text):
            tilts = tuple(numbers(lines, [list(match.groups())], slice(0, 3), "tilts")[0].tolist())
        elif text.strip() in SECTIONS:
            tables[text.strip()] = _section(lines, text.strip(), note.strip(), counts)
            if text.strip() == "Masses":
                labels = _labels(lines.lines[lines.number - counts["atom types"] : lines.number])
        else:
            lines.fail(
                f"{text.strip()[:40]!r}: simkit reads the atom style `atomic`, with the sections "
                f"{', '.join(SECTIONS)}"
            )
    if "Atoms" not in tables or len(bounds) < 3:
        lines.fail("the file needs a section Atoms and lines with xlo xhi, ylo yhi and zlo zhi")
    return _frame(lines, tables, np.array([bounds[axis] for axis in "xyz"]), tilts, labels)


def lammps_data(frame: Frame, units: str = "lj") -> str:
    """The text of a file; species are numbered from 1. Raises `ValueError` for a frame without a box."""
    if frame.cell is None:
        raise ValueError("a LAMMPS data file needs a box; this frame is in free space")
    numbered = list(enumerate(frame.names, 1))
    out = [f"LAMMPS data file by simkit, units {units}", "", f"{len(frame.positions)} atoms"]
    out += [f"{len(frame.names)} atom types", ""]
    out += [f"0.0 {side!r} {axis}lo {axis}hi" for side, axis in zip(frame.cell.sides, "xyz", strict=True)]
    if any(frame.cell.tilts):
        out.append(f"{' '.join(map(repr, frame.cell.tilts))} xy xz yz")
    out += ["", "Masses", "", *(f"{i} {frame.masses[name]!r}  # {name}" for i, name in numbered)]
    rows = zip(frame.species.tolist(), frame.positions.tolist(), strict=True)
    out += ["", "Atoms # atomic", ""]
    out += [f"{i} {kind + 1} {' '.join(map(repr, row))}" for i, (kind, row) in enumerate(rows, 1)]
    if frame.velocities is not None:
        out += ["", "Velocities", ""]
        out += [f"{i} {' '.join(map(repr, row))}" for i, row in enumerate(frame.velocities.tolist(), 1)]
    return "\n".join(out) + "\n"


def _section(lines: Lines, name: str, style: str, counts: dict[str, int]) -> np.ndarray:
    if name == "Atoms" and style not in ("", "atomic"):
        lines.fail(f"atom style {style!r}: simkit reads atomic, which is id, type and position")
    key = "atom types" if name == "Masses" else "atoms"
    if key not in counts:
        lines.fail(f"{name}: the number of {key} must stand above")
    while lines.more and not lines.lines[lines.number].strip():
        lines.number += 1
    words = [_before_comment(row) for row in lines.table(counts[key], f"lines of {name}")]
    width = {"Masses": 2, "Atoms": 5, "Velocities": 4}[name]
    if any(len(row) not in ((5, 8) if name == "Atoms" else (width,)) for row in words):
        lines.fail(f"{name}: each line must have {width} numbers{', or 8 with images' * (width == 5)}")
    return numbers(lines, words, slice(0, width), name)


def _labels(rows: list[str]) -> dict[int, str]:
    """The names of types in comments, as in `1 39.948  # Ar`; none unless each has one of its own."""
    names = {
        int(row.split()[0]): comment.split()[0]
        for row in rows
        for comment in [row.partition("#")[2]]
        if comment.strip()
    }
    return names if len(set(names.values())) == len(rows) else {}


def _before_comment(row: list[str]) -> list[str]:
    return row[: next((i for i, word in enumerate(row) if word.startswith("#")), len(row))]


def _frame(
    lines: Lines,
    tables: dict[str, np.ndarray],
    bounds: np.ndarray,
    tilts: tuple[float, float, float],
    labels: dict[int, str],
) -> Frame:
    atoms = tables["Atoms"]
    order = np.argsort(atoms[:, 0])
    if np.any(np.diff(atoms[order, 0]) == 0):
        lines.fail("Atoms: two have the same number")
    kinds = atoms[order, 1].astype(int)
    numbered = np.unique(kinds)
    names = tuple(labels.get(kind, str(kind)) for kind in numbered.tolist())
    velocities = None
    if "Velocities" in tables:
        table = tables["Velocities"]
        table = table[np.argsort(table[:, 0])]
        if not np.array_equal(table[:, 0], atoms[order, 0]):
            lines.fail("Velocities: they must be those of the numbers under Atoms")
        velocities = table[:, 1:]
    table = tables.get("Masses", np.empty((0, 2)))
    masses = {labels.get(int(kind), str(int(kind))): float(mass) for kind, mass in table}
    sides = tuple((bounds[:, 1] - bounds[:, 0]).tolist())
    if min(sides) <= 0:
        lines.fail(f"the box must have positive sides, got {sides}")
    return Frame(
        atoms[order, 2:5] - bounds[:, 0],
        np.searchsorted(numbered, kinds),
        names,
        Cell(sides, tilts),
        velocities,
        {name: masses[name] for name in names if name in masses},
        called=by_id(atoms[order, 0], lines.path.name),
    )
