"""What can go wrong, each with the exit code that the command line returns for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

INTERRUPTED = 130  # the shell's convention: 128 + SIGINT


class SimkitError(Exception):
    """Anything that simkit refuses or fails at, with a message meant for the user."""

    exit_code: ClassVar[int] = 1


class InputError(SimkitError, ValueError):
    """The experiment, an option or a name is wrong. Nothing has been run.

    `problems` has one line for each error, such as `gbm.yaml:6:10: model.sigma: must be > 0`; the message
    has all of them.
    """

    exit_code = 2
    problems: list[str]

    def __init__(self, problems: str | Iterable[str]):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self):
        return type(self), (self.problems,)


class NumericalError(SimkitError, RuntimeError):
    """A path became NaN or infinite, or an iteration did not converge."""

    exit_code = 3


class OutputError(SimkitError, OSError):
    """A file could not be read or written. An existing file is unchanged."""

    exit_code = 4


class OutOfMemoryError(SimkitError, MemoryError):
    """A run needs more memory than this process may take."""

    exit_code = 4


class MissingFileError(OutputError, FileNotFoundError):
    """A file to be read does not exist."""


class UnresolvedWarning(UserWarning):
    """The steps are so long that a mean or a derivative is no larger than its step bias: it is no result."""
