"""A frame: particles as files hold them, in plain NumPy."""

import dataclasses
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float, Int

from simkit.errors import InputError, MissingFileError, OutputError

MAX_BYTES = 8_000_000_000


class Cell(NamedTuple):
    """A periodic box with the vectors (lx, 0, 0), (xy, ly, 0) and (xz, yz, lz)."""

    sides: tuple[float, float, float]
    tilts: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def vectors(self) -> np.ndarray:
        """The box vectors as rows."""
        (lx, ly, lz), (xy, xz, yz) = self.sides, self.tilts
        return np.array([[lx, 0, 0], [xy, ly, 0], [xz, yz, lz]])

    @staticmethod
    def of_vectors(vectors: Float[np.ndarray, "3 3"]) -> "Cell":
        """The box with these vectors; raises `ValueError` where they are not of that form."""
        if np.any(np.diagonal(vectors) <= 0) or np.any(vectors[np.triu_indices(3, 1)]):
            raise ValueError(
                "the box vectors must be (lx, 0, 0), (xy, ly, 0), (xz, yz, lz) with positive lx, ly and lz; "
                "rotate the box"
            )
        (lx, _, _), (xy, ly, _), (xz, yz, lz) = vectors.tolist()
        return Cell((lx, ly, lz), (xy, xz, yz))


@dataclasses.dataclass(frozen=True)
class Frame:
    """Particles at one time: places, species by number with their names, and what else the file says.

    `cell` is `None` in free space. `masses` are by species.
    """

    positions: Float[np.ndarray, "particles 3"]
    species: Int[np.ndarray, " particles"]
    names: tuple[str, ...]
    cell: Cell | None
    velocities: Float[np.ndarray, "particles 3"] | None = None
    masses: dict[str, float] = dataclasses.field(default_factory=dict)


class Lines:
    """The lines of a file, with the number of the last one for messages."""

    def __init__(self, path: Path):
        self.path, self.number = path, 0
        try:
            if path.stat().st_size > MAX_BYTES:
                raise InputError(f"{path}: is larger than {MAX_BYTES:,} bytes")
            self.lines = path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            raise MissingFileError(f"{path}: no such file") from None
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise InputError(f"{path}: is not a text file") from None

    @property
    def more(self) -> bool:
        return self.number < len(self.lines)

    def next(self) -> str:
        if not self.more:
            self.fail("the file ends too early")
        self.number += 1
        return self.lines[self.number - 1]

    def table(self, rows: int, what: str) -> list[list[str]]:
        """The words of the next lines."""
        if self.number + rows > len(self.lines):
            self.fail(f"the file ends before its {rows} {what}")
        words = [line.split() for line in self.lines[self.number : self.number + rows]]
        self.number += rows
        return words

    def fail(self, message: str) -> NoReturn:
        raise InputError(f"{self.path}:{self.number}: {message}")


def numbers(lines: Lines, words: list[list[str]], columns: slice, what: str) -> np.ndarray:
    """Some columns of a table as numbers; an error names the line of the first that is none."""
    first = lines.number - len(words)
    try:
        values = np.array([row[columns] for row in words], float)
    except ValueError:
        values = None
    if values is None or values.ndim != 2 or not np.all(np.isfinite(values)):
        width = len(words[0][columns])
        for i, row in enumerate(words):
            lines.number = first + i + 1
            if len(row[columns]) != width:
                lines.fail(f"{what}: expected {width} numbers, got {len(row[columns])}")
            for word in row[columns]:
                if not _is_finite(word):
                    lines.fail(f"{what}: {word!r} is not a finite number")
        lines.fail(f"{what}: cannot be read")
    return values


def _is_finite(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False
