"""Accumulates the chunks of a run in the order of their paths: statistics, stored paths, final values."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from simkit.ensemble.chunks import LEAF, Chunk
from simkit.ensemble.failures import failed_paths
from simkit.ensemble.reducers import AbstractReducer
from simkit.ensemble.simulation import Simulation, StepCounts
from simkit.ensemble.stepping import IN_LEAPS, happened_names, since
from simkit.ensemble.weights import LOG_WEIGHT
from simkit.errors import OutputError
from simkit.observe.observable import waits
from simkit.records.path_file import PathFile, Region


class Total(NamedTuple):
    """The sum of a count over paths, the sum of its squares, and the largest; all are exact."""

    sum: int = 0
    squares: int = 0
    most: int = 0

    def with_more(self, counts: np.ndarray) -> "Total":
        """The total with the counts of more paths."""
        most = int(counts.max())
        whole = counts.astype(np.int64 if most**2 * len(counts) < 2**63 else object)
        return self.joined(Total(int(whole.sum()), int((whole * whole).sum()), most))

    def joined(self, other: "Total") -> "Total":
        """The total of the paths of both."""
        return Total(self.sum + other.sum, self.squares + other.squares, max(self.most, other.most))


class StoredInFile(NamedTuple):
    """The file with stored paths, and the regions of it that are written."""

    file: PathFile
    regions: tuple[Region, ...]


class Accumulator:
    """The statistics, stored paths, final values and counts of the chunks added so far.

    `rows` says how many rows each quantity has, `reducers` which statistics there are. Final values of the
    first `ends` paths are recorded, NaN where one failed. `part` are the paths that will be added, all of
    them unless given. Stored paths go into `paths_in` if that is given, and `join` takes such as are there
    already. Raises `NumericalError` on a failed path where `failures` is `stop`.
    """

    failed: int
    wanted_ends: int

    def __init__(
        self,
        simulation: Simulation,
        rows: Mapping[str, int],
        reducers: Mapping[str, AbstractReducer],
        ends: int,
        part: range | None = None,
        paths_in: PathFile | None = None,
    ):
        self._simulation = simulation
        self._rows = rows
        self._events = happened_names(simulation.problem)
        self._reducers = reducers
        self.wanted_ends = ends  # of how many paths final values are recorded
        self._part = range(simulation.paths) if part is None else part
        first_leaf = self._part.start // LEAF
        self._states = {name: reducer.init(first_leaf) for name, reducer in reducers.items()}
        self._stored: dict[str, np.ndarray] = {}
        self._filled = 0  # how many of their rows are there
        self.paths_in = paths_in
        self._regions: tuple[Region, ...] = ()  # of that file
        self._ends: dict[str, list[np.ndarray]] = {}
        self._totals: dict[str, Total] = {}
        self.failed = 0

    def on_host(self, partials: Mapping[str, Any]) -> dict[str, Any]:
        """What `add_chunk` takes of what the reducers gave for a chunk, in the thread that ran them."""
        return {name: self._reducers[name].on_host(partial) for name, partial in partials.items()}

    def add_chunk(self, chunk: Chunk, outputs: tuple) -> None:
        """Add the results of the two programs of a chunk, of which the reducers' are `on_host`."""
        values, counts, partials, broken, some = outputs
        # Most often there are none, and no flags need to leave the device.
        lost = np.asarray(broken).reshape(-1) if some else np.zeros(broken.size, bool)
        bad = np.flatnonzero(lost)
        if len(bad) and self._simulation.failures == "stop":
            raise failed_paths(self._simulation, chunk.first + bad)
        self.failed += len(bad)
        for name, partial in partials.items():
            self._states[name] = self._reducers[name].merge(self._states[name], partial)
        names = map(since, self._events)
        marks = {name: counts[name] for name in names if name in counts}
        counted = {name: each for name, each in counts.items() if name not in marks and name != LOG_WEIGHT}
        self._count(chunk, counted, lost)
        if missing := self._missing(chunk, self._simulation.stored_paths):
            kept = dict(zip(self._rows, values, strict=True)) | marks
            self._store(chunk.first, {name: first_paths(array, missing).T for name, array in kept.items()})
        if missing := self._missing(chunk, self.wanted_ends):
            for name, array in zip(self._rows, values, strict=True):
                last = first_paths(array, missing, slice(-1, None))[0]
                self._ends.setdefault(name, []).append(np.where(lost[:missing], np.nan, last))

    def join(self, chunk: Chunk, state: tuple) -> None:
        """Add the paths of a chunk, which another accumulator had as its part, by its `state`."""
        states, stored, ends, totals, failed = state
        self.failed += failed
        for name, later in states.items():
            self._states[name] = self._reducers[name].join(self._states[name], later)
        for name, total in totals.items():
            self._totals[name] = self._totals.get(name, Total()).joined(total)
        if isinstance(stored, StoredInFile):
            self._regions += stored.regions
        else:
            self._store(chunk.first, stored)
        for name, parts in ends.items():
            self._ends.setdefault(name, []).extend(parts)

    def _missing(self, chunk: Chunk, wanted: int) -> int:
        """How many of the first `wanted` paths there are in a chunk."""
        return max(min(wanted - chunk.first, chunk.count), 0)

    def _count(self, chunk: Chunk, counts, lost: np.ndarray) -> None:
        of_finite = {*map(waits, self._rows), *self._events}
        for name, array in counts.items():
            each = np.asarray(array).reshape(-1)
            each = np.where(lost & (name in of_finite), 0, each)[: chunk.count]
            self._totals[name] = self._totals.get(name, Total()).with_more(each)

    def _store(self, first: int, rows: Mapping[str, np.ndarray]) -> None:
        if self.paths_in is not None:
            if rows:
                self._regions = (*self._regions, self.paths_in.write(first, rows))
            return
        wanted = min(self._simulation.stored_paths, self._part.stop) - self._part.start
        place = first - self._part.start
        for name, kept in rows.items():
            if name not in self._stored:
                self._stored[name] = np.empty((wanted, kept.shape[1]), kept.dtype)
            self._stored[name][place : place + len(kept)] = kept
            self._filled = place + len(kept)

    def state(self) -> tuple:
        """What it has so far, for a record."""
        ends = {name: [*parts] for name, parts in self._ends.items()}
        in_file = self.paths_in and StoredInFile(self.paths_in, self._regions)
        stored = in_file or {name: x[: self._filled] for name, x in self._stored.items()}
        return dict(self._states), stored, ends, dict(self._totals), self.failed

    def restore(self, state: tuple) -> None:
        """Go on from what another accumulator of this run had.

        Raises `OutputError` where its stored paths are in a file that is gone or damaged.
        """
        states, stored, self._ends, self._totals, self.failed = state
        self._states = dict(states)
        if isinstance(stored, StoredInFile):
            if not stored.file.has(stored.regions):
                raise OutputError(
                    f"{stored.file.path}: the paths that the stopped run has stored are gone or damaged; "
                    "start anew with --overwrite"
                )
            self.paths_in, self._regions = stored
        else:
            self._store(self._part.start, stored)

    def statistics(self) -> dict[str, dict[str, np.ndarray]]:
        """The finished statistics."""
        return {name: reducer.finish(self._states[name]) for name, reducer in self._reducers.items()}

    def stored(self) -> dict[str, np.ndarray]:
        """The rows of the first paths, `(paths, rows)`, as many as are stored.

        Among them, by `since(name)`, whether an event with a condition came since the row before.
        """
        return self._stored if self.paths_in is None else self.paths_in.read()

    def ends(self) -> dict[str, np.ndarray]:
        """The final values of the first paths."""
        return {name: np.concatenate(parts) for name, parts in self._ends.items()}

    def waiting(self) -> dict[str, int]:
        """For each first time, how many of the paths that have not failed still wait at the end."""
        return {name: self._totals[waits(name)].sum for name in self._rows if waits(name) in self._totals}

    def happened(self) -> list[Total]:
        """How often each event with a condition has happened on the paths that have not failed."""
        return [self._totals[name] for name in self._events]

    def step_counts(self, accepted: str, rejected: str) -> StepCounts:
        """Mean and most of the two kinds of steps, by their names, and the mean number of events in leaps."""
        some, refused, paths = self._totals[accepted], self._totals[rejected], self._simulation.paths
        in_leaps = self._totals.get(IN_LEAPS, Total()).sum
        return StepCounts(some.sum / paths, some.most, refused.sum / paths, refused.most, in_leaps / paths)


def first_paths(array: Any, count: int, rows: slice = slice(None)) -> np.ndarray:
    """The values `(rows, paths)` of the first paths, from an array `(rows, leaves, lanes)` on a device.

    From an accelerator only these rows of their leaves are copied.
    """
    leaves = -(-count // array.shape[2])
    devices = getattr(array, "devices", tuple)()  # of an array on the host none
    if any(device.platform != "cpu" for device in devices):
        array, rows = array[rows, :leaves], slice(None)
    kept = np.asarray(array)[rows]
    return kept.reshape(len(kept), -1)[:, :count]
