"""Paths for the step bias: the first of a run again, on grids with other steps or leaps."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.programs import Request, compiled
from simkit.machine.on_each_device import Devices

Ends = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class BiasRun:
    """The programs, of equally many lanes, how many paths at first, and how many at most.

    `at_most` is for means that what one more path could add would leave in doubt.
    `ends` makes of what a program gives the final values `(levels, lanes)` by name: of one of `factors` each,
    or of one program for all, with the run's own length first.
    """

    factors: tuple[float, ...]
    requests: tuple[Request, ...]
    ends: Callable[[Any], Ends]
    orders: Mapping[str, float]
    paths: int
    most: int
    at_most: int
    workers: Devices

    def ready(self) -> list[Callable]:
        """What simulates paths on each of the levels, by programs that have been compiled before."""
        return self.with_numbers(compiled(*self.requests)[0])

    def with_numbers(self, programs: Sequence[Callable]) -> list[Callable]:
        """What simulates paths on each of the levels, by these programs of it."""
        pairs = zip(programs, self.requests, strict=True)
        return [functools.partial(program, request.arguments[0]) for program, request in pairs]

    def values(
        self, levels: Sequence[Callable], run: Mapping[str, np.ndarray], first: int, paths: int
    ) -> Ends:
        """The final values of `paths` paths `(paths, 1 + levels)` by name, first by steps as the run's."""
        each = self._simulated(levels, first, paths)
        if len(each) == len(self.factors):
            each.insert(0, {name: run[name][None, first : first + paths] for name in self.orders})
        rows = {name: np.concatenate([x[name] for x in each]) for name in self.orders}
        return {name: np.ascontiguousarray(x.T) for name, x in rows.items()}

    def _simulated(self, levels: Sequence[Callable], first: int, paths: int) -> list[Ends]:
        """The ends of paths from `first`, on each of the levels, in as many calls as it takes."""
        ids = self.requests[0].arguments[1]

        def work(simulate: Callable, chunk: Chunk) -> Ends:
            ends = self.ends(simulate(chunk.ids))
            return {name: ends[name] for name in self.orders}

        return concatenated(work, levels, Chunks(paths, *ids.shape, first), self.workers)
