"""What a run of particles records: states of replicas between chunks, from which they go on exactly."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.loops.simulate_particles import ParticleRun

from simkit.md.measured_rows import TOTALS, MeasuredRows
from simkit.md.saved_state import chosen_of, with_chosen
from simkit.md.together import Lane
from simkit.records.recording import RecordedLoop


class ReplicaSnapshot(NamedTuple):
    """A replica after `done` steps of a stage, by its number: all arrays of its run, in their order.

    `chosen` says how large its lists were, `rows` are those measured so far, `frames` is where the file of
    frames ends, and `minimised` has the largest forces at the end of earlier stages.
    """

    stage: int
    done: int
    chosen: dict[str, Any]
    arrays: list[np.ndarray]
    rows: list[list[np.ndarray]]
    frames: int
    minimised: dict[str, float]

    @staticmethod
    def of(run: ParticleRun, rows: MeasuredRows | None, **about: Any) -> "ReplicaSnapshot":
        """The snapshot of a run between two chunks, with the rest that it says."""
        arrays = [np.array(leaf) for leaf in jax.tree.leaves((run.state, run.accumulator))]
        measured = [] if rows is None else [[np.asarray(x) for x in jax.tree.leaves(c)] for c in rows.chunks]
        chosen = chosen_of(run.dynamics.forces)
        return ReplicaSnapshot(arrays=arrays, rows=measured, chosen=chosen, **about)

    def forces(self, forces: Any) -> Any:
        """These forces with lists as large as those of the snapshot."""
        return with_chosen(forces, self.chosen)

    def restored(self, run: ParticleRun) -> ParticleRun:
        """A run at its start, of which everything that changes is that of the snapshot."""
        fresh, structure = jax.tree.flatten((run.state, run.accumulator))
        arrays = [jnp.asarray(mine, own.dtype) for mine, own in zip(self.arrays, fresh, strict=True)]
        state, accumulator = jax.tree.unflatten(structure, arrays)
        return run._replace(state=state, accumulator=accumulator)

    def measured(self, rows: MeasuredRows, run: ParticleRun) -> None:
        """Put the rows of the snapshot into those of a run."""
        series = run.accumulator[TOTALS]
        structure = jax.tree.structure((series.step, series.totals))
        rows.chunks[:] = [jax.tree.unflatten(structure, chunk) for chunk in self.rows]


class RecordedReplicas:
    """The record of replicas that take their chunks together, of so many steps in all.

    It is kept where a recording is at work, and made in the thread in which that is.
    """

    def __init__(self, replicas: int, steps: int):
        self._replicas = replicas
        self._waiting: dict[int, ReplicaSnapshot] = {}
        self._complete: list[ReplicaSnapshot] = []
        self._loop = RecordedLoop(self, replicas * steps)

    @property
    def done(self) -> int:
        """The steps of all of them that an earlier process has done."""
        return self._loop.done

    def before(self, lane: int) -> ReplicaSnapshot | None:
        """The snapshot of a replica that an earlier process has left."""
        return self._complete[lane] if self._complete else None

    def due(self, last: bool) -> bool:
        """Whether it is time for a snapshot, as it always is of the `last` state of a replica."""
        return self._loop.is_due(last)

    def keep(self, lane: int, steps: int, snapshot: ReplicaSnapshot) -> None:
        """Keep what a replica has after so many steps; that of all, once each of them has given its own."""
        self._waiting[lane] = snapshot
        if len(self._waiting) == self._replicas:
            self._complete = [self._waiting[lane] for lane in range(self._replicas)]
            self._waiting = {}
            self._loop.advance(steps * self._replicas - self._loop.done)

    def state(self) -> Sequence[ReplicaSnapshot]:
        return self._complete

    def restore(self, state: Sequence[Any]) -> None:
        self._complete = [ReplicaSnapshot(*each) for each in state]


class RecordedReplica:
    """The place of one replica in the record of those that take their chunks together, in lanes."""

    def __init__(self, record: RecordedReplicas, number: int, lane: Lane):
        self._record, self._number, self._lane = record, number, lane
        self.before = record.before(number)

    def due(self, last: bool) -> bool:
        """Whether it is time for a snapshot of all lanes, as it always is of the `last` state."""
        return bool(self._lane.agreed(int(self._record.due(last))))

    def keep(self, steps: int, snapshot: ReplicaSnapshot) -> None:
        """Keep a snapshot after so many steps of all stages."""
        self._record.keep(self._number, steps, snapshot)
