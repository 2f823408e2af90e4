"""How an ensemble is divided: leaves of a fixed number of paths, and chunks of leaves as units of work.

Leaves are what makes statistics independent of threads, devices and chunks: each is reduced on its own, and
they are merged in the order of their ids. Here alone it is decided how many paths or rows are in memory at a
time.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import on_accelerator
from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid

from simkit.ensemble.simulation import Simulation
from simkit.ensemble.work import PER_ACCELERATOR, most_in_memory, workers_of
from simkit.machine.on_each_device import Devices

LEAF = 2048
FEWEST_LANES = 64
ADAPTIVE_WORK = 10_000  # what a path of unknown length is planned as: adaptive steps, or events


class Limits(NamedTuple):
    """How large a chunk may be: its path-steps, its paths, and the bytes that the rows of all chunks at work
    take of one memory; how many `threads` share that, and how many `workers` are to finish together.
    """

    path_steps: int
    paths: int
    memory: int
    threads: int
    workers: int


MOST_BYTES = 512 * 2**20  # of rows in the host's memory
JAX = 700 * 10**6  # bytes that a process has with jax and compiled programs
COPIES = 2  # of rows, in what a processor takes for the chunks at work: measured
OF_STUDIES = 5  # times the bytes of the values of a study's paths, which it takes for them: measured
# Paths of a chunk of derivatives on a processor: what their loops carry is read by many kernels.
IN_CACHE = 32 * LEAF
OF_DERIVATIVES = 4  # times the time and memory of a path of a plain run
IN_REVERSE = 256 * LEAF  # on an accelerator: a reverse pass has a fixed memory for all of them
WITH_INTERVALS = 8 * LEAF  # paths of which all intervals between dates of exercise are in memory
PART_OF_MEMORY = 8  # of an accelerator, for rows; the state of a path and what its steps compute need more
LEAST_MEMORY = 8 * 2**30  # of an accelerator that does not say how much it has


def limits_on(threads: Devices, memory: int | None = None) -> Limits:
    """The limits for chunks in threads on such devices, if they may take so much `memory` of the host."""
    if threads[0].platform == "cpu":  # a fifth of a second to a second on one core
        rows = MOST_BYTES if memory is None else int(max(memory, 0) / COPIES)
        return Limits(200_000_000, 2**19, rows, len(threads), len(threads))
    of_device = (threads[0].memory_stats() or {}).get("bytes_limit", LEAST_MEMORY)
    # A twentieth of a second or more on a large one, and all lanes busy.
    return Limits(10_000_000_000, 2**23, of_device // PART_OF_MEMORY, PER_ACCELERATOR, len({*threads}))


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A unit of work: `count` paths from the id `first` on, and of what `kind` they are."""

    kind: int
    first: int
    count: int
    leaves: int
    lanes: int

    @property
    def ids(self) -> np.ndarray | jax.Array:
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

    @property
    def halved(self) -> "Chunks | None":
        """The plan of the same paths in chunks half as large; None where these are single leaves."""
        return dataclasses.replace(self, leaves=self.leaves // 2) if self.leaves > 1 else None

    def of_part(self, part: range, workers: int) -> "Chunks":
        """The plan of a part of the paths, without empty leaves but at the end of all.

        Chunks have a power of two leaves, as many as divide the part, in which each worker gets one.
        """
        leaves = -(-len(part) // self.lanes)
        ends = (part.start, *([part.stop] if part.stop < self.first + self.total else []))
        most = min(
            self.leaves,
            max(1, leaves // workers),
            *(end // self.lanes & -(end // self.lanes) for end in ends if end),
        )
        return dataclasses.replace(self, first=part.start, total=len(part), leaves=1 << most.bit_length() - 1)

    def __iter__(self) -> Iterator[Chunk]:
        return self.after(0)

    def after(self, done: int) -> Iterator[Chunk]:
        """The chunks behind so many paths of all kinds, which are whole chunks of a plan of this total."""
        first_kind, begin = divmod(done, self.total)
        for kind in range(first_kind, self.kinds):
            for done in range(begin, self.total, self.paths):
                count = min(self.paths, self.total - done)
                yield Chunk(kind, self.first + done, count, self.leaves, self.lanes)
            begin = 0

    def ids(self) -> np.ndarray | jax.Array:
        """The path ids of the first chunk, `uint32` `(leaves, lanes)`."""
        return path_ids(self.first, self.leaves, self.lanes)


def path_ids(first: int, leaves: int, lanes: int) -> np.ndarray | jax.Array:
    """The path ids `first`, … as `uint32` `(leaves, lanes)`; on an accelerator, to which sending takes long,
    they are made there."""
    where = jnp if on_accelerator() else np
    ids = where.arange(leaves * lanes, dtype=np.uint32) + where.asarray([first % 2**32], np.uint32)
    return ids.reshape(leaves, lanes)


def chunks_of_size(paths: int, size: int) -> Chunks:
    """The plan of these paths in chunks of a `size` that is rounded up to whole leaves.

    An ensemble smaller than a leaf gets one leaf of fewer lanes, a power of two: its sums are those of the
    full leaf without the zeros.
    """
    return Chunks(paths, -(-size // LEAF), LEAF) if paths >= LEAF else Chunks(paths, 1, lanes_for(paths))


def leaf_by_leaf(paths: int) -> Chunks:
    """The plan of these paths in chunks of one leaf."""
    return chunks_of_size(paths, LEAF)


def lanes_for(paths: int) -> int:
    """A power of two, at least 64, that holds a number of paths: other widths may have other bits."""
    return max(FEWEST_LANES, 1 << max(paths - 1, 0).bit_length())


def planned_steps(grid: Grid | AdaptiveGrid | JumpGrid) -> int:
    """The steps of a path, for a guess at its time."""
    return grid.steps or ADAPTIVE_WORK


def plan_chunks(
    simulation: Simulation, paths: int, values: int, most_paths: int | None = None, weight: int = 1
) -> Chunks:
    """Chunks within the limits of the devices, or those of the user's `chunk`.

    Of no more than `most_paths`, if given, unless `chunk` is; and so that cores or accelerators finish at
    about the same time. A path keeps `values` numbers; time and memory are those of `weight` paths of the
    plain run.
    """
    if simulation.chunk or paths < LEAF:
        return chunks_of_size(paths, simulation.chunk or LEAF)
    leaves, limits = -(-paths // LEAF), limits_on(workers_of(simulation), _left(simulation, values))
    steps = weight * planned_steps(simulation.grid)
    timed = 1 << (max(1, limits.path_steps // steps).bit_length() - 1)  # few sizes, for few compilations
    fitting = limits.memory // (8 * weight * max(1, values) * most_in_memory(limits.threads))
    most = min(max(1, min(timed, fitting, most_paths or limits.paths) // LEAF), -(-leaves // limits.workers))

    def longest(each: int) -> int:
        """The leaves of the worker that has most of them."""
        return -(-leaves // (each * limits.workers)) * each

    return chunks_of_size(paths, min(range(most, (most - 1) // 4, -1), key=longest) * LEAF)


def _left(simulation: Simulation, values: int) -> int | None:
    """The bytes for chunks that `memory` leaves besides jax and stored paths, of so many values each."""
    if simulation.memory is None:
        return None
    return simulation.memory - JAX - 8 * values * min(simulation.stored_paths, simulation.paths)


def plan_derivatives(simulation: Simulation, values: int) -> Chunks:
    """Chunks of the paths of a simulation where each gives so many values, and derivatives of them."""
    most = IN_CACHE if workers_of(simulation)[0].platform == "cpu" else IN_REVERSE
    return plan_chunks(simulation, simulation.paths, values, most, OF_DERIVATIVES)


def plan_intervals(simulation: Simulation, paths: int) -> Chunks:
    """Chunks of so many paths, of which all intervals between dates of exercise are kept."""
    return chunks_of_size(paths, min(simulation.chunk or WITH_INTERVALS, WITH_INTERVALS))


def halved_to_fit(paths: int, values: int, least: int) -> int:
    """The paths that fit into memory with so many values each: halved until they do, or are `least`."""
    while 8 * values * paths > MOST_BYTES and paths > least:
        paths //= 2
    return paths


def rows_in_memory(values: int, memory: int | None = None) -> int:
    """A power of two: how many rows of so many values fit into memory, one at least.

    Of what `memory` leaves besides jax they take half, with ids, copies and variances.
    """
    most = MOST_BYTES if memory is None else min(MOST_BYTES, max(memory - JAX, 0) // (2 * OF_STUDIES))
    return 1 << max(most // (8 * values), 1).bit_length() - 1
