"""From exceptions to messages and exit codes."""

import _thread
import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import NoReturn

import typer

from simkit.errors import INTERRUPTED, InputError, NumericalError, PausedError, SimkitError
from simkit.machine.memory import failures_named
from simkit.records.incomplete import remove_incomplete

TERMINATED = 143  # the shell's convention: 128 + SIGTERM
GRACE = 5.0  # seconds between a signal and the end at the latest
BROKEN_PIPE = 141  # and 128 + SIGPIPE

_recorded: list[Callable[[], str]] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would be, so that both leave by the same way."""


@contextlib.contextmanager
def reported(as_json: bool = False) -> Iterator[None]:
    """Run a command's body: what simkit raises becomes a message on stderr and the exit code.

    With `as_json` it also becomes one JSON object on stdout. Anything else is a fault of the program and
    leaves as it came, with its traceback.
    """
    with _interruptible(as_json):
        try:
            with failures_named("keep fewer numbers, or give the process more memory"):
                yield
        except SimkitError as error:
            problems = error.problems if isinstance(error, InputError) else [str(error)]
            _fail(type(error).__name__, str(error), problems, error.exit_code, as_json)
        except typer.Exit:  # said already
            raise
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            leave_at_once(BROKEN_PIPE)
        except Terminated as stopped:
            _fail("Terminated", str(stopped) or "terminated", [], TERMINATED, as_json)
        except KeyboardInterrupt:
            _fail("Interrupted", "interrupted", [], INTERRUPTED, as_json)
        except Exception as error:
            if as_json:
                print_json({"error": {"kind": type(error).__name__, "message": str(error), "problems": []}})
            raise


def warn(remarks: Iterable[str]) -> None:
    """Print remarks as warnings on stderr."""
    for remark in remarks:
        print(f"warning: {remark}", file=sys.stderr)


def end_on_unresolved(notes: list[str], say: bool) -> None:
    """Exit code 3 where steps are too long for a result, as the notes say, on stderr where no table did."""
    if notes:
        if say:
            print("\n".join(notes), file=sys.stderr)
        raise typer.Exit(NumericalError.exit_code)


def print_json(content: dict) -> None:
    """One object on stdout; a number that JSON does not know is null."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def leave_at_once(code: int) -> NoReturn:
    """End the process: threads that import or compile may be at work, and a tidy end under them crashes.

    Files that threads are writing are removed.
    """
    remove_incomplete()
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)  # the cursor, which the progress bar hides
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _say(kind: str, message: str, problems: list[str], as_json: bool) -> None:
    print(message, file=sys.stderr)
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "problems": problems}})


def _fail(kind: str, message: str, problems: list[str], code: int, as_json: bool) -> NoReturn:
    _say(kind, message, problems, as_json)
    raise typer.Exit(code)


@contextlib.contextmanager
def _interruptible(as_json: bool) -> Iterator[None]:
    """Within it SIGTERM raises `Terminated` as SIGINT raises `KeyboardInterrupt`, in the main thread only.

    So temporary files are removed. In the middle of an import there are none, and no module takes an
    exception there well: the process ends. Where an exception would be lost, as in a callback of the garbage
    collector, the signal comes again. Where Python does not get to it, as while XLA compiles, or a tidy end
    takes long, the process ends `GRACE` seconds later. One that the parent ignores stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if _importing(frame):
            _leave_by(number, as_json)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def again(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            number = signal.SIGTERM if issubclass(unraisable.exc_type, Terminated) else signal.SIGINT
            threading.Timer(0.01, _thread.interrupt_main, [number]).start()
        else:
            hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, again
    previous = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            previous[number] = signal.signal(number, stop)
    arrived, arrives = socket.socketpair()
    arrives.setblocking(False)
    other = signal.set_wakeup_fd(arrives.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_leave_in_time, args=(arrived, as_json), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(other)
        arrives.close()
        sys.unraisablehook = hook
        for number, handler in previous.items():
            signal.signal(number, handler)


def _leave_in_time(arrived: socket.socket, as_json: bool) -> None:
    """End the process `GRACE` seconds after a signal, whose number arrives, unless the end comes first."""
    with arrived:
        while number := arrived.recv(1):
            if number[0] in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(TimeoutError):
                    arrived.settimeout(GRACE)
                    while arrived.recv(1):  # further signals change nothing
                        pass
                    return
                _leave_by(number[0], as_json)


def _leave_by(number: int, as_json: bool) -> NoReturn:
    """Say that a signal ended the process, and end it."""
    terminated = number == signal.SIGTERM
    kind, message = ("Terminated", "terminated") if terminated else ("Interrupted", "interrupted")
    code = TERMINATED if terminated else INTERRUPTED
    for recorded in _recorded:
        if continuation := recorded():
            kind, message, code = "PausedError", f"{message}; {continuation}", PausedError.exit_code
    _say(kind, message, [], as_json)
    leave_at_once(code)


@contextlib.contextmanager
def recorded_as(continuation: Callable[[], str]) -> Iterator[None]:
    """Within it a process that ends at once exits as a paused run, where there is a `continuation` to say."""
    _recorded.append(continuation)
    try:
        yield
    finally:
        _recorded.remove(continuation)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
