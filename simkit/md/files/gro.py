"""GRO, of GROMACS: one frame of positions in nm, velocities in nm/ps and the box, in any number of digits."""

from pathlib import Path

import numpy as np

from simkit.md.files.frame import Frame, Lines
from simkit.md.files.library import NANOMETRE, SPEED, frame_of, last_frame
from simkit.md.particle_names import by_line

AROUND = 3  # lines: a title, the number of particles, and the box


def read_gro(path: Path) -> Frame:
    """The frame, with species called by atom names. Raises `InputError` unless it is one whole frame."""
    lines = Lines(path)
    while lines.lines and not lines.lines[-1].strip():
        lines.lines.pop()
    lines.next()
    count = lines.next().strip()
    if not count.isdigit() or not int(count):
        lines.fail(f"expected the number of particles, got {count[:40]!r}")
    given = len(lines.lines) - AROUND
    if given != int(count):
        lines.fail(
            f"{count} particles are announced, and there are lines for {max(given, 0)} and a box; a file "
            "must have one frame, and all of it"
        )
    universe = last_frame(path)
    first = lines.lines[2][20:]  # its columns are as wide as from one point to the next
    digits = first[first.index(".") + 1 :].index(".") - 4
    called = by_line(3 + np.arange(int(count)), path.name)
    kinds = universe.atoms.names.tolist()
    return frame_of(universe, kinds, (NANOMETRE, SPEED), 10.0**-digits, called, path)
