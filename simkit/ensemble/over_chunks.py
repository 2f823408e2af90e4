"""The loop over chunks: work on each in a thread, and a sink that takes what comes of it in their order."""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.work import in_order
from simkit.errors import levels_to_caller
from simkit.machine.memory import is_shortage
from simkit.machine.on_each_device import Devices
from simkit.records.recording import Kept, RecordedLoop

Kind = TypeVar("Kind")
Outputs = TypeVar("Outputs")

Progress = Callable[[int, int], None]


def over_chunks(
    plan: Chunks,
    work: Callable[[Chunk], Outputs],
    sink: Callable[[Chunk, Outputs], None],
    workers: Devices,
    progress: Progress | None = None,
    kept: Kept | None = None,
    work_on: Callable[[Chunks], Callable[[Chunk], Outputs]] | None = None,
) -> float:
    """Call `work` on each chunk in one of the workers, and `sink` on what it gives, here and in order.

    What comes of a chunk is dropped when `sink` returns. `progress` is called with the paths done and the
    paths in all. The first error in the order of the chunks is raised. What `kept` has, which is all that
    `sink` has taken, is recorded where a recording is at work, and chunks that an earlier process has done
    are left out. Where `work` finds no memory, and `work_on` gives the work on chunks of another plan, the
    loop goes on with chunks half as large; where `sink` finds none, part of the chunk may be added, and the
    error is raised. Gives the seconds that it took, in all processes.
    """
    total = plan.kinds * plan.total
    loop = RecordedLoop(kept, total)
    if loop.done and progress is not None:
        progress(loop.done, total)
    while True:
        adding = False
        try:
            units = plan.after(loop.done)
            for chunk, outputs in in_order(lambda chunk, work=work: (chunk, work(chunk)), units, workers):
                adding = True
                sink(chunk, outputs)
                adding = False
                del outputs  # or it would be in memory while the next one is awaited
                loop.advance(chunk.count)
                if progress is not None:
                    progress(loop.done, total)
        except (MemoryError, RuntimeError) as error:
            smaller = plan.halved
            if adding or work_on is None or smaller is None or not is_shortage(error):
                raise
        else:
            return loop.seconds
        warnings.warn(
            f"chunks of {plan.paths:,} paths did not fit into memory; going on with {smaller.paths:,}",
            stacklevel=levels_to_caller(),
        )
        plan, work = smaller, work_on(smaller)


def concatenated(
    work: Callable[[Kind, Chunk], Any],
    kinds: Sequence[Kind],
    plan: Chunks,
    workers: Devices,
    axis: int = -1,
    progress: Progress | None = None,
    recorded: bool = False,
) -> list[Any]:
    """For each kind the arrays that `work` gives for it and each chunk, concatenated, without empty lanes.

    All kinds are at work at once: the chunks of one may be too few for the workers. They are `recorded` where
    that is asked for and a recording is at work.
    """
    plan, blocks = dataclasses.replace(plan, kinds=len(kinds)), _ArraysOfChunks([[] for _ in kinds], axis)
    kept = blocks if recorded else None
    over_chunks(plan, lambda chunk: work(kinds[chunk.kind], chunk), blocks.add, workers, progress, kept)
    return [jax.tree.map(lambda *x: np.concatenate(x, axis), *each) for each in blocks.each]


@dataclasses.dataclass
class _ArraysOfChunks:
    """The arrays of the chunks so far, for each kind."""

    each: list[list[Any]]
    axis: int

    def add(self, chunk: Chunk, outputs: Any) -> None:
        """Add the arrays of a chunk."""
        of_paths = jax.tree.map(lambda x: np.split(np.asarray(x), [chunk.count], self.axis)[0], outputs)
        self.each[chunk.kind].append(of_paths)

    def state(self) -> list:
        return [[*blocks] for blocks in self.each]

    def restore(self, state: list) -> None:
        self.each = state
