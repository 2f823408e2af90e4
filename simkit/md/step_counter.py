"""Steps that are done, over all threads of a run."""

import threading
from collections.abc import Callable

Progress = Callable[[int, int], None]


class StoppedError(Exception):
    """Another replica has failed, or the run was interrupted."""


class StepCounter:
    """Steps that are done, over all threads, which end after their chunk once it is stopped."""

    def __init__(self, total: int, progress: Progress | None):
        self.done, self.total, self.progress, self.lock = 0, total, progress, threading.Lock()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def add(self, steps: int) -> None:
        if self.stopped:
            raise StoppedError
        with self.lock:
            self.done += steps
            if self.progress is not None:
                self.progress(self.done, self.total)
