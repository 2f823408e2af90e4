"""What a run keeps of its chunks, taken up in the order of their paths."""

from collections.abc import Mapping

import numpy as np

from simkit.ensemble.failures import failed_paths
from simkit.ensemble.reducers import AbstractReducer
from simkit.ensemble.simulation import Simulation, StepCounts
from simkit.observe.observables import waits


class Gathering:
    """The statistics, stored paths, final values and counts of the chunks taken up so far.

    `rows` says how many rows are kept of each quantity, `reducers` which statistics. Of the first `ends`
    paths the final values are kept, NaN where one failed. Raises `NumericalError` on a failed path where
    `failures` is `stop`.
    """

    failed: int

    def __init__(
        self,
        simulation: Simulation,
        rows: Mapping[str, int],
        reducers: Mapping[str, AbstractReducer],
        ends: int,
    ):
        self._simulation = simulation
        self._rows = rows
        self._reducers = reducers
        self._wanted_ends = ends
        self._states = {name: reducer.init() for name, reducer in reducers.items()}
        self._stored: dict[str, list[np.ndarray]] = {}
        self._ends: dict[str, list[np.ndarray]] = {}
        self._taken: dict[str, tuple[int, int]] = {}
        self.failed = 0

    def absorb(self, first: int, values, counts, partials, broken) -> None:
        """Take up the chunk that begins with path `first`, by what its two programs gave."""
        lost = np.asarray(broken).reshape(-1)
        bad = np.flatnonzero(lost)
        if len(bad) and self._simulation.failures == "stop":
            raise failed_paths(self._simulation, first + bad)
        self.failed += len(bad)
        for name, partial in partials.items():
            self._states[name] = self._reducers[name].merge(self._states[name], partial)
        self._count(first, counts, lost)
        self._store(first, values)
        self._keep_ends(first, values, lost)

    def _count(self, first: int, counts, lost: np.ndarray) -> None:
        waiting = {*map(waits, self._rows)}
        for name, array in counts.items():
            each = np.asarray(array).reshape(-1)
            each = np.where(lost & (name in waiting), 0, each)[: self._simulation.paths - first]
            each = each.astype(np.int64)
            total, most = self._taken.get(name, (0, 0))
            self._taken[name] = total + int(each.sum()), max(most, int(each.max()))

    def _store(self, first: int, values) -> None:
        wanted = min(self._simulation.stored_paths, self._simulation.paths) - first
        if wanted <= 0:
            return
        for name, array in zip(self._rows, values, strict=True):
            flat = np.asarray(array).reshape(array.shape[0], -1)
            self._stored.setdefault(name, []).append(flat[:, :wanted].T.copy())

    def _keep_ends(self, first: int, values, lost: np.ndarray) -> None:
        if first >= self._wanted_ends:
            return
        for name, array in zip(self._rows, values, strict=True):
            last = np.where(lost, np.nan, np.asarray(array)[-1].reshape(-1))
            self._ends.setdefault(name, []).append(last[: self._wanted_ends - first].copy())

    def statistics(self) -> dict[str, dict[str, np.ndarray]]:
        """The finished statistics."""
        return {name: reducer.finish(self._states[name]) for name, reducer in self._reducers.items()}

    def stored(self) -> dict[str, np.ndarray]:
        """The rows of the first paths, `(paths, rows)`, as many as are stored."""
        return {name: np.concatenate(parts) for name, parts in self._stored.items()}

    def ends(self) -> dict[str, np.ndarray]:
        """The final values of the first paths; lanes beyond the last path among them."""
        return {name: np.concatenate(parts) for name, parts in self._ends.items()}

    def waiting(self) -> dict[str, int]:
        """By hitting time how many paths, of those that have not failed, still wait at the end."""
        return {name: self._taken[waits(name)][0] for name in self._rows if waits(name) in self._taken}

    def step_counts(self, accepted: str, rejected: str) -> StepCounts:
        """Mean and most of the two kinds of steps, by their names."""
        (some, most), (refused, most_refused) = self._taken[accepted], self._taken[rejected]
        paths = self._simulation.paths
        return StepCounts(some / paths, most, refused / paths, most_refused)
