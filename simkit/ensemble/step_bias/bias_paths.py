"""Paths that a step bias is measured on: the first of a run again, on grids with other steps or leaps."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simkit.ensemble.paths import as_device_ids
from simkit.ensemble.programs import Request

Ends = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class BiasRun:
    """The programs, how many paths at first, and how many at most.

    `ends` makes of what a program gives the final values `(levels, lanes)` by name: of one of `factors` each,
    or of one program for all, with the run's own length first.
    """

    factors: tuple[float, ...]
    requests: tuple[Request, ...]
    ends: Callable[[Any], Ends]
    orders: Mapping[str, float]
    paths: int
    most: int

    def values(
        self, programs: Sequence[Callable], run: Mapping[str, np.ndarray], first: int, paths: int
    ) -> Ends:
        """The final values of so many paths `(paths, 1 + levels)` by name, first by steps as the run's."""
        each = [self._simulated(*both, first, paths) for both in zip(self.requests, programs, strict=True)]
        if len(each) == len(self.factors):
            each.insert(0, {name: run[name][None, first : first + paths] for name in self.orders})
        levels = {name: np.concatenate([x[name] for x in each]) for name in self.orders}
        return {name: np.ascontiguousarray(x.T) for name, x in levels.items()}

    def _simulated(self, request: Request, program: Callable, first: int, paths: int) -> Ends:
        """Of paths from `first`, in as many calls as it takes."""
        inputs, ids = request.arguments
        if request.mesh is None:
            raise TypeError("the step bias takes programs of paths, which run on a mesh")
        starts = range(first, first + paths, ids.size)
        each = [
            self.ends(program(inputs, as_device_ids(start, *ids.shape, request.mesh))) for start in starts
        ]
        return {name: np.concatenate([x[name] for x in each], 1)[:, :paths] for name in self.orders}
