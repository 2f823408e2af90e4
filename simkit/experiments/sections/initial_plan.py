"""From the `initial` section to initial values as functions of the constants."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import Document, KeyPath
from simkit.config.settings import Ensemble, FromFile, Initial, PerPath, RandomValue
from simkit.distributions.distribution import DRAWN, AbstractDrawn
from simkit.distributions.plain import by_name
from simkit.ensemble.initial import PathValues
from simkit.experiments.constants import Constants
from simkit.experiments.indexed_names import places, written_out
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.experiments.start_files import StartFile, read_start_file
from simkit.expressions import Expression, compile_expression
from simkit.suggestions import did_you_mean

ALL_OTHERS = "file"  # the key next to the variables: a file for those that are not given
INLINE = 64  # values of paths from files: more are not written into the resolved configuration


@dataclasses.dataclass(frozen=True)
class Origin:
    """The column of a file that an initial value was read from."""

    section: FromFile
    file: StartFile
    numbers: np.ndarray


@dataclasses.dataclass(frozen=True)
class InitialValue:
    """An initial value: one number, those of a distribution by name, or one for each path.

    `places` are where the numbers of a distribution stand in the file.
    """

    kind: type[AbstractDrawn] | None
    numbers: tuple[Expression, ...]
    rows: PathValues | None = None
    origin: Origin | None = None
    places: Mapping[str, KeyPath] = dataclasses.field(default_factory=dict)

    def bound(self, constants: Mapping[str, Any]) -> Any:
        """The number or distribution for other constants."""
        if self.rows is not None:
            return self.rows
        values = [number(constants) for number in self.numbers]
        return self.kind.of_numbers(**dict(zip(self.places, values, strict=True))) if self.kind else values[0]

    def place(self, row: int) -> str:
        """Where a row's number stands in a file, to begin a message with."""
        return "" if self.origin is None else f"{self.origin.file.place(row)}: "


class StartFiles:
    """The files of one experiment, each read once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.read: dict[tuple[str, str | None], StartFile] = {}

    def column(self, section: FromFile, variable: str, path: KeyPath) -> Origin:
        """The numbers that a section at a path names."""
        key = section.file, section.variant
        try:
            if key not in self.read:
                where = self.folder / section.file
                self.read[key] = read_start_file(where, section.file, section.variant)
            file = self.read[key]
            if section.sha256 not in (None, file.sha256):
                raise ValueError(
                    f"{section.file} is not the file that the run began from: its sha256 is {file.sha256}; "
                    "find that file, or remove sha256"
                )
            return Origin(section, file, file.column(section.column or variable))
        except ValueError as error:
            raise SettingError(path, str(error)) from error


def plan_initial(
    section: dict[str, Initial] | None, plan: ModelPlan | None, constants: Constants
) -> dict[str, InitialValue]:
    """The initial values that are right, in the order of the model's variables."""
    result: dict[str, InitialValue] = {}
    diagnostics = constants.diagnostics
    files = StartFiles(diagnostics.document.folder)
    given, others = _without_file(section or {})
    where = places(given, () if plan is None else plan.variables)
    if plan is not None:
        given = written_out(given, plan.variables, ("initial",), diagnostics)
    for name, value in given.items():
        path = ("initial", *where[name])
        if plan is not None and name not in plan.variables:
            rest = [known for known in plan.variables if known not in given]
            hint = did_you_mean(name, rest or plan.variables)
            if diagnostics.written("model", "reactions") and "mean" not in hint:
                hint += (
                    "; species are those in the equations, and one that no reaction changes stands on both "
                    f"sides: {name} -> {name} + X"
                )
            diagnostics.add(path, f"unknown variable of the model{hint}", at_key=True)
        with diagnostics.collecting():
            initial = _initial_value(name, value, path, constants, files)
            if initial is not None:
                result[name] = initial
    if plan is None or section is None:
        return result
    for name in plan.variables:
        if name in given or name in where:
            continue
        if others is None:
            diagnostics.add_missing(("initial", name), f"is missing; the value of {name} at t0")
            continue
        with diagnostics.collecting():
            result[name] = _from_file(name, FromFile(file=others), ("initial", ALL_OTHERS), files)
    return {name: result[name] for name in plan.variables if name in result}


def starts_per_path(section: Mapping[str, Initial]) -> bool:
    """Whether the number of paths may follow from the initial values."""
    return _without_file(section)[1] is not None or any(
        isinstance(value, FromFile | PerPath) for value in section.values()
    )


def plan_paths(ensemble: Ensemble, initial: Mapping[str, InitialValue], default: int | None) -> Ensemble:
    """The ensemble with its number of paths, which a number of rows must divide and is the default of.

    Without a default it stays without a number of paths. The stored paths of a run do not stand
    for all of its paths.
    """
    for name, value in initial.items():
        origin = value.origin
        stored = 0 if origin is None else len(origin.numbers)
        wanted = ensemble.paths
        if origin is not None and stored < origin.file.paths and (wanted is None or wanted > stored):
            message = (
                f"{origin.section.file} holds {stored} of the {origin.file.paths} paths; make it again with "
                f"`save: {{paths: all}}`, or begin from these with `ensemble: {{paths: {stored}}}`"
            )
            raise SettingError(("initial", name), message)
    rows = {name: len(value.rows.numbers) for name, value in initial.items() if value.rows is not None}
    if ensemble.paths is None:
        if default is None:
            return ensemble
        return ensemble.model_copy(update={"paths": math.lcm(*rows.values()) if rows else default})
    for name, count in rows.items():
        if ensemble.paths % count:
            below = ensemble.paths // count * count
            choices = " or ".join(str(n) for n in (below, below + count) if n)
            message = (
                f"{ensemble.paths} is not a multiple of the {count} initial values of {name}; use {choices}"
            )
            raise SettingError(("ensemble", "paths"), message)
    return ensemble


def refuse_seed(ensemble: Ensemble, initial: Mapping[str, InitialValue]) -> None:
    """Raise `SettingError` for the seed of the run that made the initial values, whose noise would return."""
    for value in initial.values():
        if value.origin is not None and value.origin.file.seed == ensemble.seed:
            message = (
                f"{ensemble.seed} is also the seed of {value.origin.section.file}: these paths would meet "
                "the noise that made their initial values; choose another seed"
            )
            raise SettingError(("ensemble", "seed"), message)


def resolved_initial(
    section: Mapping[str, Initial], planned: Mapping[str, InitialValue]
) -> dict[str, Initial]:
    """The section with what was read from files: numbers where they are few, else columns and checksums."""
    origins = {name: value.origin for name, value in planned.items() if value.origin is not None}
    many = {name: origin for name, origin in origins.items() if len(origin.numbers) > 1}
    short = sum(len(origin.numbers) for origin in many.values()) <= INLINE
    given = written_out(_without_file(section)[0], planned.keys(), ("initial",), Diagnostics(Document({})))
    result: dict[str, Initial] = {}
    for name in planned:
        origin = origins.get(name)
        if origin is None:
            result[name] = given[name]
        elif name not in many:
            result[name] = float(origin.numbers[0])
        elif short:
            result[name] = PerPath(values=origin.numbers.tolist())
        else:
            column = origin.section.column or name
            result[name] = origin.section.model_copy(update={"column": column, "sha256": origin.file.sha256})
    return result


def _without_file(section: Mapping[str, Initial]) -> tuple[dict[str, Initial], str | None]:
    """The variables' own entries, and the file for all others if there is one."""
    others = section.get(ALL_OTHERS)
    if not isinstance(others, str):
        return dict(section), None
    return {name: value for name, value in section.items() if name != ALL_OTHERS}, others


def _initial_value(
    name: str, value: Initial, path: KeyPath, constants: Constants, files: StartFiles
) -> InitialValue | None:
    if isinstance(value, FromFile):
        return _from_file(name, value, path, files)
    if isinstance(value, list):  # of a model that is not known
        return None
    if isinstance(value, PerPath):
        return _of_rows(np.asarray(value.values), None)
    if isinstance(value, RandomValue):
        return _drawn(value, path, constants)
    number = constants.number(path, value)
    return None if number is None else InitialValue(None, (number[0],))


def _drawn(section: RandomValue, path: KeyPath, constants: Constants) -> InitialValue | None:
    given = {key: numbers for key, numbers in section if numbers is not None}
    if len(given) != 1:
        *others, last = type(section).model_fields
        constants.diagnostics.add_missing(path, f"must have exactly one of {', '.join(others)} and {last}")
        return None
    ((key, written),) = given.items()
    path = (*path, key)
    try:
        texts = by_name(key, written)
        listed = isinstance(written, list)
        places: dict[str, KeyPath] = {x: (*path, i if listed else x) for i, x in enumerate(texts)}
        numbers = [constants.number(places[name], text) for name, text in texts.items()]
        expressions = tuple(number[0] for number in numbers if number is not None)
        if len(expressions) < len(numbers):
            return None
        initial = InitialValue(DRAWN[key], expressions, places=places)
        initial.bound(constants.values)
    except ValueError as error:
        raise SettingError(path, str(error).removeprefix(f"{key}: ")) from error
    return initial


def _from_file(name: str, section: FromFile, path: KeyPath, files: StartFiles) -> InitialValue:
    origin = files.column(section, name, path)
    return _of_rows(origin.numbers, origin)


def _of_rows(numbers: np.ndarray, origin: Origin | None) -> InitialValue:
    """One row is a number like any other."""
    if len(numbers) > 1:
        return InitialValue(None, (), PathValues(numbers), origin)
    return InitialValue(None, (compile_expression(float(numbers[0]), ()),), None, origin)
