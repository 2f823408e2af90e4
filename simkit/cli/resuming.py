"""`--resume` and `--max-time`: runs that stop, and that another process finishes."""

import contextlib
import dataclasses
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from simkit.cli.failures import Terminated, end_on_unresolved, print_json, recorded_as
from simkit.errors import (
    ClusterError,
    InputError,
    NumericalError,
    OutOfMemoryError,
    OutputError,
    PausedError,
)

if TYPE_CHECKING:
    import xarray as xr

    from simkit.records.record_file import Record


def seconds_of(text: str) -> float:
    """The seconds of a text such as `90s`, `30min`, `3h`. Raises `typer.BadParameter`."""
    from pydantic_core import PydanticCustomError

    from simkit.config.settings.values import seconds_in

    try:
        return seconds_in(text)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message()) from error


Resume = Annotated[
    bool, typer.Option("--resume", help="Finish a run that was stopped or killed, with the same bits.")
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        metavar="TIME",
        parser=seconds_of,
        help="Stop after this long, as in 30min or 3h; --resume finishes the run.",
        show_default=False,
    ),
]


@dataclasses.dataclass(frozen=True)
class Resuming:
    """How a command records its run into `target`, and whether it goes on with an earlier one."""

    target: Path | None
    resume: bool
    overwrite: bool
    max_time: float | None
    quiet: bool

    def may_replace(self) -> bool:
        """Whether files of these names may be replaced: by the user's wish, or since the record is theirs.

        Raises `InputError` for a resume without an output, and `OutputError` where a record of an earlier run
        would be lost.
        """
        if self.target is None:
            if self.resume:
                raise InputError("--resume: there is no output, so nothing is recorded; give --out FILE.zarr")
            return self.overwrite
        from simkit.records.record_file import exists, record_of
        from simkit.results.claims import claimed

        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite: give one; --overwrite starts anew")
        there = exists(record_of(self.target))
        if there and not (self.resume or self.overwrite):
            with claimed([self.target], lambda line: None):
                pass  # or it is the record of a run at work
            raise OutputError(
                f"{self.target}: an earlier run was stopped before its end; finish it with --resume, or "
                "start anew with --overwrite"
            )
        return self.overwrite or (there and self.resume)

    def is_complete(
        self,
        files: Sequence[Path],
        contents: Callable[[], Mapping[str, str]],
        table: Callable[[], ModuleType],
        as_json: bool,
        unresolved: Callable[["xr.Dataset"], list[str]] = lambda dataset: [],
    ) -> bool:
        """Whether the run to resume is finished, as when a job starts again; then this is said.

        An output without a record must have these `contents`, and the other `files` must be there, or
        `OutputError` is raised. Ends as the run did where figures of it are `unresolved`.
        """
        from simkit.records.record_file import exists, record_of

        target = self.target
        if not self.resume or self.overwrite or target is None or not target.exists():
            return False
        if exists(record_of(target)):
            return False
        from simkit.engines.finished import contents_of
        from simkit.records.same_run import differences
        from simkit.results.storage import opened_dataset

        anew = "to start anew use --overwrite"
        if target.suffix == ".csv":
            raise OutputError(
                f"{target}: exists and has no record, and a .csv does not say which run it is of; {anew}, "
                "and write .zarr or .nc where finished runs are to be known"
            )
        with opened_dataset(target) as dataset:
            other = differences(contents_of(dataset), contents(), "there", "here")
            other = other or [f"{file}: is missing" for file in files if not file.exists()]
            if other:
                other = [
                    f"{target}: exists and has no record, and is not the result of this run; {anew}",
                    *other,
                ]
                raise OutputError("\n".join(other))
            notes, summary = unresolved(dataset), table().summary(dataset) if as_json else {}
        self._say(f"{target}: is complete already")
        if as_json:
            print_json(summary | {"output": str(target)})
        end_on_unresolved(notes, True)
        return True

    @contextlib.contextmanager
    def recorded(self, identity: dict[str, str] | None) -> Iterator[None]:
        """Within it the run of this identity is recorded, and stopped at `max_time`.

        Raises `PausedError` where it was stopped and there is a record of part of it. The record goes at the
        end, and with an error that would come again.
        """
        if self.target is None or identity is None:
            if self.resume:
                raise InputError(
                    "--resume: a run that writes a .dcd file is not recorded, as nothing can be appended to "
                    "it; write the trajectory as .zarr or .xyz"
                )
            with _alarm(self.max_time):
                yield
            return
        from simkit.records.record_file import exists, record_of, remove
        from simkit.records.recording import Recording, recording

        path = record_of(self.target)
        if self.overwrite:
            remove(path)
        record = Recording(path, identity, self._before(path, identity) if self.resume else None)
        with recorded_as(lambda: _continuation() if exists(path) else ""):
            try:
                with _alarm(self.max_time), recording(record):
                    yield
            except KeyboardInterrupt as stopped:
                with contextlib.suppress(OSError):  # then there may be an earlier one
                    record.write()
                if not exists(path):
                    raise
                raise PausedError(f"{_why(stopped)}; {_continuation()}") from stopped
            except (OutputError, OutOfMemoryError, ClusterError) as error:  # nothing is to be computed again
                with contextlib.suppress(OSError):
                    record.write()
                if isinstance(error, ClusterError) and exists(path):
                    raise ClusterError(f"{error}; {_continuation()}") from error
                raise
            except NumericalError:
                record.remove()
                raise
            record.remove()

    def _before(self, path: Path, identity: dict[str, str]) -> "Record | None":
        """The record to go on from. Raises `InputError` where it is that of another run."""
        from simkit.records.record_file import read
        from simkit.records.same_run import differences

        record, spoilt = read(path)
        for line in spoilt:
            self._say(f"warning: {line}")
        if record is None:
            self._say("note: there is no record of an earlier run, so this one starts from the beginning")
            return None
        other = differences(record.identity, identity)
        if other:
            raise InputError(
                [
                    f"{self.target}: its record is of another run, which --resume cannot finish unless "
                    "what differs is as it was; to start anew use --overwrite",
                    *other,
                ]
            )
        return record

    def _say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr)


class OutOfTime(Terminated):
    """The run has taken as long as it may."""


def _why(stopped: KeyboardInterrupt) -> str:
    if isinstance(stopped, OutOfTime):
        return "stopped at --max-time"
    return "terminated" if isinstance(stopped, Terminated) else "interrupted"


@contextlib.contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Within it `OutOfTime` is raised in the main thread after so many seconds."""
    if seconds is None:
        yield
        return
    inside = True

    def interrupt(number, frame):
        if inside:
            raise OutOfTime("stopped at --max-time; nothing of this run is recorded")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _continuation() -> str:
    """That there is a record, and the command that goes on with it."""
    given = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
    return f"what is done is recorded; to finish it: {shlex.join(['simkit', *given, '--resume'])}"
