"""An ensemble in parts, each in a file of its own, and what makes one result of them."""

import dataclasses
import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simkit.ensemble.accumulator import Accumulator
from simkit.ensemble.chunks import LEAF, Chunk, Chunks
from simkit.ensemble.over_chunks import Progress
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError, OutputError
from simkit.progress import counted
from simkit.records import record_file
from simkit.records.record_file import Record
from simkit.records.same_run import differences
from simkit.suggestions import shown

PART = "part"  # its key among what identifies a run
EVEN = 16  # parts differ in size by one of so many pieces, where there are enough paths


@dataclasses.dataclass(frozen=True, order=True)
class EnsemblePart:
    """The part `number`, from 1 on, of `count`."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def of(cls, text: str) -> "EnsemblePart":
        """The part that a text such as 3/16 names. Raises `InputError`."""
        parts = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if parts is None or not 1 <= int(parts[1]) <= int(parts[2]):
            raise InputError(
                f"--part: must be a part and how many there are, such as 3/16 or 16/16, got {shown(text)}"
            )
        return cls(int(parts[1]), int(parts[2]))

    def paths_of(self, simulation: Simulation) -> range:
        """Its paths. Raises `InputError` where there are more parts than leaves of paths.

        It begins at a multiple of a power of two leaves, so that chunks need not end within it.
        """
        leaves = -(-simulation.paths // LEAF)
        if self.count > leaves:
            raise InputError(
                f"--part {self}: {simulation.paths:,} paths are simulated in {counted(leaves, 'block')} of "
                f"{LEAF}, and a part has one at least; give fewer parts"
            )
        piece = 1 << max(1, leaves // (EVEN * self.count)).bit_length() - 1
        pieces = -(-leaves // piece)
        ends = [number * pieces // self.count * piece * LEAF for number in (self.number - 1, self.number)]
        return range(ends[0], min(ends[1], simulation.paths))

    def file_of(self, target: Path) -> Path:
        """Its file, beside the dataset that all parts together give."""
        digits = len(str(self.count))
        return target.with_name(f"{target.name}.part-{self.number:0{digits}}-of-{self.count}")


@dataclasses.dataclass(frozen=True)
class Joined:
    """All paths of one simulation after another, from their parts: of each part its paths and states."""

    simulations: Iterator[list[tuple[EnsemblePart, Any]]]

    def __call__(
        self, simulation: Simulation, accumulator: Accumulator, plan: Chunks, progress: Progress | None
    ) -> float:
        seconds_of_all = 0.0
        for part, (state, seconds) in next(self.simulations):
            paths = part.paths_of(simulation)
            accumulator.join(Chunk(0, paths.start, len(paths), plan.leaves, plan.lanes), state)
            seconds_of_all += seconds
        return seconds_of_all


def write_part(file: Path, identity: Mapping[str, str], part: EnsemblePart, states: list[Any]) -> None:
    """Write what a part of a run of this identity has given. Raises `OutputError`."""
    try:
        record_file.write(file, Record({**identity, PART: str(part)}, states))
        record_file.keep_only(file)
    except OSError as error:
        raise OutputError(f"{file}: cannot be written ({error.strerror or error})") from error


def check_part(file: Path, identity: Mapping[str, str], part: EnsemblePart) -> None:
    """Raise `OutputError` where a file is damaged, `InputError` where it is not this part of this run."""
    record, spoilt = record_file.read(file)
    if record is None:
        raise OutputError("; ".join([*spoilt, "to run this part anew use --overwrite"]))
    if other := differences(record.identity, {**identity, PART: str(part)}, "there", "here"):
        raise InputError([f"{file}: is of another run; to start anew use --overwrite", *other])


def parts_beside(target: Path) -> list[Path]:
    """The files of parts of a dataset."""
    found = target.parent.glob(f"{glob.escape(target.name)}.part-*-of-*")
    return sorted(file for file in found if re.search(r"\.part-\d+-of-\d+$", file.name))


def read_parts(files: Sequence[Path], identity: Mapping[str, str]) -> list[list[tuple[EnsemblePart, Any]]]:
    """The states in files of parts, of one simulation after another, each in the order of their paths.

    Raises `InputError` unless they are all parts of one run of this identity, each once, and `OutputError`
    where a file cannot be read.
    """
    parts: dict[EnsemblePart, tuple[Path, list[Any]]] = {}
    problems = []
    for file in files:
        record, spoilt = record_file.read(file)
        if record is None:
            raise OutputError("; ".join(spoilt) or f"{file}: no such file")
        found = dict(record.identity)
        if PART not in found:
            raise InputError(f"{file}: is the record of a whole run, and no part; `--resume` goes on with it")
        part = EnsemblePart.of(found.pop(PART, ""))
        if other := differences(found, identity, "there", "here"):
            problems += [f"{file}: is a part of another run", *other]
        elif part in parts:
            problems.append(f"{file}: is part {part}, as {parts[part][0]} is; give one of them")
        parts[part] = file, record.content
    counts = sorted({part.count for part in parts})
    if len(counts) > 1:
        every = " and ".join(map(str, counts))
        problems.append(f"there are parts of {every}, which overlap; give those of one of them")
    elif counts:
        missing = [EnsemblePart(number, counts[0]) for number in range(1, counts[0] + 1)]
        missing = [str(part) for part in missing if part not in parts]
        if missing:
            named = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
            problems.append(f"these parts are missing: {named}; run them with --part {missing[0]}")
    if problems:
        raise InputError(problems)
    ordered = sorted(parts)
    return [
        [*zip(ordered, states, strict=True)]
        for states in zip(*(parts[part][1] for part in ordered), strict=True)
    ]
