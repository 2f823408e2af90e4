"""From the `curves` section to functions of time that can be made again for other constants."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from simkit_solvers.problems.curve import Curve, Interpolation

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import KeyPath
from simkit.config.number_table import read_table
from simkit.config.settings import CurveSettings, Experiment, ParticleExperiment
from simkit.experiments.constants import Constants
from simkit.expressions import Expression, check_name

MAX_ROWS = 9000  # an experiment with its curves written out has at most 20 000 values
BEYOND = 1e-9  # of the span: rounding of a time that is the curve's end

AnyExperiment = TypeVar("AnyExperiment", Experiment, ParticleExperiment)


@dataclasses.dataclass(frozen=True)
class CurvePlan:
    """A curve: its times and values as expressions of constants, and as numbers."""

    times: tuple[Expression, ...]
    values: tuple[Expression, ...]
    interpolation: Interpolation
    numbers: tuple[tuple[float, ...], tuple[float, ...]]

    def bound(self, constants: Mapping[str, Any]) -> Curve:
        """The curve for other constants."""
        times, values = (array_of([e(constants) for e in part]) for part in (self.times, self.values))
        return Curve(times, values, self.interpolation)

    def sampled(self, t: np.ndarray) -> np.ndarray:
        """The values at times; of a monotone cubic those of the lines, which have the same range."""
        times, values = self.numbers
        if self.interpolation == "previous":
            i = np.searchsorted(times, t, side="right") - 1
            return np.asarray(values)[np.clip(i, 0, len(values) - 1)]
        return np.interp(t, times, values)


def array_of(numbers: Sequence[Any]) -> Any:
    """The numbers as one array, of numpy where none is traced."""
    if all(isinstance(number, float) for number in numbers):
        return np.asarray(numbers, np.float64)
    return jnp.stack([jnp.asarray(number) for number in numbers])


def with_curve_numbers(experiment: AnyExperiment, diagnostics: Diagnostics) -> AnyExperiment:
    """The experiment with the numbers of its curves in place of the files they are in.

    A curve whose file is wrong stays as it is.
    """
    curves = experiment.curves or {}
    read = {name: _from_file(name, curve, diagnostics) or curve for name, curve in curves.items()}
    if all(read[name] is curves[name] for name in read):
        return experiment
    return experiment.model_copy(update={"curves": read})


def _from_file(name: str, curve: CurveSettings, diagnostics: Diagnostics) -> CurveSettings | None:
    """The curve with the numbers in its file, `None` where it is wrong."""
    if curve.file is None:
        return curve
    place = ("curves", name)
    for key, given in (("times", curve.times), ("values", curve.values)):
        if given is not None:
            diagnostics.add((*place, key), "the numbers are in the file; give file, or times and values")
            return None
    columns = []
    for key, column in (("time", curve.time), ("value", curve.value)):
        if column is None:
            diagnostics.add_missing((*place, key), f"is missing; the name of the file's column of {key}s")
        else:
            columns.append(column)
    if len(columns) < 2:
        return None
    folder = Path(diagnostics.document.name).parent if diagnostics.document.name else Path()
    try:
        table = read_table(folder / curve.file, curve.file)
        if len(table.rows) > MAX_ROWS:
            raise ValueError(f"{curve.file}: has more than {MAX_ROWS} rows; leave out some of them")
        times, values = (table.column(column).tolist() for column in columns)
    except ValueError as error:
        diagnostics.add((*place, "file"), str(error), cause=error)
        return None
    plain: dict[str, Any] = {"file": None, "time": None, "value": None, "times": times, "values": values}
    return curve.model_copy(update=plain)


def plan_curves(
    section: Mapping[str, CurveSettings] | None,
    constants: Constants,
    span: tuple[float, float] | None,
) -> dict[str, CurvePlan]:
    """The curves that are right; `span` is from t0 to t1, `None` where they could not be read."""
    result, diagnostics = {}, constants.diagnostics
    for name, settings in (section or {}).items():
        reason = check_name(name)
        if name in constants.names:
            reason = f"{name} is a constant; choose another name"
        if reason:
            diagnostics.add(("curves", name), reason, at_key=True)
        before = len(diagnostics.entries)
        with diagnostics.collecting():
            curve = _plan(("curves", name), settings, constants)
            if curve is not None and len(diagnostics.entries) == before:
                result[name] = curve
                if span is not None and settings.outside == "refuse":
                    _check_span(("curves", name), curve, span)
    return result


def _plan(place: KeyPath, settings: CurveSettings, constants: Constants) -> CurvePlan | None:
    """The curve, `None` where its file could not be read."""
    if settings.file is not None:
        return None
    diagnostics = constants.diagnostics
    for key in ("time", "value"):
        if getattr(settings, key) is not None:
            diagnostics.add((*place, key), "has no effect without file", at_key=True)
    if settings.times is None or settings.values is None:
        for key in ("times", "values"):
            if getattr(settings, key) is None:
                diagnostics.add_missing((*place, key), "is missing; give times and values, or a file")
        return None
    parts = []
    for key, texts in (("times", settings.times), ("values", settings.values)):
        expressions, numbers = [], []
        for i, text in enumerate(texts):
            both = constants.number((*place, key, i), text)
            if both is None:
                return None
            expressions.append(both[0])
            numbers.append(both[1])
        parts.append((tuple(expressions), tuple(numbers)))
    (times, at), (values, those) = parts
    if len(at) != len(those):
        raise SettingError((*place, "values"), f"must be as many as the {len(at)} times, got {len(those)}")
    least = 1 if settings.interpolation == "previous" else 2
    if len(at) < least:
        message = f"needs at least {least} for {settings.interpolation}, got {len(at)}"
        raise SettingError((*place, "times"), message)
    for i in range(1, len(at)):
        if not at[i] > at[i - 1]:
            message = f"must increase, got {at[i]:g} after {at[i - 1]:g}"
            raise SettingError((*place, "times", i), message)
    return CurvePlan(times, values, settings.interpolation, (at, those))


def _check_span(place: KeyPath, curve: CurvePlan, span: tuple[float, float]) -> None:
    (t0, t1), (first, last) = span, (curve.numbers[0][0], curve.numbers[0][-1])
    beyond = BEYOND * (t1 - t0)
    if t0 < first - beyond or t1 > last + beyond:
        raise SettingError(
            place,
            f"goes from t = {first:g} to {last:g}, and the run from {t0:g} to {t1:g}; give more points, or "
            "outside: hold, which keeps its first and last value",
            at_key=True,
        )
