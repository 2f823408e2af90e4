"""How an ensemble is cut: leaves of a fixed number of paths, gathered into chunks.

Leaves are what makes statistics independent of devices and chunks: each is reduced on its own, and they are
merged in the order of their ids.
"""

import dataclasses

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid

from simkit.ensemble.paths import lanes_for

LEAF = 2048
ADAPTIVE_WORK = 10_000  # what a path of unknown length is planned as: adaptive steps, or events
TARGET_PATH_STEPS = 200_000_000  # about half a second on two cores
MOST_PATHS = 2**20
MOST_BYTES = 256 * 2**20  # for the saved rows of one chunk


@dataclasses.dataclass(frozen=True)
class Chunks:
    """`count` chunks of `leaves` leaves of `lanes` paths each; the last may be partly empty."""

    count: int
    leaves: int
    lanes: int

    @property
    def paths(self) -> int:
        """Paths in one chunk, empty lanes included."""
        return self.leaves * self.lanes


def planned_steps(grid: Grid | AdaptiveGrid | JumpGrid) -> int:
    """The steps of a path, for a guess at its time."""
    return grid.steps or ADAPTIVE_WORK


def plan_chunks(
    paths: int,
    steps: int,
    values_per_path: int,
    devices: int,
    asked: int | None,
    most_paths: int = MOST_PATHS,
) -> Chunks:
    """Chunks that take about half a second and fit memory, or of `asked` paths rounded up to whole leaves.

    Of no more than `most_paths` unless they are asked for.

    An ensemble smaller than a leaf gets one leaf of fewer lanes, a power of two: its sums are those of the
    full leaf without the zeros.
    """
    if paths < LEAF and devices == 1:
        return Chunks(1, 1, lanes_for(paths))
    leaves = -(-paths // LEAF)
    timed = 1 << (max(1, TARGET_PATH_STEPS // steps).bit_length() - 1)  # few sizes, for few compilations
    fitting = min(timed, MOST_BYTES // (8 * max(1, values_per_path)), most_paths)
    most = max(1, -(-asked // LEAF) if asked else fitting // LEAF)
    per_device = -(-most // devices)
    count = -(-leaves // (per_device * devices))
    if not asked:  # as many chunks, all of one size as far as that goes
        per_device = -(-leaves // (count * devices))
    return Chunks(count, per_device * devices, LEAF)
