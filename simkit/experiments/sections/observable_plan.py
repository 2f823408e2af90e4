"""From the `observe` section to compiled observables."""

from typing import NamedTuple

from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import Mistakes
from simkit.config.settings import ObservableSettings
from simkit.ensemble.simulation import ObservableInfo
from simkit.experiments.constants import Constants, compiled, evaluated
from simkit.experiments.sections.exercise_plan import plan_exercise
from simkit.experiments.sections.functional_plan import (
    Seen,
    check_functionals,
    dates_of_functionals,
    with_dates,
)
from simkit.experiments.sections.model_plan import ModelPlan, refuse_ambiguous
from simkit.expressions.expression import check_spelling
from simkit.observe.observables import Observable
from simkit.results.result_names import clash


class PlannedObservables(NamedTuple):
    """The observables, the times of `at(x, s)` where paths have no common steps, and what results say."""

    observables: tuple[Observable, ...]
    stops: tuple[float, ...]
    info: dict[str, ObservableInfo]


def plan_observables(
    section: dict[str, ObservableSettings] | None,
    plan: ModelPlan | None,
    constants: Constants,
    seen: Seen,
    mistakes: Mistakes,
) -> PlannedObservables:
    """The observables that are right."""
    observables, dates = [], []
    info = {}
    fixed = None if plan is None else [*plan.parameters, *constants.names, "t"]
    names = None if plan is None or fixed is None else [*plan.variables, *fixed, *plan.curves]
    ambiguous = frozenset() if plan is None else plan.ambiguous
    values = {} if plan is None else {**constants.values, **plan.values}
    if seen.ends is not None:
        values["t"] = seen.ends[1]
    for name, settings in (section or {}).items():
        path = ("observe", name)
        reason = check_spelling(name)
        if plan is not None and name in plan.variables:
            reason = f"{name} is a state variable, whose statistics are given anyway; choose another name"
        elif plan is not None and reason is None:
            clashing = clash([*plan.variables, *info], name)
            if clashing is not None:
                both = f"{clashing[0]} and {name} would both have a result {clashing[1]}"
                reason = f"{both} in the dataset; choose another name"
        if reason:
            mistakes.add(path, reason, at_key=True)
        place = (*path, "value")
        value = compiled(mistakes, place, settings.value, names, functionals=True, closed_forms=CLOSED_FORMS)
        refuse_ambiguous(mistakes, place, value, ambiguous)
        exact = None
        if settings.exact is not None:
            place = (*path, "exact")
            expression = compiled(mistakes, place, settings.exact, fixed, closed_forms=CLOSED_FORMS)
            refuse_ambiguous(mistakes, place, expression, ambiguous)
            changing = expression.names & plan.changing if expression and plan else frozenset()
            if changing:
                mistakes.add(place, f"{min(changing)} changes with time; write the exact value without it")
            exact = evaluated(mistakes, place, expression, values)
        jumps = plan is not None and isinstance(plan.problem, AbstractJumpDiffusion)
        if jumps and value is not None:
            for reason in dict.fromkeys(f.not_with_jumps for f in value.functionals if f.not_with_jumps):
                mistakes.add((*path, "value"), reason)
        if value is not None:
            steps = seen.steps
            exercise = plan_exercise(settings, plan, names, steps, seen.ends, constants, path, mistakes)
            observable = Observable(name, value, settings.every, exercise)
            check_functionals(observable, seen, path, mistakes)
            dates.append(dates_of_functionals(observable, constants, seen, (*path, "value"), mistakes))
            observables.append(observable)
            info[name] = ObservableInfo(settings.unit, value.text, settings.at, exact)
    return PlannedObservables(*with_dates(observables, dates, seen), info)
