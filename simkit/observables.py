"""Observables: expressions over the state and over the path so far, as accumulators in the loop."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.observe import AbstractObserver
from simkit_solvers.problem import Scalar
from simkit_solvers.schedule import parameters_at, schedule_of

from simkit.exercise import Exercise, Policy
from simkit.expression import Expression, Functional

OVER_TIME = ("integral", "no_touch")  # which approximate what takes no notice of steps


@dataclasses.dataclass(frozen=True)
class Observable:
    """One observable; its path functionals look at every `every`-th step, each step if `None`.

    With `exercise` it is what the expression gave at the date that a policy chose, and 0 until then.
    """

    name: str
    expression: Expression
    every: int | None = None
    exercise: Exercise | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that it is made of."""
        return (self.expression, *(self.exercise.basis if self.exercise else ()))

    @property
    def functionals(self) -> tuple[Functional, ...]:
        """The path functionals in all of them."""
        return tuple(functional for expression in self.expressions for functional in expression.functionals)

    @property
    def names(self) -> frozenset[str]:
        """The names in all of them."""
        return frozenset().union(*(expression.names for expression in self.expressions))


@dataclasses.dataclass(frozen=True)
class Monitor:
    """One path functional at every `every`-th step. Observables that agree in both share the accumulator."""

    functional: Functional
    every: int


class Observer(AbstractObserver):
    r"""Keeps each state variable and each observable under its own name.

    With monitored steps $n, 2n, \dots$ for `every: n` (n = 1 by default), `mean(x)` is the average over them,
    t0 excluded; `max(x)` and `min(x)` include t0; `integral(x)` is trapezoidal from t0. `no_touch(x, s)`
    is the product over them of $1 - e^{-2 x_a x_b / s_a^2 (t_b - t_a)}$, with a at the one before, or 0 where
    an x is not above 0: the probability that Brownian bridges of volatility s between these values stay above
    0 (Glasserman 2003, Monte Carlo Methods in Financial Engineering, doi:10.1007/978-0-387-21617-1, 6.4). In
    float32 sums are compensated, so they hold over millions of steps. At a row before the first monitored
    step `mean(x)` is the present x. Names mean state variables, the model's parameters, `constants` and `t`,
    in this order.

    Where x changes at once, at an event or a jump of a parameter, `max(x)` and `min(x)` see both values, the
    integral goes up to the one and on from the other, as does `no_touch(x, s)`, and `mean(x)` takes the one
    after, as a row does. A decision to exercise early comes before events, and after jumps of parameters.

    `policies` are for the observables with early exercise, by name; `longstaff_schwartz.with_policies` finds
    them. Without one, such an observable raises `ValueError`. `dates` are those that constants give, as parts
    of the run's time: no path reads them, and a derivative tells by them whether it moves a date.
    """

    constants: dict[str, Scalar]
    observables: tuple[Observable, ...] = eqx.field(static=True)
    policies: dict[str, Policy] = eqx.field(default_factory=dict)
    dates: dict[str, tuple] = eqx.field(default_factory=dict)

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The accumulators, each once."""
        found = (
            Monitor(functional, observable.every or 1)
            for observable in self.observables
            for functional in observable.functionals
        )
        return tuple(dict.fromkeys(found))

    @property
    def exercised(self) -> tuple[tuple[Observable, Exercise], ...]:
        """The observables with early exercise."""
        return tuple((o, o.exercise) for o in self.observables if o.exercise is not None)

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
                case "no_touch":
                    above = jnp.where(x > 0, jnp.ones_like(x), jnp.zeros_like(x))
                    accumulators.append((above, x, _volatility(monitor, values, dtype)))
                case _:
                    accumulators.append((x,))
        zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
        return jnp.uint32(0), tuple(accumulators), tuple((one, zero) for _ in self.exercised)

    def update(self, problem, acc, k, t, y, dt):
        values, dtype = self._environment(problem, t, y)
        accumulators = []
        for monitor, before in zip(self.monitors, acc[1], strict=True):
            x = _value(monitor.functional.argument, values, dtype)
            after = _monitored(monitor, before, x, dt)
            if monitor.functional.kind == "no_touch":
                after = *after, _volatility(monitor, values, dtype)
            if monitor.every > 1:
                due = k % jnp.uint32(monitor.every) == 0
                after = jax.tree.map(lambda new, old, due=due: jnp.where(due, new, old), after, before)
            accumulators.append(after)
        kept = k, tuple(accumulators)
        if schedule_of(problem) is not None:  # decided in `changed`, once the problem has
            return *kept, acc[2]
        return *kept, self._decisions((*kept, acc[2]), k, values, dtype)

    def _decisions(self, acc, k, values, dtype) -> tuple:
        """For each right whether it is still held, and what was taken, after step `k`."""
        found = self._functionals(acc, values, dtype) if self.exercised else {}
        return tuple(
            self._exercised(observable, exercise, before, k, values, found, dtype)
            for (observable, exercise), before in zip(self.exercised, acc[2], strict=True)
        )

    def _exercised(
        self, observable: Observable, exercise: Exercise, before, k, values, found, dtype
    ) -> tuple:
        """Whether the right is still held, 1 or 0, and what was taken, after step `k`."""
        if observable.name not in self.policies:
            raise ValueError(
                f"{observable.name}: early exercise takes a policy; run the ensemble, or take the "
                "observer of `simkit.longstaff_schwartz.with_policies`"
            )
        policy = self.policies[observable.name]

        def decided(before):
            held, taken = before
            seen = {**values, **_seen(observable, found)}
            value = _value(observable.expression, seen, dtype)
            date = jnp.maximum(jnp.sum(dates <= k), 1) - 1
            region = seen | {name: jnp.asarray(x, dtype)[date] for name, x in policy.held.items()}
            basis = [_value(x, region, dtype) for x in exercise.basis]
            going_on = jax.lax.stop_gradient(policy.continuation(date, basis))
            # At the last date nothing is given up. NaN is taken rather than passed over.
            waits = (_value(observable.expression, region, dtype) < going_on) & (date + 1 < exercise.dates)
            now = (held > 0) & ~((value <= 0) | waits)
            return jnp.where(now, 0.0, held), jnp.where(now, value, taken)

        # A branch, which steps between dates pass by: the number of the step is that of all paths.
        dates = jnp.asarray(exercise.when, jnp.uint32)
        return jax.lax.cond(jnp.any(dates == k), decided, lambda before: before, before)

    def changed(self, acc, k, t, before, after):
        kept = self._changed(acc, k, t, before, after)
        if not self.exercised:
            return *kept, acc[2]
        problem, seen = self.at_decision(acc, k, t, before, after)
        values, dtype = self._environment(problem, t, before[1])
        return *kept, self._decisions(seen, k, values, dtype)

    def at_decision(self, acc, k, t, before, after) -> tuple[Any, tuple]:
        """What a decision at `t` sees, before events and after jumps of parameters: problem, accumulators."""
        schedule = schedule_of(after[0])
        state = before[1] if schedule is not None and schedule.events else after[1]
        return after[0], (*self._changed(acc, k, t, before, (after[0], state)), acc[2])

    def _changed(self, acc, k, t, before, after) -> tuple:
        """How many steps there were, and the accumulators of the path functionals."""
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
                case "no_touch":
                    new = (jnp.where(x > 0, kept[0], 0.0), x, _volatility(monitor, now, dtype))
            if monitor.every > 1:
                due = k % jnp.uint32(monitor.every) == 0
                new = jax.tree.map(lambda a, b, due=due: jnp.where(due, a, b), new, kept)
            accumulators.append(new)
        return acc[0], tuple(accumulators)

    def row(self, problem, acc, t, y):
        values, dtype = self._environment(problem, t, y)
        found = self._functionals(acc, values, dtype)
        taken = {observable.name: x for (observable, _), (_, x) in zip(self.exercised, acc[2], strict=True)}
        rows = y._asdict()
        for observable in self.observables:
            if observable.exercise is None:
                seen = {**values, **_seen(observable, found)}
                rows[observable.name] = _value(observable.expression, seen, dtype)
            else:
                rows[observable.name] = taken[observable.name]
        return rows

    def environment(self, problem, acc, t, y, every: int) -> dict[Any, Any]:
        """What expressions see, with the values so far of the functionals at every `every`-th step."""
        values, dtype = self._environment(problem, t, y)
        found = self._functionals(acc, values, dtype)
        return values | {each.functional: x for each, x in found.items() if each.every == every}

    def _functionals(self, acc, values, dtype) -> dict[Monitor, Any]:
        """The value of each path functional so far."""
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
        return found

    def coarsened(self, factor: int) -> "Observer | None":
        """The observer of the same quantities on a grid of `factor` times as long steps.

        `None` when a functional is monitored at steps that this grid has not. An integral over each step
        approximates one over time, and so has no dates of its own.
        """
        changed = []
        for observable in self.observables:
            every, exercise = observable.every, observable.exercise
            if exercise is not None and any(step % factor for step in exercise.when):
                return None
            if exercise is not None:
                exercise = exercise.on_steps(1 / factor)
            if every is not None or _is_dated(observable):
                if (every or 1) % factor:
                    return None
                every = (every or 1) // factor
            changed.append(dataclasses.replace(observable, every=every, exercise=exercise))
        return dataclasses.replace(self, observables=tuple(changed))

    def refined(self, factor: int) -> "Observer":
        """The observer of the same quantities on a grid of `factor` times as short steps."""
        changed = []
        for observable in self.observables:
            every, exercise = observable.every, observable.exercise
            if every is not None or _is_dated(observable):
                every = (every or 1) * factor
            if exercise is not None:
                exercise = exercise.on_steps(factor)
            changed.append(dataclasses.replace(observable, every=every, exercise=exercise))
        return dataclasses.replace(self, observables=tuple(changed))

    def _environment(self, problem, t, y) -> tuple[dict[Any, Any], Any]:
        """Values by name in the state's dtype."""
        dtype = jnp.result_type(*y)
        used = {name for observable in self.observables for name in observable.names}
        numbers = {name: value for name, value in self.constants.items() if name in used}
        numbers |= {name: value for name, value in parameters_at(problem, t).items() if name in used}
        values: dict[Any, Any] = {name: jnp.asarray(value, dtype) for name, value in numbers.items()}
        return {"t": t, **values, **y._asdict()}, dtype


def _is_dated(observable: Observable) -> bool:
    """Whether it looks at the path at steps as such, rather than between them."""
    return any(functional.kind not in OVER_TIME for functional in observable.functionals)


def _seen(observable: Observable, found: dict[Monitor, Any]) -> dict[Functional, Any]:
    """Of all functionals those that the observable sees."""
    return {f: found[Monitor(f, observable.every or 1)] for f in observable.functionals}


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
        case "no_touch":
            alive, previous, volatility = before
            return alive * _untouched(previous, x, volatility**2 * (monitor.every * dt)), x


def _untouched(a, b, variance):
    """The probability that a Brownian bridge from a to b of this variance stays above 0."""
    inside = (a > 0) & (b > 0)
    still = variance <= 0
    # In place of values that would make NaN of derivatives on paths whose values are finite.
    product = jnp.where(inside, a * b, 1.0)
    missed = -jnp.expm1(-2 * product / jnp.where(still, 1.0, variance))
    return jnp.where(inside, jnp.where(still, 1.0, missed), 0.0)


def _volatility(monitor: Monitor, values, dtype):
    volatility = monitor.functional.volatility
    if volatility is None:
        raise TypeError("no_touch takes a volatility")
    return _value(volatility, values, dtype)


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
