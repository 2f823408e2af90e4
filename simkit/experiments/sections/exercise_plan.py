"""From `early_exercise` of an observable to the option it describes."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import MAX_PATHS, EarlyExercise, Ensemble, ObservableSettings
from simkit.experiments.constants import Constants
from simkit.experiments.divisors import does_not_divide
from simkit.experiments.ends_of_steps import increasing_times, inside_a_step
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import Expression
from simkit.observe.exercise import PATHS_PER_TERM, Exercise
from simkit.observe.observable import Observable


def plan_exercise(
    settings: ObservableSettings,
    plan: ModelPlan | None,
    names: Collection[str] | None,
    steps: int | None,
    ends: tuple[float, float] | None,
    constants: Constants,
    path: KeyPath,
) -> Exercise | None:
    """The exercise of one observable at `path`, `None` where it has none or it is wrong."""
    diagnostics = constants.diagnostics
    section = settings.early_exercise
    if section is None:
        return None
    place = (*path, "early_exercise")
    if settings.at == "each":
        diagnostics.add(
            (*path, "at"), "has no effect: an option with early exercise has one value, at the end"
        )
    basis = _basis(section, plan, names, place, constants)
    if steps is None or plan is None:
        return None
    dated = None
    with diagnostics.collecting():
        dated = _when(section.dates, steps, ends, constants, (*place, "dates"))
    if dated is None:
        return None
    exercise = Exercise(dated[0], steps, basis, section.degree, section.paths, dated[1])
    if exercise.dates > 1 and exercise.terms * PATHS_PER_TERM > section.paths:
        message = (
            f"{section.degree} makes {exercise.terms} polynomials, which need {PATHS_PER_TERM} paths each, "
            f"and there are {section.paths}; use a lower degree, a smaller basis or more paths"
        )
        diagnostics.add((*place, "degree"), message)
    return exercise


def _when(
    dates: int | list[float | str],
    steps: int,
    ends: tuple[float, float] | None,
    constants: Constants,
    place: KeyPath,
) -> tuple[tuple[int, ...], tuple[Expression, ...]] | None:
    """The steps at whose ends the dates are, and the dates where constants give them."""
    if isinstance(dates, int):
        if steps % dates:
            raise SettingError(place, does_not_divide("dates", dates, steps))
        return tuple(range(steps // dates, steps + 1, steps // dates)), ()
    result = increasing_times({(*place, i): text for i, text in enumerate(dates)}, constants)
    if ends is None or result is None:
        return None
    t0, t1 = ends
    for where, _, date in result:
        if not t0 < date <= t1:
            hint = "; compare with the value at t0 yourself" if date == t0 else ""
            raise SettingError(
                where, f"must be after t0 = {t0:g} and at most t1 = {t1:g}, got {date:g}{hint}"
            )
    times = [time for _, _, time in result]
    wrong = inside_a_step(times, ends, steps, "other dates")
    if wrong is not None:
        raise SettingError(result[wrong[0]][0], wrong[1])
    given = tuple(expression for _, expression, _ in result)
    named = any(expression.names for expression in given)
    return tuple(round((time - t0) / (t1 - t0) * steps) for time in times), given if named else ()


def dates_of(
    observables: Iterable[Observable], span: tuple[Expression, Expression], values: Mapping[str, Any]
) -> dict[str, tuple]:
    """The dates of each option for given constants, as fractions of the time between their t0 and t1."""
    t0, t1 = (end(values) for end in span)
    exercises = {each.name: each.exercise for each in observables if each.exercise is not None}
    return {
        name: tuple((time(values) - t0) / (t1 - t0) for time in exercise.times)
        for name, exercise in exercises.items()
        if exercise.times
    }


def _basis(
    section: EarlyExercise,
    plan: ModelPlan | None,
    names: Collection[str] | None,
    place: KeyPath,
    constants: Constants,
) -> tuple[Expression, ...]:
    """The given basis, or all state variables."""
    given = section.basis
    if given is None:
        given = [] if plan is None else list(plan.variables)
    result = []
    for i, text in enumerate(given):
        expression = constants.compiled(
            (*place, "basis", i),
            text,
            names,
            ambiguous=() if plan is None else plan.ambiguous,
            functionals=True,
            closed_forms=CLOSED_FORMS,
        )
        if expression is not None:
            result.append(expression)
    return tuple(result)


def refuse_too_many(observable: Observable, ensemble: Ensemble | None) -> None:
    """Raise `SettingError` unless the ensemble leaves the last path ids free, on which policies are found."""
    if observable.exercise is None or ensemble is None or ensemble.paths is None:
        return
    needed = observable.exercise.reserved
    if ensemble.paths + needed > MAX_PATHS:
        raise SettingError(
            ("observe", observable.name, "early_exercise", "paths"),
            f"{observable.exercise.paths} reserve {needed} paths for policies, which with the ensemble's "
            f"{ensemble.paths} are more than the {MAX_PATHS} that there are; use fewer",
        )
