"""Progress on stderr: a bar on a terminal, and how long a long run will take."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

OBSERVED = 2.0  # seconds of a run by which it is known how long it will take
PATIENCE = 30.0  # seconds in which a run must have done a part
LONG = 60.0  # seconds of a run that says so


def short_count(number: float) -> str:
    """A count in four characters or so: `870`, `12.5k`, `3.2M`, `1.1G`."""
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g}{letter}"
    return f"{number:.0f}"


def counted(number: int, thing: str) -> str:
    """`1 path`, `2,000 paths`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


class CountColumn(ProgressColumn):
    """`3.2M/10M paths`, or of something else."""

    def __init__(self, what: str):
        super().__init__()
        self.what = what

    def render(self, task: Task) -> Text:
        return Text(f"{short_count(task.completed)}/{short_count(task.total or 0)} {self.what}")


class SpeedColumn(ProgressColumn):
    """`1.4M/s`, empty until the first chunk is done."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{short_count(speed)}/s" if speed else "")


class Forecast:
    """How long a run will take, by what it has done in its first seconds."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def left(self, done: int, total: int) -> float | None:
        """The seconds that are left, where so much is done; None until `OBSERVED` seconds are known."""
        now = time.perf_counter()
        if done >= total:
            return 0.0
        if self._first is None:
            self._first = now, done
        start, before = self._first
        if now - start < OBSERVED or done == before:
            return None
        return (total - done) * (now - start) / (done - before)


def duration(seconds: float) -> str:
    """How long: `less than a minute`, `about 5 minutes`, `about 3 hours`."""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"about {counted(round(seconds / size), unit)}"
    return "less than a minute"


@contextlib.contextmanager
def progress_bar(
    enabled: bool, what: str = "paths", lost: str = "", shorter: str = ""
) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback `(done, total)` of paths, or `what`, that moves a bar; None if nobody would see it.

    Nobody would when `enabled` is False. The bar is on stderr where that is a terminal, and disappears at the
    end; a run of more than a minute says there how long it will take, and what would be `lost`, if anything.
    One of which no part is done in `PATIENCE` seconds says so too, and what would make it `shorter`.
    """
    if not enabled:
        yield None
        return
    with _bar(what) if sys.stderr.isatty() else contextlib.nullcontext() as advance:
        forecast, said = Forecast(), False
        impatient = _Impatience(what, shorter)

        def show(done: int, total: int) -> None:
            nonlocal said
            impatient.cancel()
            if advance is not None:
                advance(done, total)
            left = None if said else forecast.left(done, total)
            if left is not None:
                said = True
                if left >= LONG:
                    print(f"note: {duration(left)} to go{lost and f'; {lost}'}", file=sys.stderr)

        try:
            yield show
        finally:
            impatient.cancel()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Within it a run waits for its programs."""
    global _compiled_s
    with _counted:
        _at_work.append(time.monotonic())
    try:
        yield
    finally:
        with _counted:
            latest = _at_work.pop()
            if not _at_work:  # so that what others do meanwhile is not counted again
                _compiled_s += time.monotonic() - latest


@contextlib.contextmanager
def working_on(place: Callable[[], str]) -> Iterator[None]:
    """Within it a bar shows `place()`, such as the workers of a cluster."""
    _places.append(place)
    try:
        yield
    finally:
        _places.remove(place)


_places: list[Callable[[], str]] = []
_at_work: list[float] = []  # when each began that waits for its programs
_compiled_s = 0.0
_counted = threading.Lock()


class _Impatience:
    """Says, until it is cancelled, what nothing is done of in `PATIENCE` seconds, compiling not counted."""

    def __init__(self, what: str, shorter: str):
        self._what, self._shorter, self._said, self._cancelled = what, shorter, False, False
        self._known_s = _compiled_s
        self._start(PATIENCE)

    def _start(self, seconds: float) -> None:
        if self._cancelled:
            return
        self._timer = threading.Timer(seconds, self._complain)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        self._cancelled = True
        self._timer.cancel()

    def _complain(self) -> None:
        more, self._known_s = _compiled_s - self._known_s, _compiled_s
        if _at_work:
            if not self._said:
                print(f"note: compiling takes more than {PATIENCE:.0f} seconds", file=sys.stderr)
                self._said = True
            self._start(PATIENCE)
        elif more > PATIENCE / 10:
            self._start(min(more, PATIENCE))  # so long it has not been at work on paths
        else:
            _say_nothing_done(self._what, self._shorter)


def _say_nothing_done(what: str, shorter: str) -> None:
    """The note of a run of which no part is done."""
    end = "`--max-time 10m` would end it"
    print(
        f"note: no {what} are done in {PATIENCE:.0f} seconds; {end}{shorter and f'; {shorter}'}",
        file=sys.stderr,
    )


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        CountColumn(what),
        SpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("compiling", total=None)

        def advance(done: int, total: int) -> None:
            where = "".join(f" on {place()}" for place in _places[-1:])
            progress.update(task, description=f"running{where}", completed=done, total=total)

        yield advance


def steps_text(attributes: Mapping[str, Any]) -> str:
    """The steps of a run by its dataset's attributes: "252 steps", or what adaptive paths took."""
    if "steps" in attributes:
        return counted(int(attributes["steps"]), "step")
    for what in ("event", "leap"):
        if f"{what}s_mean" in attributes:
            mean, most = float(attributes[f"{what}s_mean"]), int(attributes[f"{what}s_max"])
            if mean == most:  # as of one path
                return counted(most, what)
            return f"{mean:,.0f} {what}s on average (at most {most:,})"
    mean, most = float(attributes["accepted_steps_mean"]), int(attributes["accepted_steps_max"])
    rejected = f"{float(attributes['rejected_steps_mean']):,.3g} rejected"
    if mean == most:
        return f"{counted(most, 'adaptive step')} ({rejected})"
    return f"{mean:,.0f} adaptive steps on average (at most {most:,}, {rejected})"
