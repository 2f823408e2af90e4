"""From exceptions to messages and exit codes."""

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Iterator

import typer

from simkit.errors import INTERRUPTED, InputError, SimkitError

TERMINATED = 143  # the shell's convention: 128 + SIGTERM


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would be, so that both leave by the same way."""


@contextlib.contextmanager
def reported(as_json: bool = False) -> Iterator[None]:
    """Run a command's body: what simkit raises becomes a message on stderr and the exit code.

    With `as_json` it also becomes one JSON object on stdout. Anything else is a fault of the program and
    leaves as it came, with its traceback.
    """
    with _terminated_like_interrupted():
        try:
            yield
        except SimkitError as error:
            problems = error.problems if isinstance(error, InputError) else [str(error)]
            _fail(type(error).__name__, str(error), problems, error.exit_code, as_json)
        except Terminated:
            _fail("Terminated", "terminated", [], TERMINATED, as_json)
        except KeyboardInterrupt:
            _fail("Interrupted", "interrupted", [], INTERRUPTED, as_json)
        except Exception as error:
            if as_json:
                print_json({"error": {"kind": type(error).__name__, "message": str(error), "problems": []}})
            raise


def print_json(content: dict) -> None:
    """One object on stdout; a number that JSON does not know is null."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _fail(kind: str, message: str, problems: list[str], code: int, as_json: bool) -> None:
    print(message, file=sys.stderr)
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "problems": problems}})
    raise typer.Exit(code)


@contextlib.contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Within it SIGTERM raises `Terminated`, so that temporary files are removed; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(number, frame):
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
