"""How an ensemble is divided: leaves of a fixed number of paths, and chunks of leaves as units of work.

Leaves are what makes statistics independent of threads, devices and chunks: each is reduced on its own, and
they are merged in the order of their ids.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid

from simkit.ensemble.simulation import Simulation
from simkit.ensemble.work import most_in_memory, workers_of

LEAF = 2048
FEWEST_LANES = 64
ADAPTIVE_WORK = 10_000  # what a path of unknown length is planned as: adaptive steps, or events
TARGET_PATH_STEPS = 200_000_000  # a fifth of a second to a second on one core
MOST_PATHS = 2**19  # of which `most_in_memory` chunks are in memory
MOST_BYTES = 512 * 2**20  # for the saved rows of all chunks in memory


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A unit of work: `count` paths from the id `first` on, and of what `kind` they are."""

    kind: int
    first: int
    count: int
    leaves: int
    lanes: int

    @property
    def ids(self) -> np.ndarray:
        """The path ids, `uint32` `(leaves, lanes)`; those behind the first `count` are empty lanes."""
        return path_ids(self.first, self.leaves, self.lanes)


@dataclasses.dataclass(frozen=True)
class Chunks:
    """The plan of `total` paths from the id `first` on, in chunks of `leaves` leaves of `lanes` paths each.

    The last chunk may be partly empty. There may be several `kinds` of the same paths, such as levels.
    """

    total: int
    leaves: int
    lanes: int
    first: int = 0
    kinds: int = 1

    @property
    def paths(self) -> int:
        """Paths in one chunk, empty lanes included."""
        return self.leaves * self.lanes

    @property
    def count(self) -> int:
        """How many chunks there are of a kind."""
        return -(-self.total // self.paths)

    def __iter__(self) -> Iterator[Chunk]:
        for kind in range(self.kinds):
            for done in range(0, self.total, self.paths):
                count = min(self.paths, self.total - done)
                yield Chunk(kind, self.first + done, count, self.leaves, self.lanes)

    def ids(self) -> np.ndarray:
        """The path ids of the first chunk, `uint32` `(leaves, lanes)`."""
        return path_ids(self.first, self.leaves, self.lanes)


def path_ids(first: int, leaves: int, lanes: int) -> np.ndarray:
    """The path ids `first`, … as `uint32` `(leaves, lanes)`."""
    ids = first + np.arange(leaves * lanes, dtype=np.uint64)
    return ids.astype(np.uint32).reshape(leaves, lanes)


def chunks_of_size(paths: int, size: int) -> Chunks:
    """The plan of so many paths in chunks of a `size` that is rounded up to whole leaves.

    An ensemble smaller than a leaf gets one leaf of fewer lanes, a power of two: its sums are those of the
    full leaf without the zeros.
    """
    return Chunks(paths, -(-size // LEAF), LEAF) if paths >= LEAF else Chunks(paths, 1, lanes_for(paths))


def leaf_by_leaf(paths: int) -> Chunks:
    """The plan of so many paths in chunks of one leaf."""
    return chunks_of_size(paths, LEAF)


def lanes_for(paths: int) -> int:
    """A power of two, at least 64, that holds a number of paths: other widths may have other bits."""
    return max(FEWEST_LANES, 1 << max(paths - 1, 0).bit_length())


def planned_steps(grid: Grid | AdaptiveGrid | JumpGrid) -> int:
    """The steps of a path, for a guess at its time."""
    return grid.steps or ADAPTIVE_WORK


def plan_chunks(
    simulation: Simulation, paths: int, values: int, most_paths: int = MOST_PATHS, weight: int = 1
) -> Chunks:
    """Chunks that take up to about a second and fit memory, or those of the user's `chunk`.

    Of no more than `most_paths` unless `chunk` is given, and so that workers finish at about the same time.
    A path keeps so many `values`; time and memory are those of `weight` paths of the plain run.
    """
    if simulation.chunk or paths < LEAF:
        return chunks_of_size(paths, simulation.chunk or LEAF)
    leaves, workers = -(-paths // LEAF), len(workers_of(simulation))
    steps = weight * planned_steps(simulation.grid)
    timed = 1 << (max(1, TARGET_PATH_STEPS // steps).bit_length() - 1)  # few sizes, for few compilations
    fitting = MOST_BYTES // (8 * weight * max(1, values) * most_in_memory(workers))
    most = min(max(1, min(timed, fitting, most_paths) // LEAF), -(-leaves // workers))
    each = min(range(most, (most - 1) // 4, -1), key=lambda each: -(-leaves // (each * workers)) * each)
    return chunks_of_size(paths, each * LEAF)
