"""Which path functionals a run supports, and the times of those that are evaluated once."""

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
from simkit_solvers.problems.event import ON_STEP

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.experiments.constants import Constants
from simkit.experiments.ends_of_steps import inside_a_step
from simkit.functionals.functional import AbstractFunctional, Clock
from simkit.observe.observable import Observable
from simkit.progress import counted


@dataclasses.dataclass(frozen=True)
class Seen:
    """How paths go on: by `steps` of equal length, by the events of a network, or by adaptive steps.

    `ends` are t0 and t1, `points` the saved intervals, `moving` the names of what changes between events.
    `triggered` are the events that a condition triggers. What is `None` could not be read. Unless it is
    `of_paths`, no path is run.
    """

    clock: Clock
    ends: tuple[float, float] | None
    steps: int | None = None
    points: int | None = None
    moving: frozenset[str] = frozenset()
    triggered: tuple[str, ...] = ()
    of_paths: bool = True


def check_functionals(observable: Observable, seen: Seen, path: KeyPath, constants: Constants) -> None:
    """Add an error for each functional that the run does not know, and for an `every` that does not fit."""
    if not seen.of_paths:
        return
    diagnostics = constants.diagnostics
    kinds = sorted({type(f) for f in observable.functionals}, key=lambda kind: kind.name)
    for kind in kinds:
        reason = kind.refusal(seen.clock)
        if reason is not None and seen.clock == "ordinary" and seen.triggered:
            reason = _between_triggered(seen.triggered[0])
        if reason is not None:
            diagnostics.add((*path, "value"), f"{kind.name}(…) {reason}")
    if seen.clock == "events":
        for each in observable.functionals:
            with diagnostics.collecting():
                _refuse_moving(each, seen.moving, (*path, "value"))
    every, steps = observable.every, seen.steps
    if every is None:
        return
    path = (*path, "every")
    if all(f.time is not None for f in observable.functionals):
        diagnostics.add(path, "has no effect: value has no path functional that monitors every step")
    elif seen.clock != "steps":
        diagnostics.add(path, "paths have no common steps to count; leave it out")
    elif steps is not None and every > steps:
        diagnostics.add(path, f"must be at most the {counted(steps, 'step')}, got {every}")
    elif steps is not None and steps % every:
        does_not = f"{every} does not divide the {counted(steps, 'step')}"
        for kind in kinds:
            if kind.order is not None and not kind.conditional:
                diagnostics.add(path, f"{does_not}, and the {kind.name} would end early")
        diagnostics.remark(path, f"{does_not}: none after step {steps // every * every} is watched")


def _between_triggered(event: str) -> str:
    """Why no path is monitored step by step where an event has to be found between steps."""
    return (
        f"monitors the path step by step, and adaptive steps, by which {event} is found, have no common "
        "times; leave it out and take more save.points to see the path, or give the times at which to check "
        f"the condition, such as events.{event}.every, and time.steps in place of rtol and atol"
    )


def _refuse_moving(functional: AbstractFunctional, moving: Collection[str], path: KeyPath) -> None:
    """What changes between events is seen at events only: no condition may be made of it, and no extreme."""
    watched = functional.condition or functional.argument
    changing = watched.names & {*moving} if functional.time is None else frozenset()
    if changing:
        raise SettingError(
            path,
            f"{functional.name}(…): {min(changing)} in {watched.text} changes between events, and the path "
            "is seen when they happen; use counts, constants and curves with interpolation: previous there",
        )


def dates_of_functionals(
    observable: Observable, constants: Constants, seen: Seen, path: KeyPath
) -> dict[AbstractFunctional, float]:
    """The one time at which each functional reads the path, as a fraction of the run."""
    dates: dict[AbstractFunctional, float] = {}
    for functional in dict.fromkeys(f for f in observable.functionals if f.time is not None):
        with constants.diagnostics.collecting():
            fraction = _date_of(functional, constants, seen, path)
            if fraction is not None:
                dates[functional] = fraction
    return dates


def _date_of(functional: AbstractFunctional, constants: Constants, seen: Seen, path: KeyPath) -> float | None:
    time, what = functional.time, functional.text
    strange = time.names - set(constants.names)
    if strange:
        message = f"{what}: the time is an expression of constants, and {min(strange)} is none"
        raise SettingError(path, message)
    date = constants.evaluated(path, time)
    if date is None or seen.ends is None:
        return None
    t0, t1 = seen.ends
    if not t0 <= date <= t1:
        raise SettingError(path, f"{what}: the time must be from t0 = {t0:g} to t1 = {t1:g}, got {date:g}")
    reason = _between(date, seen)
    if reason is not None:
        raise SettingError(path, f"{what}: {reason}")
    return (date - t0) / (t1 - t0)


def _between(date: float, seen: Seen) -> str | None:
    """Why a run has no step at a time: adaptive steps of a stochastic equation end at saved times only."""
    if seen.ends is None or not seen.of_paths:
        return None
    wrong = None
    if seen.clock == "steps":
        wrong = inside_a_step([date], seen.ends, seen.steps, "another time")
    elif seen.clock == "stochastic" and seen.points is not None:
        wrong = inside_a_step([date], seen.ends, seen.points, "another time", "points")
    return None if wrong is None else wrong[1]


def with_dates(
    observables: Sequence[Observable], dates: Sequence[dict[AbstractFunctional, float]], seen: Seen
) -> tuple[tuple[Observable, ...], tuple[float, ...]]:
    """The observables with the steps that functionals monitor; without steps, with the numbers of stops.

    The stops are fractions of the run. Those nearer to each other than `ON_STEP` are one.
    """
    every = sorted({fraction for each in dates for fraction in each.values()})
    stops = tuple(f for i, f in enumerate(every) if i == 0 or f - every[i - 1] > ON_STEP)

    def number(fraction: float) -> int:
        if seen.clock == "steps":
            return round(fraction * (seen.steps or 0))
        return int(np.argmin(np.abs(np.asarray(stops) - fraction)))

    dated = tuple(
        dataclasses.replace(observable, dates=tuple((f, number(at)) for f, at in each.items()))
        for observable, each in zip(observables, dates, strict=True)
    )
    return dated, () if seen.clock == "steps" else stops
