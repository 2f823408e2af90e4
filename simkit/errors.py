"""What can go wrong, each with the exit code that the command line returns for it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import ClassVar

INTERRUPTED = 130  # the shell's convention: 128 + SIGINT


class SimkitError(Exception):
    """Anything that simkit refuses or fails at, with a message meant for the user."""

    exit_code: ClassVar[int] = 1


class InputError(SimkitError, ValueError):
    """The experiment, an option or a name is wrong. Nothing has been run.

    `problems` has one line for each error, such as `gbm.yaml:6:10: model.sigma: must be > 0`; the message
    has all of them.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": -0.2},
    ...     "initial": {"S": 100.0},
    ...     "time": {"t1": 1.0, "steps": 10},
    ... }
    >>> try:
    ...     simkit.load(experiment)
    ... except simkit.InputError as error:
    ...     print(error.problems)
    ['model.sigma: must be >= 0, got -0.2']
    """

    exit_code = 2
    problems: list[str]

    def __init__(self, problems: str | Iterable[str]):
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self):
        return type(self), (self.problems,)


class NumericalError(SimkitError, RuntimeError):
    """A path became NaN or infinite, or an iteration did not converge.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"ode": {"x": "x**2"}},
    ...     "initial": {"x": 1.0},
    ...     "solver": "Euler",
    ...     "time": {"t1": 9.0, "steps": 99},
    ... }
    >>> try:
    ...     simkit.run(experiment)
    ... except simkit.NumericalError as error:
    ...     print(str(error).partition(". ")[0])
    path 0: x = inf at t = 2.09091 (step 23 of 99)
    """

    exit_code = 3


class OutputError(SimkitError, OSError):
    """A file could not be read or written. An existing file is unchanged.

    >>> import simkit
    >>> try:
    ...     simkit.read_dataset("missing.zarr")
    ... except simkit.OutputError as error:
    ...     print(error)
    missing.zarr: no such file; it is looked for in the working directory
    """

    exit_code = 4


class OutOfMemoryError(SimkitError, MemoryError):
    """A run needs more memory than this process may take.

    >>> import simkit
    >>> issubclass(simkit.OutOfMemoryError, MemoryError)
    True
    """

    exit_code = 4


class MissingFileError(OutputError, FileNotFoundError):
    """A file to be read does not exist."""


class UnreadableInputError(InputError, OutputError):
    """A file that the experiment names cannot be read; nothing else is wrong."""

    exit_code = 4


class MissingInputError(UnreadableInputError, MissingFileError):
    """A file that the experiment names does not exist; nothing else is wrong."""


def input_error(problems: Iterable[str], kinds: Collection[type[InputError]]) -> InputError:
    """One error for problems of these kinds: of their kind if they have one in common."""
    for kind in (MissingInputError, UnreadableInputError):
        if all(issubclass(each, kind) for each in kinds):
            return kind(problems)
    return InputError(problems)


class ClusterError(SimkitError):
    """A cluster does not answer, has no workers, or its workers end or fail.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "time": {"t1": 1.0, "steps": 10},
    ...     "cluster": {"address": "tcp://127.0.0.1:9", "timeout": 0.5},
    ... }
    >>> try:
    ...     simkit.run(experiment)
    ... except simkit.ClusterError as error:
    ...     print(str(error).partition(":")[0])
    cluster
    """

    exit_code = 69  # of sysexits.h: a service is unavailable


class PausedError(SimkitError):
    """A run was stopped, and its record allows another process to finish it with `--resume`."""

    exit_code = 75  # of sysexits.h: try again later


class UnresolvedWarning(UserWarning):
    """The steps are so long that a mean or a derivative is no larger than its step bias: it is no result.

    >>> import warnings
    >>> import simkit
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", simkit.UnresolvedWarning)  # stop at such a mean
    """


def levels_to_caller() -> int:
    """The `stacklevel` of a warning, so that it names the line that calls simkit."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _is_inside(module: str) -> bool:
    return module.startswith(("simkit.", "contextlib"))
