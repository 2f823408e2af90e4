"""The loop over chunks: which paths each has, what goes into the sink and when, and arrays by kind."""

import threading
import time
import weakref

import numpy as np
import pytest

from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.over_chunks import concatenated, over_chunks
from simkit.machine.on_each_device import local_devices

CPU = local_devices(1)


def test_the_sink_has_each_path_once_in_order_with_what_its_chunk_gave():
    """The last of three chunks of four has one path; the first takes longest."""
    results, told = [], []

    def work(chunk: Chunk) -> np.ndarray:
        time.sleep(0.02 if chunk.first == 7 else 0)
        return chunk.ids * 10

    def sink(chunk: Chunk, outputs: np.ndarray) -> None:
        results.append((chunk.first, chunk.count, outputs.tolist()))

    plan = Chunks(9, 2, 2, first=7)
    over_chunks(plan, work, sink, CPU * 3, lambda done, total: told.append((done, total)))
    assert results == [
        (7, 4, [[70, 80], [90, 100]]),
        (11, 4, [[110, 120], [130, 140]]),
        (15, 1, [[150, 160], [170, 180]]),
    ]
    assert told == [(4, 9), (8, 9), (9, 9)]
    assert plan.count == 3


class Outputs:
    """Something whose end can be seen."""


def test_what_a_chunk_gave_is_dropped_before_the_next_is_there():
    merged, references, dropped = threading.Event(), [], []

    def work(chunk: Chunk) -> Outputs:
        if chunk.first == 1:
            assert merged.wait(20)
            until = time.monotonic() + 2
            while references[0]() is not None and time.monotonic() < until:
                time.sleep(0.01)
            dropped.append(references[0]() is None)
        return Outputs()

    def sink(chunk: Chunk, outputs: Outputs) -> None:
        references.append(weakref.ref(outputs))
        merged.set()

    over_chunks(Chunks(2, 1, 1), work, sink, CPU)
    assert dropped == [True]


@pytest.mark.parametrize("axis", [0, -1])
def test_arrays_are_joined_by_kind_in_the_order_of_their_paths_without_empty_lanes(axis):
    def work(kind: float, chunk: Chunk) -> dict[str, np.ndarray]:
        time.sleep(0.02 if chunk.first == 0 else 0)
        ids = chunk.ids.reshape(-1).astype(float)
        return {"ids": kind * ids, "rows": np.stack([ids, kind - ids], 1 + axis)}

    kinds, told, ids = (1.0, 10.0), [], np.arange(5.0)
    results = concatenated(work, kinds, Chunks(5, 1, 2), CPU * 3, axis, lambda *each: told.append(each))
    for kind, result in zip(kinds, results, strict=True):
        np.testing.assert_array_equal(result["ids"], kind * ids)
        np.testing.assert_array_equal(result["rows"], np.stack([ids, kind - ids], 1 + axis))
    assert told == [(2, 10), (4, 10), (5, 10), (7, 10), (9, 10), (10, 10)]
