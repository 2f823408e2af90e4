"""Curves in CSV files."""

import csv
import math
import re
from pathlib import Path

from simkit.settings import NUMBER_TEXT
from simkit.suggestion import did_you_mean, shown

MAX_ROWS = 9000  # an experiment with its curves written out has at most 20 000 values
MAX_BYTES = 10_000_000
DELIMITERS = ",;\t"


class CurveFileError(ValueError):
    """What is wrong with a file of numbers, with the line where it is."""


def read_columns(path: Path, names: tuple[str, ...]) -> list[list[float]]:
    """The numbers of the named columns, from the line below the header on.

    Columns are separated by commas, semicolons or tabs, whichever the header has most of; empty lines, and
    lines that begin with #, are left out. Raises `CurveFileError`.
    """
    lines = _lines(path)
    header = next(((number, line) for number, line in lines if line), None)
    if header is None:
        raise CurveFileError(f"{path}: is empty; the first line must name the columns")
    delimiter = max(DELIMITERS, key=header[1].count)
    columns = [cell.strip() for cell in next(csv.reader([header[1]], delimiter=delimiter))]
    places = []
    for name in names:
        if columns.count(name) != 1:
            problem = f"has no column {shown(name)}" if name not in columns else f"names {shown(name)} twice"
            hint = did_you_mean(name, columns) if name not in columns else ""
            raise CurveFileError(f"{path}, line {header[0]}: {problem}{hint}")
        places.append(columns.index(name))
    found: list[list[float]] = [[] for _ in names]
    for number, line in lines:
        if number <= header[0] or not line:
            continue
        cells = next(csv.reader([line], delimiter=delimiter))
        if len(cells) != len(columns):
            raise CurveFileError(
                f"{path}, line {number}: has {len(cells)} cells and the header {len(columns)}"
            )
        for column, name, place in zip(found, names, places, strict=True):
            column.append(_number(path, number, name, cells[place].strip()))
        if len(found[0]) > MAX_ROWS:
            raise CurveFileError(f"{path}: has more than {MAX_ROWS} rows; leave out some of them")
    if not found[0]:
        raise CurveFileError(f"{path}: has a header and no numbers below it")
    return found


def _lines(path: Path) -> list[tuple[int, str]]:
    """The lines with their numbers, comments as empty ones."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise CurveFileError(f"{path}: no such file") from None
    except OSError as error:
        raise CurveFileError(f"{path}: {error.strerror}") from error
    except ValueError:
        raise CurveFileError(f"{str(path)!a}: not a file name") from None
    if len(content) > MAX_BYTES:
        raise CurveFileError(f"{path}: has more than {MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CurveFileError(f"{path}, line {line}: is not UTF-8; save the file as UTF-8") from None
    stripped = (line.strip(" \r") for line in re.split(r"\r\n|\n|\r", text))
    return [(i, "" if line.startswith("#") else line) for i, line in enumerate(stripped, 1)]


def _number(path: Path, line: int, name: str, text: str) -> float:
    if not NUMBER_TEXT.fullmatch(text):
        what = f"got {shown(text)}" if text else "and the cell is empty"
        raise CurveFileError(f"{path}, line {line}, column {name}: must be a number, {what}")
    value = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(value):
        raise CurveFileError(f"{path}, line {line}, column {name}: must be finite, got {text}")
    return value
