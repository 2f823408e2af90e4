"""Where observables jump, or their slopes do, as the steps of a path meet it."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from simkit_solvers.derivatives.smoothing import Smoothing
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import curves_of, schedule_of

from simkit.expressions.discontinuities import Difference
from simkit.functionals.functional import AbstractFunctional
from simkit.observe.monitors import Monitor
from simkit.observe.observable import Observable


@dataclasses.dataclass(frozen=True)
class Monitored:
    """A difference whose sign matters at monitoring dates.

    With `extreme`, a largest or smallest value is compared with a constant, or a barrier is not to be
    touched: the difference is then that of each value it is taken over. `monitors` are the accumulators of
    the observable.
    """

    difference: Difference
    monitors: tuple[Monitor, ...]
    extreme: AbstractFunctional | None = None


@dataclasses.dataclass(frozen=True)
class MonitoredDifferences:
    """The differences of an observable, for `simkit_solvers.derivatives.smoothing`."""

    monitored: tuple[Monitored, ...]

    def __call__(self, observer, problem, acc, k, t, y) -> tuple:
        """Each difference after step `k`."""
        result = []
        for each in self.monitored:
            values: dict[Any, Any] = observer.environment(problem, acc, t, y, each.monitors)
            if each.extreme is not None:
                values = {**values, each.extreme: each.extreme.argument(values)}
            result.append(jnp.asarray(each.difference.difference(values), t.dtype))
        return tuple(result)


def smoothing_of(
    observable: Observable, problem: AbstractODE, variables: frozenset[str], every: int, kinks: bool
) -> Smoothing | str:
    """Where a value that is recorded every `every` steps jumps, or with `kinks` its slope; or why not."""
    monitors = observable.monitors
    expression = observable.expression
    known = expression.discontinuities
    if known.hidden & variables:
        return "a closed form jumps at expiry, or a function does not say where it jumps"
    if kinks and known.roots & variables:
        return "a root may touch zero, or a closed form be at expiry"
    monitored: list[tuple[Monitored, int]] = []  # and at every how many steps
    for each in known.differences:
        own = each.names & variables
        if (each.kink and not kinks) or not (own or each.functionals):
            continue
        if any(f.conditional for f in each.functionals):
            return "what is compared is that of the first time at which a condition holds"
        if not own and any(f.time is not None for f in each.functionals):
            return "what is compared is that of an earlier time"
        extremes = [f for f in each.functionals if f.kink]
        if not extremes:
            monitored.append((Monitored(each, monitors), every))
        elif len(each.functionals) > 1 or own or extremes[0].kink != "extreme":
            return "an extreme is compared with what is random too"
        elif "t" in each.names or schedule_of(problem) is not None:
            return "an extreme is compared with what changes with time"
        else:
            monitored.append((Monitored(each, monitors, extremes[0]), observable.every or 1))
    for monitor in monitors:
        functional = monitor.functional
        if monitor.date == 0:
            continue
        smooth = functional.kink in (None, "barrier") and not functional.conditional
        if kinks and not smooth and (functional.kink != "extreme" or functional in known.valued):
            return f"the slope jumps with the {functional.name} along the path"
        if functional.kink == "barrier" and functional.names & variables:
            if "t" in functional.names or schedule_of(problem) is not None:
                return "a barrier changes with time"
            monitored.append((Monitored(_touched(functional), monitors, functional), monitor.interval))
        inner = [x for each in functional.arguments for x in each.discontinuities.differences]
        inner = [x for x in inner if x.names & variables and (kinks or not x.kink)]
        # Where what is compared changes at once, most see it before and after, and `near` sees it after.
        if functional.sees_both and any(_changes_at_once(problem, x) for x in inner):
            return f"the {functional.name} along the path sees it before an event and after it"
        monitored += [(Monitored(x, monitors), monitor.interval) for x in inner]
    different = list(dict.fromkeys(monitored))
    return Smoothing(
        MonitoredDifferences(tuple(each for each, _ in different)), tuple(every for _, every in different)
    )


def _touched(functional: AbstractFunctional) -> Difference:
    """Where the chance not to touch a barrier has a kink, and the steeper a slope the shorter the steps."""
    return Difference("no_touch", 0, True, frozenset(), (functional,), lambda values: values[functional])


def _changes_at_once(problem, difference: Difference) -> bool:
    """Whether an event, or a curve, may change a difference at a time."""
    schedule = schedule_of(problem)
    if schedule is None:
        return False
    return bool(schedule.events) or not difference.names.isdisjoint(curves_of(problem))
