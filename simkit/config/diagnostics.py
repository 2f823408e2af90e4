"""The errors in an experiment, collected and raised together."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from simkit.config.documents import Document, KeyPath
from simkit.errors import InputError, MissingInputError, UnreadableInputError, input_error
from simkit.suggestions import shown


class SettingError(Exception):
    """One thing that is wrong with the value at a key path, or with the key; `Diagnostics` collect it."""

    def __init__(self, path: KeyPath, message: str, *, at_key: bool = False):
        super().__init__(message)
        self.path, self.at_key = path, at_key


class Diagnostics:
    """Collects `file:line:column: key: message` lines for one document.

    Whoever checks several things adds what is wrong and goes on; whoever can go no further raises a
    `SettingError`, which ends the part of the work that is done within `collecting`. What was wrong with the
    text of the document is there from the start, unless `with_text` is not set.
    """

    def __init__(self, document: Document, *, with_text: bool = True):
        self.document = document
        self.entries: list[tuple[KeyPath, tuple[float, float], str]] = []
        self.unread: dict[KeyPath, type[InputError]] = {}  # where only a file could not be read
        self.missing: set[KeyPath] = set()
        for (line, column), path, message in document.diagnostics if with_text else ():
            if line:
                self._keep(path, (line, column), self._file_place(line, column), message)
            else:  # from Python or an option
                self.add(path, message)

    def add(
        self, path: KeyPath, message: str, *, at_key: bool = False, cause: BaseException | None = None
    ) -> None:
        """Add an error in the value at `path`, or in the key itself; `cause` is what it came from."""
        path = self._existing(path)
        if isinstance(cause, OSError):
            missing = isinstance(cause, FileNotFoundError)
            self.unread[path] = MissingInputError if missing else UnreadableInputError
        for length in range(len(path), -1, -1):
            part = path[:length]
            if part in self.document.options:
                option = self.document.options[part]
                _, _, named = option.partition(
                    " "
                )  # after --set or override; others name a part of their own
                hide = key_text(path) == named if named else True
                self._keep(path, (float("inf"), 0), option, message, hide)
                return
            marks = self.document.keys if at_key else self.document.values
            mark = marks.get(part) or self.document.values.get(part)
            if mark:
                self._keep(path, mark, self._file_place(*mark), message)
                return
        self._keep(path, (0, 0), "", message)

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Within it a `SettingError` is collected, and ends the block."""
        try:
            yield
        except SettingError as error:
            self.add(error.path, str(error), at_key=error.at_key, cause=error.__cause__)

    def remark(self, path: KeyPath, message: str, *, at_key: bool = False) -> None:
        """Say something of the value at `path`, or of the key, which does not stop the run."""
        remarks = Diagnostics(self.document, with_text=False)
        remarks.add(path, message, at_key=at_key)
        self.document.remarks += [line for _, _, line in remarks.entries]

    def add_missing(self, path: KeyPath, message: str) -> None:
        """Add that something is not there, unless it was there and has been complained about."""
        if not self.at_or_below(path):
            self.add(path, message, at_key=True)
            self.missing.add(path)

    def add_covered(self, path: KeyPath, by: KeyPath) -> None:
        """Add that `path` is wrong, too, and that the message about another one says so."""
        place, message = next((place, message) for known, place, message in self.entries if known == by)
        self.entries.append((path, place, message))

    def at(self, path: KeyPath) -> bool:
        """Whether something is wrong with this very key."""
        return any(known == path for known, _, _ in self.entries)

    def at_or_below(self, path: KeyPath) -> bool:
        """Whether anything is known to be wrong at a path or inside it."""
        return any(known[: len(path)] == path for known, _, _ in self.entries)

    def raise_if_any(self) -> None:
        """Raise one `InputError` with every error, in the order of the file."""
        if self.entries:
            causes = [entry for entry in self.entries if not self._follows(*entry)]
            lines = [line for _, _, line in sorted(causes, key=lambda entry: entry[1])]
            kinds = {self.unread.get(path, InputError) for path, _, _ in causes}
            raise input_error(list(dict.fromkeys(lines)), kinds)

    def written(self, *path: str | int) -> dict[str, Any]:
        """What stands at a path of the document, empty where that is no mapping."""
        value: Any = self.document.data
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def _follows(self, path: KeyPath, place: Any, line: str) -> bool:
        """Whether an error only follows from that of another key, which has the wrong name or place.

        It says that a key is missing for which the other was given, or that a name is unknown which the other
        would have defined.
        """
        if path in self.missing:
            meant = re.compile(rf"(write|did you mean) '?{re.escape(str(path[-1]))}\b")
            others = [text for at, _, text in self.entries if at[:-1] == path[:-1] and at != path]
            return any(map(meant.search, others))
        unknown = re.search(r"unknown name '(\w+)'", line)
        strays = [at for at, _, text in self.entries if ": unknown key" in text] if unknown else []
        return any(unknown[1] == at[-1] or unknown[1] in self.written(*at) for at in strays if unknown and at)

    def _existing(self, path: KeyPath) -> KeyPath:
        """The path without a last key that a shorthand leaves out: `solver` for `solver.type`."""
        value: Any = self.document.data
        part: Any
        for i, part in enumerate(path):
            keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
            if part in keys:
                value = value[part]
            elif isinstance(value, dict | list) or value is None:
                return path
            else:
                return path[:i]
        return path

    def _file_place(self, line: int, column: int) -> str:
        return f"{self.document.name}:{line}:{column}" if self.document.name else ""

    def _keep(self, path: KeyPath, order, place: str, message: str, hide: bool = False) -> None:
        key = "" if hide else key_text(path[:-1] if _names_last_key(message, path) else path)
        self.entries.append((path, order, ": ".join(part for part in (place, key, message) if part)))


@contextlib.contextmanager
def placed(document: Document) -> Iterator[None]:
    """Within it an `InputError` of the form `key: message` gets the place of that key in the document."""
    try:
        yield
    except InputError as error:
        diagnostics = Diagnostics(document, with_text=False)
        for problem in error.problems:
            key, _, message = problem.partition(": ")
            path = tuple(key.split("."))
            diagnostics.add(*((path, message) if _leads_somewhere(document.data, path) else ((), problem)))
        diagnostics.raise_if_any()


def _leads_somewhere(data: Any, path: KeyPath) -> bool:
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _names_last_key(message: str, path: KeyPath) -> bool:
    """Whether a message begins with the last key of a path in quotes, as the path itself would end."""
    if not path or not isinstance(path[-1], str):
        return False
    quoted = shown(path[-1])
    return message.startswith(f"{quoted} ") and key_text(path[-1:]) == quoted


def key_text(path: KeyPath) -> str:
    """A key path as it is written in messages: `observe.call.exact`, `save.quantiles[2]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if re.fullmatch(r"[\w-]{1,60}", part) else shown(part))
    return text
