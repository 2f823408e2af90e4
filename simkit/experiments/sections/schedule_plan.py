"""From curves and expressions of `t` to a scheduled problem, with its events."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.problem import AbstractODE, parameters_of
from simkit_solvers.problems.schedule import scheduled

from simkit.closed_forms import CLOSED_FORMS
from simkit.config.diagnostics import SettingError
from simkit.config.settings import ObservableSettings
from simkit.experiments.constants import Constants
from simkit.experiments.ends_of_steps import inside_a_step
from simkit.experiments.sections.curve_plan import CurvePlan
from simkit.experiments.sections.event_plan import AnyGrid, EventPlan, Span, ends_of
from simkit.experiments.sections.model_plan import ModelPlan, bound_parameters
from simkit.expressions import Expression, ExpressionError, compile_expression
from simkit.observe.time_functions import TimeExpression

SAMPLES = 200  # times, besides the points of curves, at which a parameter's range is checked


def at_start(curves: Mapping[str, CurvePlan], span: Span | None, constants: Constants) -> dict[str, float]:
    """Curves and `t` at the time t0, for what is checked before the run."""
    t0 = float(span[0](constants.values)) if span else 0.0
    return {name: float(curve.sampled(np.asarray([t0]))[0]) for name, curve in curves.items()} | {"t": t0}


def refuse_jumps_inside(name: str, curve: CurvePlan, grid: AnyGrid) -> None:
    """Raise `SettingError` where a curve jumps inside a fixed step, all of which would take one value."""
    if curve.interpolation != "previous":
        return
    t0, t1 = ends_of(grid)
    times = [t for t in curve.numbers[0] if t0 < t < t1]
    wrong = inside_a_step(times, (t0, t1), grid.steps, "other times, or interpolation: linear")
    if wrong is not None:
        raise SettingError(("curves", name), f"jumps inside a step: {wrong[1]}", at_key=True)


def plan_schedule(
    plan: ModelPlan | None,
    curves: Mapping[str, CurvePlan],
    events: tuple[EventPlan, ...],
    observe: Mapping[str, ObservableSettings] | None,
    span: Span | None,
    constants: Constants,
) -> ModelPlan | None:
    """The plan with what changes with time.

    A parameter's range is checked at every point of the curves, and at `SAMPLES` other times. Without events,
    and where nothing that is used changes, the plan is the same but for the names of the curves.
    """
    if plan is None:
        return None
    plan = dataclasses.replace(plan, curves=tuple(curves))
    moving = {name: e for name, e in plan.expressions.items() if e.names & {*curves, "t"}}
    texts = [text for event in events for text in (event.when, *(value for _, value in event.values))]
    observed = _names_in(observe) | {name for text in texts if text is not None for name in text.names}
    read = [name for name in curves if name in observed and name not in plan.parameters]
    plan = dataclasses.replace(plan, changing=frozenset([*moving, *curves]))
    if plan.problem is None or span is None or not (moving or read or events):
        return plan
    t0, t1 = (float(end(constants.values)) for end in span)
    _check_range(plan, moving, curves, (t0, t1), constants)
    fixed = {name: e for name, e in plan.expressions.items() if name not in moving}
    start = {name: plan.values[name] for name in moving}
    make: Any = plan.make or type(plan.problem)

    def bind(values: Mapping[str, Any], grid: AnyGrid) -> AbstractODE:
        original = make(**start, **bound_parameters(fixed, values))
        given = {name: curve.bound(values) for name, curve in curves.items()}
        parameters = {name: _function(text, values, given) for name, text in moving.items()}
        happening = tuple(event.bound(values, plan.parameters, grid) for event in events)
        return scheduled(original, parameters, {name: given[name] for name in read}, happening)

    used = {name for text in moving.values() for name in text.names}
    steady = "t" not in used and all(curves[n].interpolation == "previous" for n in used if n in curves)
    problem = plan.problem if steady else scheduled(plan.problem, _functions(moving, curves, constants))
    return dataclasses.replace(plan, bind=bind, problem=problem)


def _names_in(observe: Mapping[str, ObservableSettings] | None) -> set[str]:
    """The names in observables, but for those that cannot be read."""
    result: set[str] = set()
    for settings in (observe or {}).values():
        try:
            result |= compile_expression(
                settings.value, None, functionals=True, closed_forms=CLOSED_FORMS
            ).names
        except ExpressionError:
            continue
    return result


def _functions(moving, curves, constants: Constants) -> dict[str, AbstractTimeFunction]:
    given = {name: curve.bound(constants.values) for name, curve in curves.items()}
    return {name: _function(text, constants.values, given) for name, text in moving.items()}


def _function(text: Expression, values: Mapping[str, Any], curves: Mapping[str, Any]) -> AbstractTimeFunction:
    if text.text in curves:
        return curves[text.text]
    used = {name: curves[name] for name in sorted(text.names) if name in curves}
    return TimeExpression({n: values[n] for n in sorted(text.names - {*used, "t"})}, used, text)


def _check_range(
    plan: ModelPlan,
    moving: Mapping[str, Expression],
    curves: Mapping[str, CurvePlan],
    span: tuple[float, float],
    constants: Constants,
) -> None:
    """Each parameter that changes is a finite number in its range, whenever."""
    specs = {} if plan.problem is None else parameters_of(plan.problem)
    for name, text in moving.items():
        used = [curves[each] for each in sorted(text.names) if each in curves]
        nodes = [t for curve in used for t in curve.numbers[0] if span[0] <= t <= span[1]]
        times = np.unique([*nodes, *np.linspace(*span, SAMPLES + 1)])
        sampled = {each: curves[each].sampled(times) for each in text.names if each in curves}
        named = "type" in constants.diagnostics.written("model")
        place = ("model", name) if named else ("model", "parameters", name)
        for i, t in enumerate(times):
            known = {each: float(values[i]) for each, values in sampled.items()}
            value = constants.evaluated(place, text, {**constants.values, **known, "t": float(t)})
            if value is None:
                break
            if name in specs and not specs[name].admits(value):
                message = f"must be {specs[name].range}, got {value:g} at t = {t:g}"
                constants.diagnostics.add(place, message)
                break
