"""How an ensemble is divided: leaves of a fixed number of paths, and chunks of leaves as units of work.

Leaves are what makes statistics independent of threads, devices and chunks: each is reduced on its own, and
they are merged in the order of their ids.
"""

import dataclasses

import numpy as np
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid

from simkit.ensemble.work import most_in_memory

LEAF = 2048
FEWEST_LANES = 64
ADAPTIVE_WORK = 10_000  # what a path of unknown length is planned as: adaptive steps, or events
TARGET_PATH_STEPS = 200_000_000  # a fifth of a second to a second on one core
MOST_PATHS = 2**19  # of which `most_in_memory` chunks are in memory
MOST_BYTES = 512 * 2**20  # for the saved rows of all chunks in memory


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

    def firsts(self) -> range:
        """The first path of each chunk."""
        return range(0, self.count * self.paths, self.paths)

    def ids(self, first: int = 0) -> np.ndarray:
        """The path ids of a chunk that begins with `first`, `uint32` `(leaves, lanes)`."""
        return path_ids(first, self.leaves, self.lanes)


def path_ids(first: int, leaves: int, lanes: int) -> np.ndarray:
    """The path ids `first`, … as `uint32` `(leaves, lanes)`."""
    ids = first + np.arange(leaves * lanes, dtype=np.uint64)
    return ids.astype(np.uint32).reshape(leaves, lanes)


def leaf_ids(paths: int, first: int = 0) -> np.ndarray:
    """The path ids `first`, … of one leaf, of as many lanes as the leaves of a run of so many paths."""
    return path_ids(first, 1, min(LEAF, lanes_for(paths)))


def lanes_for(paths: int) -> int:
    """A power of two, at least 64, that holds a number of paths: other widths may have other bits."""
    return max(FEWEST_LANES, 1 << max(paths - 1, 0).bit_length())


def planned_steps(grid: Grid | AdaptiveGrid | JumpGrid) -> int:
    """The steps of a path, for a guess at its time."""
    return grid.steps or ADAPTIVE_WORK


def plan_chunks(
    paths: int,
    steps: int,
    values_per_path: int,
    workers: int,
    chunk: int | None,
    most_paths: int = MOST_PATHS,
) -> Chunks:
    """Chunks that take up to about a second and fit memory, or of `chunk` paths rounded up to whole leaves.

    Of no more than `most_paths` unless `chunk` is given, and so that workers finish at about the same time.

    An ensemble smaller than a leaf gets one leaf of fewer lanes, a power of two: its sums are those of the
    full leaf without the zeros.
    """
    if paths < LEAF:
        return Chunks(1, 1, lanes_for(paths))
    leaves = -(-paths // LEAF)
    if chunk:
        each = -(-chunk // LEAF)
        return Chunks(-(-leaves // each), each, LEAF)
    timed = 1 << (max(1, TARGET_PATH_STEPS // steps).bit_length() - 1)  # few sizes, for few compilations
    fitting = MOST_BYTES // (8 * max(1, values_per_path) * most_in_memory(workers))
    most = min(max(1, min(timed, fitting, most_paths) // LEAF), -(-leaves // workers))
    each = min(range(most, (most - 1) // 4, -1), key=lambda each: -(-leaves // (each * workers)) * each)
    return Chunks(-(-leaves // each), each, LEAF)
