"""From the `events` section to events of a problem, and which of them a run can have."""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.grids.grid import Grid
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.methods.registry import info_of
from simkit_solvers.problems.event import Event
from simkit_solvers.problems.problem import AbstractODE

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import EventSettings
from simkit.experiments.constants import Constants
from simkit.experiments.ends_of_steps import increasing_times, inside_a_step
from simkit.experiments.sections.curve_plan import array_of
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.expressions import Expression
from simkit.observe.time_functions import Condition, SetVariables
from simkit.suggestions import did_you_mean

MOST_TIMES = 100_000
ON_TIME = 1e-9  # of the span: what rounding makes of a time

Span = tuple[Expression, Expression]
AnyGrid = Grid | AdaptiveGrid | JumpGrid
PlacedTime = tuple[KeyPath, Callable[[Mapping[str, Any]], Any]]


@dataclasses.dataclass(frozen=True)
class EventPlan:
    """An event: its name, its times as expressions of constants by their places, and what it sets.

    `when` is its condition; without times that decides when the event happens.
    """

    name: str
    times: tuple[PlacedTime, ...]
    values: tuple[tuple[str, Expression], ...]
    when: Expression | None = None

    @property
    def triggered(self) -> bool:
        """Whether its condition decides when it happens."""
        return not self.times

    def bound(self, constants: Mapping[str, Any], own: Iterable[str], grid: AnyGrid) -> Event:
        """The event for other constants, of which the model has its `own`, on a grid."""

        def used(*expressions: Expression) -> dict[str, Any]:
            names = {name for each in expressions for name in each.names} - {*own}
            return {name: constants[name] for name in sorted(names) if name in constants}

        change = SetVariables(used(*(value for _, value in self.values)), self.values, self.name)
        condition = None if self.when is None else Condition(used(self.when), self.when)
        times = array_of([time(constants) for _, time in self.times]) if self.times else ()
        event = Event(change, times, condition=condition)
        return event.on(grid) if grid.steps is not None else event


def plan_events(
    section: Mapping[str, EventSettings] | None,
    plan: ModelPlan | None,
    constants: Constants,
    curves: Iterable[str],
    span: Span | None,
) -> tuple[EventPlan, ...]:
    """The events that are right, in the order of the file."""
    result, diagnostics = [], constants.diagnostics
    ambiguous = frozenset() if plan is None else plan.ambiguous
    for name, settings in (section or {}).items():
        place = ("events", name)
        before = len(diagnostics.entries)
        times, values, names = None, [], None
        if plan is not None:
            names = [*plan.variables, *plan.parameters, *constants.names, *curves, "t"]
        with diagnostics.collecting():
            times = _times(place, settings, constants, span)
        if not settings.set and not diagnostics.written(*place, "set"):  # or what it has cannot be read
            diagnostics.add((*place, "set"), "needs at least one state variable")
        for variable, text in settings.set.items():
            path = (*place, "set", variable)
            if plan is not None and variable not in plan.variables:
                message = f"unknown variable of the model{did_you_mean(variable, plan.variables)}"
                if variable in plan.parameters:
                    states = ", ".join(plan.variables)
                    message = (
                        f"is a parameter, and events set state variables ({states}); for a parameter that "
                        "changes at known times use curves"
                    )
                diagnostics.add(path, message, at_key=True)
            value = constants.compiled(path, text, names, ambiguous=ambiguous)
            if value is not None:
                values.append((variable, value))
        when = None
        if settings.when is not None:
            when = constants.compiled((*place, "when"), settings.when, names, ambiguous=ambiguous)
            if when is not None and plan is not None:
                _check_condition((*place, "when"), when, plan, diagnostics)
        if times is not None and len(diagnostics.entries) == before:
            result.append(EventPlan(name, times, tuple(values), when))
    return tuple(result)


def _check_condition(path: KeyPath, when: Expression, plan: ModelPlan, diagnostics: Diagnostics) -> None:
    """Add an error unless an expression is a condition on the state."""
    if not when.is_condition:
        diagnostics.add(path, f"must be a condition, such as {plan.variables[0]} > 1, got {when.text}")
    elif not when.names & {*plan.variables}:
        variables = ", ".join(plan.variables)
        diagnostics.add(
            path,
            f"{when.text} has no state variable ({variables}); use at or every for given times",
        )


def _times(
    place: KeyPath, settings: EventSettings, constants: Constants, span: Span | None
) -> tuple[PlacedTime, ...] | None:
    """The times as functions of the constants, `None` where they are wrong."""
    diagnostics = constants.diagnostics
    if settings.at is None and settings.every is None and settings.when is not None:
        for key in ("first", "last"):
            if getattr(settings, key) is not None:
                diagnostics.add((*place, key), "has no effect without every", at_key=True)
        return ()
    if (settings.at is None) == (settings.every is None):
        message = "give either at, the times, or every, the time between them, or when, a condition"
        diagnostics.add_missing((*place, "at"), message)
        return None
    ends = None if span is None else tuple(float(end(constants.values)) for end in span)
    if settings.at is None:
        return _regular(place, settings, constants, span, ends)
    for key in ("first", "last"):
        if getattr(settings, key) is not None:
            diagnostics.add((*place, key), "has no effect without every", at_key=True)
    several = isinstance(diagnostics.written(*place).get("at"), list)
    texts = {(*place, "at", i) if several else (*place, "at"): text for i, text in enumerate(settings.at)}
    result = increasing_times(texts, constants)
    for path, _, time in result or ():
        if ends is not None and not ends[0] <= time <= ends[1]:
            raise SettingError(path, f"must be from t0 = {ends[0]:g} to t1 = {ends[1]:g}, got {time:g}")
    return None if result is None else tuple((path, expression) for path, expression, _ in result)


def _regular(
    place: KeyPath,
    settings: EventSettings,
    constants: Constants,
    span: Span | None,
    ends: tuple[float, ...] | None,
) -> tuple[PlacedTime, ...] | None:
    """Equally spaced times; how many there are follows from the constants in the file."""
    texts = {"every": settings.every, "first": settings.first, "last": settings.last}
    expressions: dict[str, Expression] = {}
    numbers: dict[str, float] = {}
    for key, text in texts.items():
        if text is None:
            continue
        both = constants.number((*place, key), text)
        if both is None:
            return None
        expressions[key], numbers[key] = both
    if span is None or ends is None:
        return None
    every, (t0, t1) = numbers["every"], ends
    if not every > 0:
        raise SettingError((*place, "every"), f"must be positive, got {every:g}")
    rounding = ON_TIME * (t1 - t0)
    first = numbers.get("first", t0 + every)
    last = numbers.get("last", t1 - 2 * rounding)
    for key, time in (("first", first), ("last", last)):
        if key in numbers and not t0 <= time <= t1:
            raise SettingError((*place, key), f"must be from t0 = {t0:g} to t1 = {t1:g}, got {time:g}")
    count = math.floor((last - first + rounding) / every) + 1
    if count < 1:
        message = f"the first time would be {first:g}, after the last, {last:g}"
        raise SettingError((*place, "every"), message)
    if count > MOST_TIMES:
        raise SettingError((*place, "every"), f"gives {count} times; there may be {MOST_TIMES}")
    start, step = span[0], expressions["every"]

    def occurrence(i: int):
        def at(values):
            begin = expressions["first"](values) if "first" in expressions else start(values) + step(values)
            return begin + i * step(values)

        return at

    return tuple(((*place, "every"), occurrence(i)) for i in range(count))


def refuse_events(
    events: tuple[EventPlan, ...],
    constants: Constants,
    grid: AnyGrid,
    problem: AbstractODE | None,
    solver: Any,
    moving: Collection[str],
) -> None:
    """Raise `SettingError` for events that a run cannot have, and for times inside a step.

    `moving` are the names of what changes between two events of a network.
    """
    if not events:
        return
    stochastic = problem is not None and problem.stochastic
    ordinary = problem is not None and not stochastic
    if stochastic and isinstance(grid, AdaptiveGrid):
        raise SettingError(
            ("events",),
            "adaptive steps of stochastic equations halve intervals and do not end at given times; give "
            "time.steps in place of rtol and atol",
            at_key=True,
        )
    for event in events:
        if event.triggered and event.when is not None:
            _refuse_triggered(event.when, ("events", event.name, "when"), grid, ordinary, solver, moving)
    timed = [time for event in events for time in event.times]
    numbers = [float(time(constants.values)) for _, time in timed]
    wrong = inside_a_step(numbers, ends_of(grid), grid.steps, "other times") if timed else None
    if wrong is not None:
        raise SettingError(timed[wrong[0]][0], wrong[1])


def _refuse_triggered(
    when: Expression, path: KeyPath, grid: AnyGrid, ordinary: bool, solver: Any, moving: Collection[str]
) -> None:
    """Raise `SettingError` where a run does not see when a condition becomes true."""
    dates = "or give the event times at which to check it, such as every: {:g}"
    t0, t1 = ends_of(grid)
    info = None if solver is None else info_of(solver)
    if info is not None and info.exact and isinstance(grid, Grid):
        raise SettingError(
            path,
            f"{info.name} has states at the ends of steps only, and nothing would tell how late an event is; "
            "use another solver, " + dates.format(float(grid.dt)),
        )
    if info is not None and info.leaps:
        raise SettingError(
            path,
            "a condition is checked after each event, and the solver takes many at a time; use DirectMethod, "
            + dates.format((t1 - t0) / 100),
        )
    if isinstance(grid, JumpGrid) and when.names & {*moving}:
        raise SettingError(
            path,
            f"{min(when.names & {*moving})} changes between the events of a network, and the condition is "
            "checked after them; use counts, constants and curves with interpolation: previous, "
            + dates.format((t1 - t0) / 100),
        )
    if isinstance(grid, Grid) and ordinary:
        raise SettingError(
            path,
            "fixed steps of an ordinary equation do not find when a condition becomes true; use time.rtol "
            "and time.atol in place of steps, " + dates.format(float(grid.dt)),
        )


def ends_of(grid: AnyGrid) -> tuple[float, float]:
    """t0 and t1."""
    return float(grid.t0), float(grid.t0) + float(grid.span)
