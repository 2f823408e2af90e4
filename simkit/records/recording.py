"""The record of a run at work: how far each of its loops is, and what they have so far.

A run is a sequence of loops over units of work, always the same for the same experiment. A loop that is
recorded gives its state after each unit. From time to time the states of all loops are written, and a process
that resumes begins each loop where it was: what is computed between loops is computed again.
"""

import contextlib
import copy
import os
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from simkit.errors import InputError
from simkit.records import record_file
from simkit.records.incomplete import remove
from simkit.records.path_file import PathFile
from simkit.records.record_file import Record

VARIABLE, EVERY = "SIMKIT_RECORD_EVERY", 5.0  # seconds between records; the variable sets others
PART_OF_TIME = 0.01  # that writing may take

_current: ContextVar["Recording | None"] = ContextVar("recording", default=None)


class Kept(Protocol):
    """What a loop has so far, as a record keeps it: tuples, lists, mappings, numbers and arrays.

    A state that was given does not change by what comes later, but for places that later units fill.
    """

    def state(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class LoopState(NamedTuple):
    """How much of `total` a loop has done, in how many seconds, and its state then."""

    total: int
    done: int
    seconds: float
    state: Any


class Recording:
    """The record under `path` of a run of this `identity`; `before` is the one that it continues."""

    def __init__(self, path: Path, identity: dict[str, str], before: Record | None = None):
        self._path, self._identity = path, identity
        self._before: list[LoopState] = [LoopState(*each) for each in before.content] if before else []
        self._loops: list[LoopState] = []
        self._partial: list[Path] = []
        self._lock = threading.RLock()  # replicas of particles keep their states in threads
        self.every = _every()
        self._next = time.monotonic() + self.every

    def begin(self, total: int) -> tuple[int, LoopState | None]:
        """The number of the loop that begins now, and how far it came before."""
        place = len(self._loops)
        known = self._before[place] if place < len(self._before) else None
        known = known if known and known.total == total else None
        self._loops.append(known or LoopState(total, 0, 0.0, None))
        return place, known

    def keep(self, place: int, state: LoopState) -> None:
        """Keep the state of a loop, and write the record if it is time."""
        with self._lock:
            self._loops[place] = state
            if time.monotonic() >= self._next:
                with contextlib.suppress(OSError):  # a full disk: the run goes on without
                    self.write()

    def write(self) -> bool:
        """Write the record unless nothing is done yet, and say whether it was written. Raises `OSError`."""
        with self._lock:
            return self._written()

    def _written(self) -> bool:
        loops = max(self._loops, self._before, key=len)
        if not any(loop.done for loop in loops):
            return False
        start = time.monotonic()
        record_file.write(self._path, Record(self._identity, [tuple(each) for each in loops]))
        end = time.monotonic()
        self._next = end + max(self.every, (end - start) / PART_OF_TIME)
        return True

    def partial(self, path: Path) -> Path:
        """The name of a file or folder that grows with the run, and is named `path` when it is complete.

        It stays where the process ends, for the one that resumes.
        """
        partial = path.with_name(f".{path.name}.partial")
        self._partial.append(partial)
        return partial

    def path_file(self, paths: int) -> PathFile:
        """The file for the stored paths of the loop that begins next; that of the run that is continued."""
        number = len(self._loops)
        continued = number < len(self._before) and self._before[number].done > 0
        return PathFile.opened(record_file.paths_beside(self._path, number), paths, not continued)

    def remove(self) -> None:
        """Remove the record, and files that are not complete: the run is, or cannot be."""
        record_file.remove(self._path)
        for path in self._partial:
            remove(path)


def _every() -> float:
    """The seconds between records. Raises `InputError` where the variable that sets others is no number."""
    given = os.environ.get(VARIABLE, "")
    try:
        seconds = float(given or EVERY)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{VARIABLE}: must be a number of seconds, such as 5, got {given!r}")
    return seconds


def current() -> Recording | None:
    """The recording that is at work in this thread."""
    return _current.get()


@contextlib.contextmanager
def recording(record: Recording) -> Iterator[None]:
    """Within it the loops of this thread are recorded."""
    token = _current.set(record)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Within it the loops of this thread are not recorded: they are done again, or recorded as a whole."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


class RecordedLoop:
    """A loop over `total` paths, or steps, that is recorded where a recording is at work.

    It is advanced after each unit, or where a state takes time to make, when that `is_due`.
    """

    def __init__(self, kept: Kept | None, total: int):
        self._record = _current.get() if kept is not None else None
        self._kept, self._total, self._start = kept, total, time.perf_counter()
        self.done, self._seconds = 0, 0.0
        self._next = time.monotonic() + (self._record.every if self._record else 0.0)
        if self._record is not None and kept is not None:
            self._place, known = self._record.begin(total)
            if known is not None and known.done:
                kept.restore(copy.deepcopy(known.state))  # the record may be written before the next unit
                self.done, self._seconds = known.done, known.seconds

    @property
    def seconds(self) -> float:
        """How long the loop has taken, with what an earlier process took of it."""
        return self._seconds + time.perf_counter() - self._start

    def is_due(self, last: bool = False) -> bool:
        """Whether it is time to keep a state, as it always is at the `last` unit."""
        return self._record is not None and (last or time.monotonic() >= self._next)

    def advance(self, count: int) -> None:
        """So many more are done, and what is kept has them."""
        self.done += count
        if self._record is not None and self._kept is not None:
            now = LoopState(self._total, self.done, self.seconds, self._kept.state())
            self._record.keep(self._place, now)
            self._next = time.monotonic() + self._record.every
