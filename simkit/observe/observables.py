"""Observables: expressions over the state and over the path so far, as accumulators in the loop."""

import dataclasses
from collections.abc import Container
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import parameters_at, schedule_of

from simkit.expressions import Expression
from simkit.functionals.functional import AbstractFunctional
from simkit.observe.exercise import Exercise, Policy
from simkit.observe.monitors import Monitor, value_of


def waits(name: str) -> str:
    """The name in rows of whether a hitting time still waits; with its space it is that of no observable."""
    return f"{name} waits"


@dataclasses.dataclass(frozen=True)
class Observable:
    """One observable; its path functionals look at every `every`-th step, each step if `None`.

    `dates` are the steps of those that look once, or the numbers of the observer's stops. With `exercise` it
    is what the expression gave at the date that a policy chose, and 0 until then. Functionals over time
    approximate by every `spacing`-th step, as the others look if `None`.
    """

    name: str
    expression: Expression
    every: int | None = None
    exercise: Exercise | None = None
    dates: tuple[tuple[AbstractFunctional, int], ...] = ()
    spacing: int | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that it is made of."""
        return (self.expression, *(self.exercise.basis if self.exercise else ()))

    @property
    def functionals(self) -> tuple[AbstractFunctional, ...]:
        """The path functionals in all of them."""
        return tuple(functional for expression in self.expressions for functional in expression.functionals)

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The accumulators of the path functionals."""
        dates = dict(self.dates)
        return tuple(
            Monitor(f, 1, dates[f]) if f in dates else Monitor(f, self._interval(f)) for f in self.functionals
        )

    def _interval(self, functional: AbstractFunctional) -> int:
        own = self.spacing if functional.over_time else None
        return own or self.every or 1

    @property
    def approximates(self) -> bool:
        """Whether it has a functional over time that takes in as many steps as there are."""
        free = self.every is None or self.spacing is not None
        return free and any(functional.over_time for functional in self.functionals)

    @property
    def is_dated(self) -> bool:
        """Whether one of them is about monitored steps as such rather than about continuous time."""
        return any(m.date is None and not m.functional.over_time for m in self.monitors)

    @property
    def hitting_time(self) -> Monitor | None:
        """The accumulator of the hitting time that it is, if it is nothing else."""
        whole = None if self.exercise else self.expression.whole
        return Monitor(whole, self._interval(whole)) if whole and whole.waits else None

    @property
    def names(self) -> frozenset[str]:
        """The names in all of them."""
        return frozenset().union(*(expression.names for expression in self.expressions))


class Observer(AbstractObserver):
    """Keeps each state variable and each observable under its own name.

    Path functionals (`simkit.functionals`) are monitored at each step, or every n-th for `every: n`. An
    observable that is a hitting time has a second entry in rows, `waits(name)`: 1 until then, and 0 after.
    Names mean state variables, the model's parameters, `constants` and `t`, in this order. A decision to
    exercise early comes before events, and after jumps of parameters.

    `policies` are for the observables with early exercise, by name; `longstaff_schwartz.with_policies` finds
    them. Without one, such an observable raises `ValueError`. `dates` are those that constants give, as parts
    of the run's time: no path reads them, and they show a derivative whether it moves a date. `fractions`
    are the times of `at(x, s)` where paths have no common steps.
    """

    constants: dict[str, Scalar]
    observables: tuple[Observable, ...] = eqx.field(static=True)
    policies: dict[str, Policy] = eqx.field(default_factory=dict)
    dates: dict[str, tuple] = eqx.field(default_factory=dict)
    fractions: tuple[float, ...] = eqx.field(static=True, default=())

    @property
    def stops(self) -> tuple[float, ...] | None:
        """The times of `at(x, s)`, if there are path functionals."""
        return self.fractions if self.monitors else None

    def conditions(self, problem, t, y):
        """Those of `first(x, c)` and `hitting_time(c)`, each once."""
        values, _ = self._environment(problem, t, y)
        return tuple(jnp.asarray(each(values), bool) for each in self._awaited)

    def held(self, problem, acc, which, t, y):
        values, dtype = self._environment(problem, t, y)
        awaited = self._awaited[which]
        kept = (
            monitor.held(before, values, dtype) if monitor.functional.condition == awaited else before
            for monitor, before in zip(self.monitors, acc[1], strict=True)
        )
        return acc[0], tuple(kept), *acc[2:]

    @property
    def _awaited(self) -> tuple[Expression, ...]:
        conditions = (monitor.functional.condition for monitor in self.monitors)
        return tuple(dict.fromkeys(each for each in conditions if each is not None))

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The accumulators, each once."""
        return tuple(dict.fromkeys(each for o in self.observables for each in o.monitors))

    @property
    def exercised(self) -> tuple[tuple[Observable, Exercise], ...]:
        """The observables with early exercise."""
        return tuple((o, o.exercise) for o in self.observables if o.exercise is not None)

    def init(self, problem, t, y):
        values, dtype = self._environment(problem, t, y)
        accumulators = tuple(monitor.initial(values, dtype) for monitor in self.monitors)
        zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
        return jnp.uint32(0), accumulators, tuple((one, zero) for _ in self.exercised)

    def update(self, problem, acc, k, t, y, dt):
        values, dtype = self._environment(problem, t, y)
        kept = (
            k,
            tuple(
                monitor.updated(before, k, values, dt, dtype)
                for monitor, before in zip(self.monitors, acc[1], strict=True)
            ),
        )
        if schedule_of(problem) is not None:  # decided in `changed`, once the problem has
            return *kept, acc[2]
        return *kept, self._decisions((*kept, acc[2]), k, values, dtype)

    def _decisions(self, acc, k, values, dtype) -> tuple:
        """For each right whether it is still held, and what was taken, after step `k`."""
        result = self._functionals(acc, values, dtype) if self.exercised else {}
        return tuple(
            self._exercised(observable, exercise, before, k, values, result, dtype)
            for (observable, exercise), before in zip(self.exercised, acc[2], strict=True)
        )

    def _exercised(
        self, observable: Observable, exercise: Exercise, before, k, values, result, dtype
    ) -> tuple:
        """Whether the right is still held, 1 or 0, and what was taken, after step `k`."""
        if observable.name not in self.policies:
            raise ValueError(
                f"{observable.name}: early exercise takes a policy; run the ensemble, or take the "
                "observer of `simkit.ensemble.early_exercise.longstaff_schwartz.with_policies`"
            )
        policy = self.policies[observable.name]

        def decided(before):
            held, taken = before
            seen = {**values, **_seen(observable, result)}
            value = value_of(observable.expression, seen, dtype)
            date = jnp.maximum(jnp.sum(dates <= k), 1) - 1
            region = seen | {name: jnp.asarray(x, dtype)[date] for name, x in policy.held.items()}
            basis = [value_of(x, region, dtype) for x in exercise.basis]
            going_on = jax.lax.stop_gradient(policy.continuation(date, basis))
            # At the last date nothing is given up. NaN is taken rather than passed over.
            waits = (value_of(observable.expression, region, dtype) < going_on) & (date + 1 < exercise.dates)
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
        accumulators = tuple(
            monitor.changed(kept, k, then, now, dtype)
            for monitor, kept in zip(self.monitors, acc[1], strict=True)
        )
        return acc[0], accumulators

    def row(self, problem, acc, t, y):
        values, dtype = self._environment(problem, t, y)
        result = self._functionals(acc, values, dtype)
        taken = {observable.name: x for (observable, _), (_, x) in zip(self.exercised, acc[2], strict=True)}
        rows = y._asdict()
        for observable in self.observables:
            if observable.exercise is None:
                seen = {**values, **_seen(observable, result)}
                rows[observable.name] = value_of(observable.expression, seen, dtype)
            else:
                rows[observable.name] = taken[observable.name]
            if (monitor := observable.hitting_time) is not None:
                rows[waits(observable.name)] = acc[1][self.monitors.index(monitor)][0]
        return rows

    def environment(self, problem, acc, t, y, monitors: tuple[Monitor, ...]) -> dict[Any, Any]:
        """What expressions see, with the values so far of these functionals."""
        values, dtype = self._environment(problem, t, y)
        result = self._functionals(acc, values, dtype)
        return values | {monitor.functional: result[monitor] for monitor in monitors}

    def _functionals(self, acc, values, dtype) -> dict[Monitor, Any]:
        """The value of each path functional so far."""
        return {
            monitor: monitor.value(kept, acc[0], values, dtype)
            for monitor, kept in zip(self.monitors, acc[1], strict=True)
        }

    def only(self, names: Container[str]) -> "Observer":
        """The observer of the state variables and of these observables."""
        observables = tuple(each for each in self.observables if each.name in names)
        return dataclasses.replace(self, observables=observables)

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
            if any(step % factor for _, step in observable.dates):
                return None
            dates = tuple((f, step // factor) for f, step in observable.dates)
            if every is not None or observable.is_dated:
                if (every or 1) % factor:
                    return None
                every = (every or 1) // factor
            changed.append(dataclasses.replace(observable, every=every, exercise=exercise, dates=dates))
        return dataclasses.replace(self, observables=tuple(changed))

    def refined(self, factor: int) -> "Observer":
        """The observer of the same quantities on a grid of `factor` times as short steps."""
        changed = []
        for observable in self.observables:
            every, exercise, spacing = observable.every, observable.exercise, observable.spacing
            if every is None and observable.approximates:
                spacing = 1
            if every is not None or observable.is_dated:
                every = (every or 1) * factor
            if exercise is not None:
                exercise = exercise.on_steps(factor)
            dates = tuple((f, step * factor) for f, step in observable.dates)
            there = dataclasses.replace(observable, every=every, exercise=exercise, dates=dates)
            changed.append(dataclasses.replace(there, spacing=spacing))
        return dataclasses.replace(self, observables=tuple(changed))

    def spaced(self, spacing: int) -> "Observer | None":
        """The observer whose functionals over time see every so many-th step; all else is as it was.

        `None` where a decision to exercise would see one that is out of date.
        """
        changed = []
        for observable in self.observables:
            if observable.approximates:
                exercise = observable.exercise
                if exercise is not None and any(step % spacing for step in exercise.when):
                    return None
                observable = dataclasses.replace(observable, spacing=spacing)
            changed.append(observable)
        return dataclasses.replace(self, observables=tuple(changed))

    def _environment(self, problem, t, y) -> tuple[dict[Any, Any], Any]:
        """Values by name in the state's dtype."""
        dtype = jnp.result_type(*y)
        used = {name for observable in self.observables for name in observable.names}
        numbers = {name: value for name, value in self.constants.items() if name in used}
        numbers |= {name: value for name, value in parameters_at(problem, t).items() if name in used}
        values: dict[Any, Any] = {name: jnp.asarray(value, dtype) for name, value in numbers.items()}
        return {"t": t, **values, **y._asdict()}, dtype


def _seen(observable: Observable, result: dict[Monitor, Any]) -> dict[AbstractFunctional, Any]:
    """Of all functionals those that the observable sees."""
    return {each.functional: result[each] for each in observable.monitors}
