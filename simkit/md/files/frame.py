"""A frame: particles as files hold them, in plain NumPy."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float, Int

from simkit.errors import InputError, MissingFileError, OutputError
from simkit.md.particle_names import FROM_ZERO, ParticleNames
from simkit.suggestions import missing_file

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

    def scaled(self, factor: float) -> "Cell":
        """The box with all lengths times a factor."""
        (lx, ly, lz), (xy, xz, yz) = (np.multiply(factor, each).tolist() for each in self)
        return Cell((lx, ly, lz), (xy, xz, yz))

    @property
    def lengths_and_cosines(self) -> tuple[list[float], list[float]]:
        """The lengths of the box vectors, and the cosines of the angles bc, ac and ab between them."""
        a, b, c = vectors = self.vectors
        lengths = np.linalg.norm(vectors, axis=1)
        cosines = np.array([b @ c, a @ c, a @ b]) / lengths[[1, 0, 0]] / lengths[[2, 2, 1]]
        return lengths.tolist(), cosines.tolist()

    @staticmethod
    def of_lengths_and_angles(lengths: Sequence[float], angles: Sequence[float]) -> "Cell":
        """The box with these lengths of its vectors and angles bc, ac and ab in degrees.

        Raises `ValueError` where there is none.
        """
        (a, b, c), (cos_bc, cos_ac, cos_ab) = lengths, (_cosine(angle) for angle in angles)
        xy, xz = b * cos_ab, c * cos_ac
        ly = math.sqrt(max(b * b - xy * xy, 0))
        yz = (b * c * cos_bc - xy * xz) / ly if ly else 0.0
        square = c * c - xz * xz - yz * yz
        if not (a > 0 and ly > 0 and square > 0):
            shown = ", ".join(f"{x:g}" for x in (*lengths, *angles))
            raise ValueError(f"no box has the lengths and angles {shown}")
        return Cell((a, ly, math.sqrt(square)), (xy, xz, yz))

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

    `cell` is `None` in free space. `masses` are by species. `images` counts box vectors that wrapping has
    taken off. `sizes` are the SI sizes of the units of length and velocity where the format has units of its
    own, and `rounding` is how far its digits may put a particle out of the box, a length. `called` is what
    messages call particles.
    """

    positions: Float[np.ndarray, "particles 3"]
    species: Int[np.ndarray, " particles"]
    names: tuple[str, ...]
    cell: Cell | None
    velocities: Float[np.ndarray, "particles 3"] | None = None
    masses: dict[str, float] = dataclasses.field(default_factory=dict)
    images: Int[np.ndarray, "particles 3"] | None = None
    sizes: tuple[float, float] | None = None
    rounding: float = 0.0
    called: ParticleNames = FROM_ZERO

    def scaled(self, length: float, speed: float) -> "Frame":
        """This frame in other units; `length` and `speed` are the old units in the new ones."""
        return dataclasses.replace(
            self,
            positions=length * self.positions,
            cell=self.cell and self.cell.scaled(length),
            velocities=None if self.velocities is None else speed * self.velocities,
            sizes=None,
            rounding=length * self.rounding,
        )


class Lines:
    """The lines of a file, with the number of the last one for messages."""

    def __init__(self, path: Path):
        self.path, self.number = path, 0
        try:
            if path.stat().st_size > MAX_BYTES:
                raise InputError(f"{path}: is larger than {MAX_BYTES:,} bytes")
            self.lines = path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            raise MissingFileError(missing_file(path)) from None
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
            self.fail(f"the file ends before its {rows} {what}, after {len(self.lines) - self.number}")
        words = [line.split() for line in self.lines[self.number : self.number + rows]]
        self.number += rows
        return words

    def fail(self, message: str) -> NoReturn:
        place = f"{self.path}:{self.number}" if self.number else self.path
        raise InputError(f"{place}: {message}")


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


def _cosine(degrees: float) -> float:
    """Exactly 0 at a right angle."""
    return 0.0 if degrees == 90 else math.cos(math.radians(degrees))


def _is_finite(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False
