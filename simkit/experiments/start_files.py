"""Files of initial values: a table of numbers, or the result of an earlier run."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from simkit.config.number_table import read_table
from simkit.errors import MissingInputError, OutputError, UnreadableInputError
from simkit.suggestions import did_you_mean, missing_file, shown

ENDINGS = (".csv", ".nc", ".zarr")


class StartFile(Protocol):
    """Columns of numbers by name. `seed` is that of the noise that made them, None for a plain table.

    `paths` is how many there were, of which a run may have stored fewer.
    """

    @property
    def sha256(self) -> str:
        """The hash of the file's bytes; of a directory, of its files' names and bytes in order."""
        ...

    @property
    def seed(self) -> int | None: ...

    @property
    def paths(self) -> int: ...

    def column(self, name: str) -> np.ndarray:
        """The numbers `(rows,)` in float64. Raises `ValueError` that names the place and the value."""
        ...

    def place(self, row: int) -> str:
        """Where a row stands, for messages."""
        ...


def read_start_file(path: Path, name: str, variant: str | None = None) -> StartFile:
    """The file at a path, which messages call `name`.

    Raises `ValueError` when it cannot be read, has no rows or is of another kind. `variant` chooses one of
    the variants of an earlier run.
    """
    if path.suffix not in ENDINGS:
        raise ValueError(f"a file of initial values must end in {', '.join(ENDINGS)}, got {shown(name)}")
    if not path.exists():
        raise MissingInputError(missing_file(path, name))
    if path.suffix == ".csv":
        if variant is not None:
            raise ValueError(f"{name}: variant chooses from the result of a run, and this is a table")
        table = read_table(path, name)
        if "quantity" in table.header and not {"stderr", "halfwidth"}.isdisjoint(table.header):
            raise ValueError(
                f"{name}: holds the statistics of a run, and none of its paths; write the run to .nc or "
                ".zarr with `save: {paths: all}` and begin from that"
            )
        return table
    return _read_result(path, name, variant)


@dataclass(frozen=True)
class _Result:
    """The last saved row of the paths that a run stored."""

    name: str
    sha256: str
    seed: int | None
    paths: int
    ends: Mapping[str, np.ndarray]
    quantities: tuple[str, ...]

    def place(self, row: int) -> str:
        return f"{self.name}: path {row}"

    def column(self, name: str) -> np.ndarray:
        if name not in self.quantities:
            raise ValueError(
                f"{self.name} has no quantity {shown(name)}{did_you_mean(name, self.quantities)}"
            )
        if name not in self.ends:
            message = f"{self.name} holds no paths of {name}; make it again with `save: {{paths: all}}`"
            raise ValueError(message)
        result = self.ends[name]
        broken = np.flatnonzero(~np.isfinite(result))
        if len(broken):
            row = int(broken[0])
            raise ValueError(f"{self.place(row)}: {name} must be finite, got {result[row]}")
        return result


def _read_result(path: Path, name: str, variant: str | None) -> _Result:
    from simkit.results.storage import contents, read_dataset

    try:
        dataset: Any = read_dataset(path)
    except OutputError as error:
        raise UnreadableInputError(str(error).replace(str(path), name, 1)) from None
    if "simkit_kind" in dataset.attrs:
        raise ValueError(
            f"{name} holds {contents(dataset)}, not paths of a model; give the dataset under `output` of a "
            "run with a model"
        )
    names = [str(x) for x in dataset["variant"].values] if "variant" in dataset.dims else []
    if variant is not None and variant not in names:
        hint = did_you_mean(variant, names) if names else "; it is the result of a run without variants"
        raise ValueError(f"{name} has no variant {shown(variant)}{hint}")
    if names and variant is None:
        raise ValueError(
            f"{name} holds several variants; name one for each variable, as in "
            f"{{file: {name}, variant: {names[0]}}}"
        )
    if variant is not None:
        from simkit.results.variants import one_variant

        dataset = one_variant(dataset, variant)
    attributes = dataset.attrs
    quantities = (*attributes["state_variables"].split(), *attributes["observables"].split())
    ends = {}
    for quantity in quantities:
        stored = dataset.get(f"{quantity}_path")
        if stored is not None and stored.sizes["path"] > 0:
            last = stored.isel(time=-1) if "time" in stored.dims else stored
            ends[quantity] = np.asarray(last.values, np.float64)
    seed = int(attributes["seed"]) if attributes["kind"] in ("sde", "jump") else None
    return _Result(name, digest_of(path), seed, int(attributes["paths"]), ends, quantities)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, or of all files in a folder with their names."""
    result = hashlib.sha256()
    if path.is_file():
        result.update(path.read_bytes())
    for part in sorted(path.rglob("*")) if path.is_dir() else ():
        if part.is_file():
            result.update(f"{part.relative_to(path).as_posix()}\0{part.stat().st_size}\0".encode())
            result.update(part.read_bytes())
    return result.hexdigest()
