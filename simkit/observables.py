"""Observables: expressions over the state and over the path so far, as accumulators in the loop."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.problem import Scalar
from simkit_solvers.schedule import parameters_at

from simkit.expression import Expression, Functional


@dataclasses.dataclass(frozen=True)
class Observable:
    """One observable; its path functionals look at every `every`-th step, each step if `None`."""

    name: str
    expression: Expression
    every: int | None = None


@dataclasses.dataclass(frozen=True)
class Monitor:
    """One path functional at every `every`-th step. Observables that agree in both share the accumulator."""

    functional: Functional
    every: int


class Observer(AbstractObserver):
    r"""Keeps each state variable and each observable under its own name.

    With monitored steps $n, 2n, \dots$ for `every: n` (n = 1 by default), `mean(x)` is the average over them,
    t0 excluded; `max(x)` and `min(x)` include t0; `integral(x)` is trapezoidal from t0. In float32 sums are
    compensated, so they hold over millions of steps. At a row before the first monitored step `mean(x)` is
    the present x. Names mean state variables, the model's parameters, `constants` and `t`, in this order.

    Where x changes at once, at an event or a jump of a parameter, `max(x)` and `min(x)` see both values, the
    integral goes up to the one and on from the other, and `mean(x)` takes the one after, as a row does.
    """

    constants: dict[str, Scalar]
    observables: tuple[Observable, ...] = eqx.field(static=True)

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The accumulators, each once."""
        found = (
            Monitor(functional, observable.every or 1)
            for observable in self.observables
            for functional in observable.expression.functionals
        )
        return tuple(dict.fromkeys(found))

    def init(self, problem, t, y):
        values, dtype = self._environment(problem, t, y)
        empty = _empty_sum(dtype)
        accumulators = []
        for monitor in self.monitors:
            x = _value(monitor.functional.argument, values, dtype)
            match monitor.functional.kind:
                case "mean":
                    accumulators.append((empty,))
                case "integral":
                    accumulators.append((empty, x))
                case _:
                    accumulators.append((x,))
        return jnp.uint32(0), tuple(accumulators)

    def update(self, problem, acc, k, t, y, dt):
        values, dtype = self._environment(problem, t, y)
        accumulators = []
        for monitor, before in zip(self.monitors, acc[1], strict=True):
            x = _value(monitor.functional.argument, values, dtype)
            after = _monitored(monitor, before, x, dt)
            if monitor.every > 1:
                due = k % jnp.uint32(monitor.every) == 0
                after = jax.tree.map(lambda new, old, due=due: jnp.where(due, new, old), after, before)
            accumulators.append(after)
        return k, tuple(accumulators)

    def changed(self, acc, k, t, before, after):
        then, dtype = self._environment(before[0], t, before[1])
        now, _ = self._environment(after[0], t, after[1])
        accumulators = []
        for monitor, kept in zip(self.monitors, acc[1], strict=True):
            x = _value(monitor.functional.argument, now, dtype)
            match monitor.functional.kind:
                case "mean":
                    new = (_added(kept[0], x - _value(monitor.functional.argument, then, dtype)),)
                case "integral":
                    new = (kept[0], x)
                case "max":
                    new = (jnp.maximum(kept[0], x),)
                case "min":
                    new = (jnp.minimum(kept[0], x),)
            if monitor.every > 1:
                due = k % jnp.uint32(monitor.every) == 0
                new = jax.tree.map(lambda a, b, due=due: jnp.where(due, a, b), new, kept)
            accumulators.append(new)
        return acc[0], tuple(accumulators)

    def row(self, problem, acc, t, y):
        values, dtype = self._environment(problem, t, y)
        found: dict[Monitor, Any] = {}
        for monitor, kept in zip(self.monitors, acc[1], strict=True):
            match monitor.functional.kind:
                case "mean":
                    count = acc[0] // jnp.uint32(monitor.every)
                    present = _value(monitor.functional.argument, values, dtype)
                    average = sum(kept[0]) / jnp.maximum(count, jnp.uint32(1)).astype(dtype)
                    found[monitor] = jnp.where(count > 0, average, present)
                case "integral":
                    found[monitor] = sum(kept[0])
                case _:
                    found[monitor] = kept[0]
        rows = y._asdict()
        for observable in self.observables:
            every = observable.every or 1
            functionals = {f: found[Monitor(f, every)] for f in observable.expression.functionals}
            rows[observable.name] = _value(observable.expression, {**values, **functionals}, dtype)
        return rows

    def coarsened(self, factor: int) -> "Observer | None":
        """The observer of the same quantities on a grid of `factor` times as long steps.

        `None` when a functional is monitored at steps that this grid has not. An integral over each step
        approximates one over time, and so has no dates of its own.
        """
        changed = []
        for observable in self.observables:
            every = observable.every
            dated = {functional.kind for functional in observable.expression.functionals} - {"integral"}
            if every is None and not dated:
                changed.append(observable)
            elif (every or 1) % factor == 0:
                changed.append(dataclasses.replace(observable, every=(every or 1) // factor))
            else:
                return None
        return dataclasses.replace(self, observables=tuple(changed))

    def refined(self, factor: int) -> "Observer":
        """The observer of the same quantities on a grid of `factor` times as short steps."""
        changed = []
        for observable in self.observables:
            dated = {functional.kind for functional in observable.expression.functionals} - {"integral"}
            every = None if observable.every is None and not dated else (observable.every or 1) * factor
            changed.append(dataclasses.replace(observable, every=every))
        return dataclasses.replace(self, observables=tuple(changed))

    def _environment(self, problem, t, y) -> tuple[dict[Any, Any], Any]:
        """Values by name in the state's dtype."""
        dtype = jnp.result_type(*y)
        used = {name for observable in self.observables for name in observable.expression.names}
        numbers = {name: value for name, value in self.constants.items() if name in used}
        numbers |= {name: value for name, value in parameters_at(problem, t).items() if name in used}
        values: dict[Any, Any] = {name: jnp.asarray(value, dtype) for name, value in numbers.items()}
        return {"t": t, **values, **y._asdict()}, dtype


def _monitored(monitor: Monitor, before: tuple, x, dt) -> tuple:
    """The accumulator after one more monitored value."""
    match monitor.functional.kind:
        case "mean":
            return (_added(before[0], x),)
        case "max":
            return (jnp.maximum(before[0], x),)
        case "min":
            return (jnp.minimum(before[0], x),)
        case "integral":
            total, previous = before
            return _added(total, 0.5 * (previous + x) * (monitor.every * dt)), x


def _empty_sum(dtype) -> tuple:
    """A sum of nothing: its value, and in float32 also what rounding has taken from it.

    Float64 holds without over any number of steps, and each number carried through the loop costs time.
    """
    zero = jnp.zeros((), dtype)
    return (zero,) if dtype == jnp.float64 else (zero, zero)


def _added(parts: tuple, x) -> tuple:
    """The sum with one more term. What rounding takes is brought back by the next term (Kahan, Knuth)."""
    if len(parts) == 1:
        return (parts[0] + x,)
    total, lost = parts
    x = x + lost
    new = total + x
    added = new - total
    return new, (total - (new - added)) + (x - added)


def _value(expression: Expression, values, dtype):
    return jnp.asarray(expression(values), dtype)
