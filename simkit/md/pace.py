"""How many steps make a chunk, by the time that the last one took."""

import time

CHUNK_SECONDS = 0.5


class Pace:
    """How many steps make a chunk of half a second or so: a multiple of `unit`, between measurements."""

    def __init__(self, unit: int):
        self.unit = self.steps = unit
        self.start = 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        elapsed = max(time.perf_counter() - self.start, 1e-6)
        wanted = min(CHUNK_SECONDS / elapsed, 8) * self.steps
        self.steps = max(int(wanted // self.unit), 1) * self.unit
