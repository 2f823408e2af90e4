"""Tables of numbers in CSV files."""

import csv
import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simkit.errors import MissingInputError, UnreadableInputError
from simkit.suggestions import did_you_mean, missing_file, shown, without_commas

DELIMITERS = ",;\t"


@dataclass(frozen=True)
class NumberTable:
    """A table as it was read: `rows` are its lines' numbers and cells. Messages call the file `name`."""

    name: str
    sha256: str
    header: tuple[str, ...]
    rows: tuple[tuple[int, list[str]], ...]

    @property
    def seed(self) -> int | None:
        """No noise made it."""
        return None

    @property
    def paths(self) -> int:
        """All its rows."""
        return len(self.rows)

    def place(self, row: int) -> str:
        """The line of a row, for messages."""
        return f"{self.name}:{self.rows[row][0]}"

    def column(self, name: str) -> np.ndarray:
        """The numbers of a column. Raises `ValueError` that names the place and the value."""
        if name not in self.header:
            raise ValueError(f"{self.name} has no column {shown(name)}{did_you_mean(name, self.header)}")
        position = self.header.index(name)
        result = np.empty(len(self.rows))
        for row, (_, cells) in enumerate(self.rows):
            result[row] = _number(cells[position])
            if not math.isfinite(result[row]):
                cell = cells[position].strip()
                got = shown(cell) if cell else "nothing"
                raise ValueError(
                    f"{self.place(row)}: column {name}: must be a finite number, got {got}"
                    f"{without_commas(cell)}"
                )
        return result


def read_table(path: Path, name: str) -> NumberTable:
    """The table at a path, which messages call `name`.

    The first line names the columns, which commas, semicolons or tabs separate, whichever it has most of.
    Empty lines, and lines that begin with #, are left out. Raises `ValueError` when the file cannot be read
    or is no such table.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise MissingInputError(missing_file(path, name)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}:{line}: is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise UnreadableInputError(f"{name}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{name!a}: not a file name") from None
    lines = ((i, line.strip(" \r")) for i, line in enumerate(re.split(r"\r\n|\n|\r", text), 1))
    lines = [(i, line) for i, line in lines if line and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{name}: is empty; its first line names the columns")
    delimiter = max(DELIMITERS, key=lines[0][1].count)
    (first, header), *rows = [(i, _cells(name, i, line, delimiter)) for i, line in lines]
    names = tuple(cell.strip() for cell in header)
    for number, title in enumerate(names):
        if not math.isnan(_number(title)):
            raise ValueError(f"{name}:{first}: the first line must name the columns, got {title}")
        if title in names[:number]:
            raise ValueError(f"{name}:{first}: two columns are called {shown(title)}")
    rows = [(line, cells) for line, cells in rows if any(cell.strip() for cell in cells)]
    if not rows:
        raise ValueError(f"{name}: has no row below the names of its columns")
    for line, cells in rows:
        if len(cells) != len(names):
            kind = {",": "commas", ";": "semicolons", "\t": "tabs"}[delimiter]
            message = f"{name}:{line}: must have {len(names)} values separated by {kind}, got {len(cells)}"
            if delimiter == "," and len(cells) > len(names):
                message += "; where commas separate columns, write decimal points"
            raise ValueError(message)
    return NumberTable(name, hashlib.sha256(content).hexdigest(), names, tuple(rows))


def _cells(name: str, line: int, text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"{name}:{line}: {error}") from None


def _number(text: str) -> float:
    """The number that a cell holds, NaN where it holds none."""
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_0 as ten
    except ValueError:
        return math.nan
