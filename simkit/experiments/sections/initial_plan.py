"""From the `initial` section to initial values as functions of the constants."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from simkit.config.diagnostics import Mistakes
from simkit.config.documents import Document, KeyPath
from simkit.config.settings import Ensemble, FromFile, Initial, PerPath, RandomValue
from simkit.ensemble.initial import Distribution, Kind, PathValues
from simkit.experiments.constants import Constants, compiled, evaluated
from simkit.experiments.indexed_names import places, written_out
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.experiments.start_files import StartFile, read_start_file
from simkit.expressions.expression import Expression, compile_expression
from simkit.suggestions import did_you_mean

ALL_OTHERS = "file"  # the key beside the variables: a file for those that are not given
INLINE = 64  # so many values of paths from files at most stand in the resolved configuration themselves


@dataclasses.dataclass(frozen=True)
class Origin:
    """The column of a file that an initial value was read from."""

    section: FromFile
    file: StartFile
    numbers: np.ndarray


@dataclasses.dataclass(frozen=True)
class InitialValue:
    """An initial value: one number, the two of a distribution, or one for each path."""

    kind: Kind | None
    numbers: tuple[Expression, ...]
    rows: PathValues | None = None
    origin: Origin | None = None

    def bound(self, constants: Mapping[str, Any]) -> Any:
        """The number or law for other constants."""
        if self.rows is not None:
            return self.rows
        values = [number(constants) for number in self.numbers]
        return Distribution(self.kind, *values) if self.kind else values[0]

    def place(self, row: int) -> str:
        """Where a row's number stands in a file, to begin a message with."""
        return "" if self.origin is None else f"{self.origin.file.place(row)}: "


class StartFiles:
    """The files of one experiment, each read once."""

    def __init__(self, mistakes: Mistakes):
        self.mistakes = mistakes
        self.read: dict[tuple[str, str | None], StartFile] = {}

    def column(self, section: FromFile, variable: str, path: KeyPath) -> Origin | None:
        """The numbers that a section names; `None` and a mistake where they cannot be had."""
        if section._origin is not None:
            return section._origin
        key = section.file, section.variant
        try:
            if key not in self.read:
                where = self.mistakes.document.folder / section.file
                self.read[key] = read_start_file(where, section.file, section.variant)
            file = self.read[key]
            if section.sha256 not in (None, file.sha256):
                raise ValueError(
                    f"{section.file} is not the file that the run began from: its sha256 is {file.sha256}; "
                    "find that file, or remove sha256"
                )
            return Origin(section, file, file.column(section.column or variable))
        except ValueError as error:
            self.mistakes.add(path, str(error))
            return None


def plan_initial(
    section: dict[str, Initial] | None, plan: ModelPlan | None, constants: Constants, mistakes: Mistakes
) -> dict[str, InitialValue]:
    """The initial values that are right, in the order of the model's variables."""
    found = {}
    files = StartFiles(mistakes)
    given, others = _without_file(section or {})
    where = places(given, () if plan is None else plan.variables)
    if plan is not None:
        given = written_out(given, plan.variables, ("initial",), mistakes)
    for name, value in given.items():
        path = ("initial", *where[name])
        if plan is not None and name not in plan.variables:
            rest = [known for known in plan.variables if known not in given]
            hint = did_you_mean(name, rest or plan.variables)
            mistakes.add(path, f"unknown variable of the model{hint}", at_key=True)
        initial = _initial_value(name, value, path, constants, files, mistakes)
        if initial is not None:
            found[name] = initial
    if plan is None or section is None:
        return found
    for name in plan.variables:
        if name in given or name in where:
            continue
        if others is None:
            mistakes.add_missing(("initial", name), f"is missing; the value of {name} at t0")
            continue
        initial = _from_file(name, FromFile(file=others), ("initial", ALL_OTHERS), files)
        if initial is not None:
            found[name] = initial
    return {name: found[name] for name in plan.variables if name in found}


def starts_per_path(section: Mapping[str, Initial]) -> bool:
    """Whether the number of paths may follow from the initial values."""
    return _without_file(section)[1] is not None or any(
        isinstance(value, FromFile | PerPath) for value in section.values()
    )


def plan_paths(
    ensemble: Ensemble | None, initial: Mapping[str, InitialValue], default: int, mistakes: Mistakes
) -> Ensemble | None:
    """The ensemble with its number of paths, which a number of rows must divide and is the default of.

    A run that stored some of its paths is not taken for all of them.
    """
    for name, value in initial.items():
        origin = value.origin
        stored = 0 if origin is None else len(origin.numbers)
        wanted = None if ensemble is None else ensemble.paths
        if origin is not None and stored < origin.file.paths and (wanted is None or wanted > stored):
            message = (
                f"{origin.section.file} holds {stored} of the {origin.file.paths} paths; make it again with "
                f"`save: {{paths: all}}`, or begin from these with `ensemble: {{paths: {stored}}}`"
            )
            mistakes.add(("initial", name), message)
            return ensemble
    rows = {name: len(value.rows.numbers) for name, value in initial.items() if value.rows is not None}
    if ensemble is None or (ensemble.paths is not None and not rows):
        return ensemble
    if ensemble.paths is None and mistakes.found:
        return ensemble
    if ensemble.paths is None:
        return ensemble.model_copy(update={"paths": math.lcm(*rows.values()) if rows else default})
    for name, count in rows.items():
        if ensemble.paths % count:
            below = ensemble.paths // count * count
            choices = " or ".join(str(n) for n in (below, below + count) if n)
            message = (
                f"{ensemble.paths} is not a multiple of the {count} initial values of {name}; take {choices}"
            )
            mistakes.add(("ensemble", "paths"), message)
            break
    return ensemble


def refuse_seed(
    ensemble: Ensemble | None, initial: Mapping[str, InitialValue], stochastic: bool, mistakes: Mistakes
) -> None:
    """The seed of the run that made the initial values: the noise they depend on would come again."""
    if not stochastic or ensemble is None:
        return
    for value in initial.values():
        if value.origin is not None and value.origin.file.seed == ensemble.seed:
            message = (
                f"{ensemble.seed} is also the seed of {value.origin.section.file}: these paths would meet "
                "the noise that made their initial values; take another seed"
            )
            mistakes.add(("ensemble", "seed"), message)
            return


def resolved_initial(
    section: Mapping[str, Initial], planned: Mapping[str, InitialValue]
) -> dict[str, Initial]:
    """The section with what was read from files: numbers where they are few, else columns and checksums."""
    origins = {name: value.origin for name, value in planned.items() if value.origin is not None}
    many = {name: origin for name, origin in origins.items() if len(origin.numbers) > 1}
    short = sum(len(origin.numbers) for origin in many.values()) <= INLINE
    given = written_out(_without_file(section)[0], planned.keys(), ("initial",), Mistakes(Document({})))
    found: dict[str, Initial] = {}
    for name in planned:
        origin = origins.get(name)
        if origin is None:
            found[name] = given[name]
        elif name not in many:
            found[name] = float(origin.numbers[0])
        elif short:
            found[name] = PerPath(values=origin.numbers.tolist())
        else:
            column = origin.section.column or name
            long = origin.section.model_copy(update={"column": column, "sha256": origin.file.sha256})
            long._origin = origin
            found[name] = long
    return found


def _without_file(section: Mapping[str, Initial]) -> tuple[dict[str, Initial], str | None]:
    """The variables' own entries, and the file for all others if there is one."""
    others = section.get(ALL_OTHERS)
    if not isinstance(others, str):
        return dict(section), None
    return {name: value for name, value in section.items() if name != ALL_OTHERS}, others


def _initial_value(
    name: str, value: Initial, path: KeyPath, constants: Constants, files: StartFiles, mistakes: Mistakes
) -> InitialValue | None:
    if isinstance(value, FromFile):
        return _from_file(name, value, path, files)
    if isinstance(value, list):  # of a model that is not known
        return None
    if isinstance(value, PerPath):
        return _of_rows(np.asarray(value.values), None)
    if isinstance(value, RandomValue):
        given = {kind: pair for kind, pair in value if pair is not None}
        if len(given) != 1:
            mistakes.add_missing(path, "must have exactly one of normal, lognormal and uniform")
            return None
        ((kind, texts),) = given.items()
        places = [(*path, kind, i) for i in range(len(texts))]
    else:
        kind, texts, places = None, [value], [path]
    expressions = [
        compiled(mistakes, p, text, constants.names) for p, text in zip(places, texts, strict=True)
    ]
    numbers = [evaluated(mistakes, p, e, constants.values) for p, e in zip(places, expressions, strict=True)]
    if any(number is None for number in numbers):
        return None
    initial = InitialValue(cast(Kind | None, kind), tuple(e for e in expressions if e is not None))
    try:
        initial.bound(constants.values)
    except ValueError as error:
        mistakes.add((*path, kind or ""), str(error).removeprefix(f"{kind}: "))
        return None
    return initial


def _from_file(name: str, section: FromFile, path: KeyPath, files: StartFiles) -> InitialValue | None:
    origin = files.column(section, name, path)
    return None if origin is None else _of_rows(origin.numbers, origin)


def _of_rows(numbers: np.ndarray, origin: Origin | None) -> InitialValue:
    """One row is a number like any other."""
    if len(numbers) > 1:
        return InitialValue(None, (), PathValues(numbers), origin)
    return InitialValue(None, (compile_expression(float(numbers[0]), ()),), None, origin)
