"""Expressions of time, and events written as expressions, for scheduled problems."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.calendar import Schedule
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.event import AbstractChange, AbstractCondition
from simkit_solvers.problems.schedule import parameters_at

from simkit.expressions import Expression


class TimeExpression(AbstractTimeFunction):
    """The value of an expression of curves, constants and `t`."""

    constants: dict[str, Scalar]
    curves: dict[str, AbstractTimeFunction | Scalar]
    expression: Expression = eqx.field(static=True)

    @property
    def nodes(self):
        return tuple(
            nodes
            for curve in self.curves.values()
            if isinstance(curve, AbstractTimeFunction)
            for nodes in curve.nodes
        )

    def __call__(self, t):
        dtype = jnp.result_type(t)
        curves = {n: c(t) if isinstance(c, AbstractTimeFunction) else c for n, c in self.curves.items()}
        return jnp.asarray(self.expression({**self.constants, **curves, "t": t}), dtype)

    def within(self, t0, t1):
        return self._with_each(lambda curve: curve.within(t0, t1))

    def between(self, t0, t1):
        return self._with_each(lambda curve: curve.between(t0, t1))

    def _with_each(self, change: Callable[[AbstractTimeFunction], Any]):
        curves: dict[str, Any] = {
            n: change(c) if isinstance(c, AbstractTimeFunction) else c for n, c in self.curves.items()
        }
        changes = any(isinstance(c, AbstractTimeFunction) for c in curves.values())
        if changes or "t" in self.expression.names:
            return TimeExpression(self.constants, curves, self.expression)
        return self.expression({**self.constants, **curves})

    def prepared(self):
        curves: dict[str, Any] = {
            n: c.prepared() if isinstance(c, AbstractTimeFunction) else c for n, c in self.curves.items()
        }
        return TimeExpression(self.constants, curves, self.expression)


class SetVariables(AbstractChange):
    """Gives variables new values, all of them computed from the state before. `name` is the event's."""

    constants: dict[str, Scalar]
    values: tuple[tuple[str, Expression], ...] = eqx.field(static=True)
    name: str = eqx.field(static=True, default="")

    def __call__(self, problem, t, y):
        known = {**self.constants, **parameters_at(problem, t), **y._asdict(), "t": t}
        return y._replace(**{name: jnp.asarray(value(known), t.dtype) for name, value in self.values})


def event_names(schedule: Schedule | None) -> list[str]:
    """The names of the events; of those in Python the names of their classes."""
    return [] if schedule is None else _names(schedule, range(len(schedule.events)))


def triggered_events(schedule: Schedule | None) -> list[str]:
    """The names of the events whose conditions decide when they happen."""
    return [] if schedule is None else _names(schedule, schedule.triggered)


def counted_events(schedule: Schedule | None) -> list[str]:
    """The names of the events that have a condition."""
    return [] if schedule is None else _names(schedule, schedule.counted)


def given_events(schedule: Schedule | None, unit: str) -> str:
    """How often events without a condition happen, and when: `dose 7 times, first at 24 h, last at 168 h`."""
    events = () if schedule is None else schedule.events
    given = [i for i, event in enumerate(events) if event.condition is None and len(event.times)]
    after = "" if unit == "time" else f" {unit}"
    texts = []
    for i, name in zip(given, [] if schedule is None else _names(schedule, given), strict=True):
        first, last, count = *(f"{float(events[i].times[k]):g}{after}" for k in (0, -1)), len(events[i].times)
        when = f"{count:,} times, first at {first}, last at {last}" if count > 1 else f"once, at {first}"
        texts.append(f"{name} {when}")
    return "; ".join(texts)


def _names(schedule: Schedule, which: Iterable[int]) -> list[str]:
    changes = [schedule.events[i].change for i in which]
    return [each.name if isinstance(each, SetVariables) else type(each).__name__ for each in changes]


class Condition(AbstractCondition):
    """Whether an expression of the state holds, which is a condition."""

    constants: dict[str, Scalar]
    expression: Expression = eqx.field(static=True)

    def __call__(self, problem, t, y):
        known = {**self.constants, **parameters_at(problem, t), **y._asdict(), "t": t}
        return jnp.asarray(self.expression(known)) > 0.5
