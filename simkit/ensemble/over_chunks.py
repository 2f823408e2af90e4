"""The loop over chunks: work on each in a thread, and a sink that takes what comes of it in their order."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.work import in_order
from simkit.machine.on_each_device import Devices

Kind = TypeVar("Kind")
Outputs = TypeVar("Outputs")

Progress = Callable[[int, int], None]


def over_chunks(
    plan: Chunks,
    work: Callable[[Chunk], Outputs],
    sink: Callable[[Chunk, Outputs], None],
    workers: Devices,
    progress: Progress | None = None,
) -> None:
    """Call `work` on each chunk in one of the workers, and `sink` on what it gives, here and in order.

    What comes of a chunk is dropped when `sink` returns. `progress` is called with the paths done and the
    paths in all. The first error in the order of the chunks is raised.
    """
    done = 0
    for chunk, outputs in in_order(lambda chunk: (chunk, work(chunk)), plan, workers):
        sink(chunk, outputs)
        del outputs  # or it would be in memory while the next one is awaited
        done += chunk.count
        if progress is not None:
            progress(done, plan.kinds * plan.total)


def concatenated(
    work: Callable[[Kind, Chunk], Any],
    kinds: Sequence[Kind],
    plan: Chunks,
    workers: Devices,
    axis: int = -1,
    progress: Progress | None = None,
) -> list[Any]:
    """For each kind the arrays that `work` gives for it and each chunk, concatenated, without empty lanes.

    All kinds are at work at once: the chunks of one may be too few for the workers.
    """
    plan, blocks = dataclasses.replace(plan, kinds=len(kinds)), [[] for _ in kinds]

    def add(chunk: Chunk, outputs: Any) -> None:
        of_paths = jax.tree.map(lambda x: np.split(np.asarray(x), [chunk.count], axis)[0], outputs)
        blocks[chunk.kind].append(of_paths)

    over_chunks(plan, lambda chunk: work(kinds[chunk.kind], chunk), add, workers, progress)
    return [jax.tree.map(lambda *x: np.concatenate(x, axis), *each) for each in blocks]
