"""Replicas that take their chunks together, as lanes of one program: each in a thread of its own.

A small system does not fill the vectors of a processor, let alone an accelerator; many of them do. What a
replica does between chunks stays its own.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from simkit_solvers.loops.simulate_particles import chunk_of_steps, chunk_of_systems

from simkit.md.programs import Programs

Value = TypeVar("Value")
Result = TypeVar("Result")


class Lane:
    """The chunks of a replica that runs on its own."""

    def chunk(self, programs: Programs, *arguments: Any) -> Any:
        """`chunk_of_steps(*arguments)`, whose state is used up."""
        return programs(arguments[1:], chunk_of_steps, *arguments, donated=(1,))

    def agreed(self, steps: int) -> int:
        """How many steps a chunk takes, where this replica would take so many."""
        return steps


class Together:
    """So many replicas, and the lanes of their program, of which the last ones may be idle.

    They call the same functions in the same order, and wait there for each other. An error of one ends all of
    them, which then raise it.
    """

    def __init__(self, replicas: int, lanes: int):
        self.lanes, self.error = lanes, None
        self.barrier = threading.Barrier(replicas)
        self.values: list[Any] = [None] * replicas
        self.results: list[Any] = []

    def lane(self, number: int) -> Lane:
        """The lane of a replica."""
        return Lane() if self.lanes == 1 else _LaneOfMany(self, number)

    def run(self, lane: int, replica: Callable[[Lane], Result]) -> Result:
        """What a replica gives that has this lane."""
        try:
            return replica(self.lane(lane))
        except threading.BrokenBarrierError:
            assert self.error is not None
            raise self.error from None
        except BaseException as error:
            self.error = error
            self.barrier.abort()
            raise

    def meet(self, lane: int, value: Value, function: Callable[[list[Value]], Sequence[Result]]) -> Result:
        """Of what the function gives for the values of all lanes, that of this one."""
        self.values[lane] = value
        if self.barrier.wait() == 0:  # one of the threads
            self.results = list(function(self.values))
        self.barrier.wait()
        return self.results[lane]


@dataclasses.dataclass(frozen=True)
class _LaneOfMany(Lane):
    together: Together
    lane: int

    def chunk(self, programs: Programs, *arguments: Any) -> Any:
        after = self.together.meet(self.lane, arguments, functools.partial(self.of_all, programs))
        if after is None:
            self.together.barrier.wait()  # which the replica that has failed will break
        return after

    def of_all(self, programs: Programs, arguments: list[Any]) -> list[Any]:
        """The results of all lanes: where some fail, only theirs, as the others stop in the middle."""
        dynamics, observer, steps = arguments[0][0]
        idle = [arguments[-1]] * (self.together.lanes - len(arguments))
        noise, *changing = _stacked([(setting[0].noise, *rest) for setting, *rest in (*arguments, *idle)])
        setting = dataclasses.replace(dynamics, noise=noise), observer, steps
        after = programs(tuple(changing), chunk_of_systems, setting, *changing, donated=(1,))
        after = jax.tree.map(np.asarray, after)
        failed = ~after[0].bounded
        return [
            jax.tree.map(lambda a, i=i: a[i], after) if failed[i] or not failed.any() else None
            for i in range(len(arguments))
        ]

    def agreed(self, steps: int) -> int:
        return self.together.meet(self.lane, steps, lambda all_steps: [min(all_steps)] * len(all_steps))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)
