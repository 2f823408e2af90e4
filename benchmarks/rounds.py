"""Timing by interleaved rounds: A B A B …, so that a busy minute slows every program alike."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax


class Timing(NamedTuple):
    """Seconds of each round of one program, compilation not among them."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The fastest round: what the program costs when nothing else runs."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)


def interleaved(programs: dict[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Times every program once a round, after one call of each that compiles."""
    return timed(by_the_clock(programs), rounds)


def by_the_clock(programs: dict[str, Callable[[], object]]) -> dict[str, Callable[[], float]]:
    """Programs that return the seconds until their results are ready."""
    return {name: lambda f=f: waited_for(f) for name, f in programs.items()}


def timed(programs: dict[str, Callable[[], float]], rounds: int) -> dict[str, Timing]:
    """The same for programs that take their own time: each returns the seconds that count."""
    for program in programs.values():
        program()
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            seconds[name].append(program())
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def ratio(one: Timing, other: Timing) -> float:
    """The median over rounds of the ratio of two programs."""
    return statistics.median(a / b for a, b in zip(one.seconds, other.seconds, strict=True))


def processor_time(program: Callable[[], object]) -> float:
    """Seconds that one call takes of all processors: less than the clock's at the mercy of other programs."""
    start = time.process_time()
    jax.block_until_ready(program())
    return time.process_time() - start


def waited_for(program: Callable[[], object]) -> float:
    """Seconds until one call of a program has its results ready."""
    start = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - start
