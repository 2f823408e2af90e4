"""How long a run will take, from its first seconds."""

import threading
import time

from simkit.engines.loaded import Loaded
from simkit.errors import SimkitError
from simkit.progress import PATIENCE, Forecast


class _KnownError(Exception):
    """Enough of the run is done."""


class Pilot:
    """A run that is stopped as soon as it is known how long it will take, and gives nothing else.

    `seconds` is None where that is not known, for the reason `why`.
    """

    seconds: float | None = None
    _fault: Exception | None = None
    why: str

    def __init__(self, loaded: Loaded):
        self.why = f"no part of it is done in {PATIENCE:.0f} seconds; {loaded.shorter}"
        self._loaded, self._forecast = loaded, Forecast()
        self._start = time.perf_counter()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._thread.join(PATIENCE)
        if self._fault is not None:
            raise self._fault

    @property
    def busy(self) -> bool:
        """Whether the run goes on, as nothing could stop it."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loaded.pilot().run(self._progress)
            self.seconds = time.perf_counter() - self._start
        except _KnownError:
            pass
        except SimkitError as error:
            self.why = f"it fails: {error}"
        except Exception as error:  # a bug, which would be lost in this thread
            self._fault = error

    def _progress(self, done: int, total: int) -> None:
        left = self._forecast.left(done, total)
        if left:
            self.seconds = time.perf_counter() - self._start + left
            raise _KnownError
