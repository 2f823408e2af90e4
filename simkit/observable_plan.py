"""From the `observe` section to compiled observables."""

import dataclasses

from simkit_solvers.jump_diffusion import AbstractJumpDiffusion

from simkit.closed_forms import CLOSED_FORMS
from simkit.documents import KeyPath
from simkit.ends_of_steps import inside_a_step
from simkit.exercise_plan import plan_exercise
from simkit.expression import Functional, check_spelling
from simkit.fields import Constants, compiled, evaluated
from simkit.mistakes import Mistakes
from simkit.model_plan import ModelPlan, refuse_ambiguous
from simkit.monitors import OVER_TIME
from simkit.observables import Observable
from simkit.result_names import clash
from simkit.settings import ObservableSettings
from simkit.simulation import ObservableInfo


def plan_observables(
    section: dict[str, ObservableSettings] | None,
    plan: ModelPlan | None,
    constants: Constants,
    steps: int | None,
    ends: tuple[float, float] | None,
    mistakes: Mistakes,
) -> tuple[tuple[Observable, ...], dict[str, ObservableInfo]]:
    """The observables that are right. `ends` are t0 and t1; what is `None` could not be read."""
    observables = []
    info = {}
    fixed = None if plan is None else [*plan.parameters, *constants.names, "t"]
    names = None if plan is None or fixed is None else [*plan.variables, *fixed, *plan.curves]
    ambiguous = frozenset() if plan is None else plan.ambiguous
    values = {} if plan is None else {**constants.values, **plan.values}
    if ends is not None:
        values["t"] = ends[1]
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
        if jumps and value is not None and any(f.kind == "no_touch" for f in value.functionals):
            mistakes.add(
                (*path, "value"),
                "no_touch knows paths without jumps between the steps, and the model jumps; watch at the "
                "ends of steps, such as min(S) > B",
            )
        if value is not None:
            exercise = plan_exercise(settings, plan, names, steps, ends, constants, path, mistakes)
            observable = Observable(name, value, settings.every, exercise)
            dates = _dates(observable, constants, steps, ends, (*path, "value"), mistakes)
            observable = dataclasses.replace(observable, dates=dates)
            _check_every(observable, steps, (*path, "every"), mistakes)
            observables.append(observable)
            info[name] = ObservableInfo(settings.unit, value.text, settings.at, exact)
    return tuple(observables), info


def _dates(
    observable: Observable,
    constants: Constants,
    steps: int | None,
    ends: tuple[float, float] | None,
    path: KeyPath,
    mistakes: Mistakes,
) -> tuple[tuple[Functional, int], ...]:
    """The step at whose end each functional `at` looks."""
    found = []
    for functional in dict.fromkeys(f for f in observable.functionals if f.kind == "at"):
        text = functional.arguments[1]
        what = f"at({functional.argument.text}, {text.text})"
        strange = text.names - set(constants.names)
        if strange:
            message = f"{what}: the time is an expression of constants, and {min(strange)} is none"
            mistakes.add(path, message)
            continue
        date = evaluated(mistakes, path, text, constants.values)
        if date is None or steps is None or ends is None:
            continue
        t0, t1 = ends
        if not t0 <= date <= t1:
            mistakes.add(path, f"{what}: the time must be from t0 = {t0:g} to t1 = {t1:g}, got {date:g}")
            continue
        reason = inside_a_step([date], ends, steps, "another time")
        if reason is not None:
            mistakes.add(path, f"{what}: {reason}")
            continue
        found.append((functional, round((date - t0) / (t1 - t0) * steps)))
    return tuple(found)


def _check_every(observable: Observable, steps: int | None, path: KeyPath, mistakes: Mistakes) -> None:
    every = observable.every
    if every is None:
        return
    kinds = {f.kind for f in observable.functionals} - {"at"}
    if not kinds:
        mistakes.add(path, "has no effect: value has no path functional that looks at every step")
    elif steps is not None and every > steps:
        mistakes.add(path, f"must be at most the {steps} steps, got {every}")
    elif steps is not None and steps % every:
        for kind in kinds & set(OVER_TIME):
            message = f"{every} does not divide the {steps} steps, and the {kind} would end early"
            mistakes.add(path, message)
