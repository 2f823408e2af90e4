"""From `early_exercise` of an observable to the right it describes."""

from collections.abc import Collection, Iterable

from simkit.closed_forms import CLOSED_FORMS
from simkit.divisors import does_not_divide
from simkit.documents import KeyPath
from simkit.ends_of_steps import inside_a_step
from simkit.exercise import PATHS_PER_TERM, Exercise
from simkit.expression import Expression
from simkit.fields import compiled
from simkit.mistakes import Mistakes
from simkit.model_plan import ModelPlan, refuse_ambiguous
from simkit.observables import Observable
from simkit.settings import MAX_PATHS, EarlyExercise, Ensemble, ObservableSettings


def plan_exercise(
    settings: ObservableSettings,
    plan: ModelPlan | None,
    names: Collection[str] | None,
    steps: int | None,
    ends: tuple[float, float] | None,
    path: KeyPath,
    mistakes: Mistakes,
) -> Exercise | None:
    """The right of one observable at `path`, `None` where it has none or it is wrong."""
    section = settings.early_exercise
    if section is None:
        return None
    place = (*path, "early_exercise")
    if settings.at == "each":
        mistakes.add(
            (*path, "at"), "has no effect: a right that is exercised early has one value, at the end"
        )
    basis = _basis(section, plan, names, place, mistakes)
    if steps is None or plan is None:
        return None
    when = _when(section.dates, steps, ends, (*place, "dates"), mistakes)
    if when is None:
        return None
    exercise = Exercise(when, steps, basis, section.degree, section.paths)
    if exercise.dates > 1 and exercise.terms * PATHS_PER_TERM > section.paths:
        message = (
            f"{section.degree} makes {exercise.terms} polynomials, which need {PATHS_PER_TERM} paths each, "
            f"and there are {section.paths}; take a lower degree, a smaller basis or more paths"
        )
        mistakes.add((*place, "degree"), message)
    return exercise


def _when(
    dates: int | list[float],
    steps: int,
    ends: tuple[float, float] | None,
    place: KeyPath,
    mistakes: Mistakes,
) -> tuple[int, ...] | None:
    """The steps at whose ends the dates are."""
    if isinstance(dates, int):
        if steps % dates:
            mistakes.add(place, does_not_divide("dates", dates, steps))
            return None
        return tuple(range(steps // dates, steps + 1, steps // dates))
    if ends is None:
        return None
    t0, t1 = ends
    for i, date in enumerate(dates):
        if not t0 < date <= t1:
            hint = "; compare with the value at t0 yourself" if date == t0 else ""
            mistakes.add(
                (*place, i), f"must be after t0 = {t0:g} and at most t1 = {t1:g}, got {date:g}{hint}"
            )
            return None
    reason = inside_a_step(dates, ends, steps, "other dates")
    if reason is not None:
        mistakes.add(place, reason)
        return None
    return tuple(round((date - t0) / (t1 - t0) * steps) for date in dates)


def _basis(
    section: EarlyExercise,
    plan: ModelPlan | None,
    names: Collection[str] | None,
    place: KeyPath,
    mistakes: Mistakes,
) -> tuple[Expression, ...]:
    """The given basis, or all state variables."""
    given = section.basis
    if given is None:
        given = [] if plan is None else list(plan.variables)
    found = []
    for i, text in enumerate(given):
        expression = compiled(
            mistakes, (*place, "basis", i), text, names, functionals=True, closed_forms=CLOSED_FORMS
        )
        refuse_ambiguous(
            mistakes, (*place, "basis", i), expression, frozenset() if plan is None else plan.ambiguous
        )
        if expression is not None:
            found.append(expression)
    return tuple(found)


def refuse_too_many(observables: Iterable[Observable], ensemble: Ensemble | None, mistakes: Mistakes) -> None:
    """Policies are found on the last path ids, which the ensemble must leave free."""
    for observable in observables:
        if observable.exercise is None or ensemble is None or ensemble.paths is None:
            continue
        if ensemble.paths + observable.exercise.paths > MAX_PATHS:
            message = (
                f"{observable.exercise.paths} and the ensemble's {ensemble.paths} are more than the "
                f"{MAX_PATHS} that there are; take fewer"
            )
            mistakes.add(("observe", observable.name, "early_exercise", "paths"), message)
