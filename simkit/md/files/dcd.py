"""DCD: positions in float32 and the box, frame after frame, as NAMD, LAMMPS and VMD have them.

Reference: https://www.ks.uiuc.edu/Research/vmd/plugins/molfile/dcdplugin.html.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from simkit.md.files.frame import Frame
from simkit.md.files.library import library

AKMA = 4.888821e-14  # s, the format's unit of time
LARGEST = 2**31 - 1  # step


@contextlib.contextmanager
def dcd_frames(
    path: Path, count: int, every: int, dt: float, periodic: bool, title: str
) -> Iterator[Callable[[Frame], None]]:
    """Append frames of `count` particles in Å, one every `every` steps of `dt` in the format's unit of time.

    Raises `OSError` where the file cannot be written.
    """
    with library(path, "MDAnalysis.lib.formats.libdcd").DCDFile(str(path), "w") as file:
        file.write_header(
            remarks=title, natoms=count, istart=0, nsavc=every, delta=dt, is_periodic=int(periodic)
        )

        def write(frame: Frame) -> None:
            file.write(frame.positions.astype(np.float32), _box(frame))

        yield write


def _box(frame: Frame) -> np.ndarray:
    """Lengths and cosines of angles in the order that the format has them."""
    if frame.cell is None:
        return np.zeros(6)
    (a, b, c), (cos_bc, cos_ac, cos_ab) = frame.cell.lengths_and_cosines
    return np.array([a, cos_ab, b, cos_ac, cos_bc, c])
