"""PDB: positions in Å with three decimals, and the box; the last model of a file."""

from pathlib import Path

import numpy as np

from simkit.md.files.frame import Frame, Lines
from simkit.md.files.library import ANGSTROM, frame_of, last_frame
from simkit.md.particle_names import by_line

ATOMS = ("ATOM  ", "HETATM")
ENDS = ("END", "ENDMDL")
DECIMAL = 1e-3  # Å, the last of a position
ANGLES = 2e-4  # radians, of the last decimal of an angle


def read_pdb(path: Path) -> Frame:
    """The last model. Species are called by the elements where all particles have one, else by atom names.

    Raises `InputError` for a file that is cut off: that has no END or ENDMDL behind its particles.
    """
    lines = Lines(path)
    records = [line[:6] for line in lines.lines]
    places = [i for i, record in enumerate(records) if record in ATOMS]
    if not places:
        lines.fail("has no record ATOM or HETATM")
    if not any(record.strip() in ENDS for record in records[places[-1] :]):
        lines.number = len(records)
        lines.fail("ends without END or ENDMDL: was it cut off? Write END at its end if it is complete")
    universe = last_frame(path)
    atoms = universe.atoms
    elements = getattr(atoms, "elements", [""])
    kinds = elements if all(elements) else atoms.names
    box, rounding = universe.dimensions, DECIMAL
    if box is not None and any(box[3:] != 90):
        rounding += ANGLES * float(max(box[:3]))
    called = by_line(1 + np.array(places[-len(kinds) :]), path.name)
    return frame_of(universe, [str(kind) for kind in kinds], (ANGSTROM, ANGSTROM), rounding, called, path)
