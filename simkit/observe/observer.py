"""The observer: accumulates what observables need along a path, and gives their values at each row."""

import dataclasses
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import parameters_at, schedule_of

from simkit.expressions import Expression
from simkit.observe.exercise import Exercise, Policy
from simkit.observe.monitors import Monitor, value_of
from simkit.observe.observable import Observable, waits


class Accumulated(NamedTuple):
    """What an observer carries along a path: the step, accumulators of functionals, decisions to exercise.

    A decision is a pair: 1 while the option is held and 0 after, and the payment, 0 until then.
    """

    step: jax.Array
    functionals: tuple[tuple, ...]
    decisions: tuple[tuple, ...]


class Observer(AbstractObserver):
    """Each state variable and each observable under its own name.

    Path functionals (`simkit.functionals`) are monitored at each step, or every n-th for `every: n`. An
    observable that is a `hitting_time(c)` or `first(x, c)` has a second entry in rows, `waits(name)`: 1 until
    c holds, and 0 after.
    Names mean state variables, the model's parameters, `constants` and `t`, in this order. A decision to
    exercise early comes before events, and after jumps of parameters.

    `policies` are for the observables with early exercise, by name, as `longstaff_schwartz.with_policies`
    fits them. Without one, such an observable raises `ValueError`. `dates` are those given by constants, as
    fractions of the run's time: no path reads them, and they show a derivative whether it moves a date.
    `fractions` are the times of `at(x, s)` where paths have no common steps.
    """

    counts_events = True

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
        """The conditions of `first(x, c)` and `hitting_time(c)`, without repetition."""
        values, _ = self._environment(problem, t, y)
        return tuple(jnp.asarray(each(values), bool) for each in self._conditions)

    def held(self, problem, acc, which, t, y):
        values, dtype = self._environment(problem, t, y)
        condition = self._conditions[which]
        functionals = (
            monitor.held(before, values, dtype) if monitor.functional.condition == condition else before
            for monitor, before in zip(self.monitors, acc.functionals, strict=True)
        )
        return acc._replace(functionals=tuple(functionals))

    @property
    def _conditions(self) -> tuple[Expression, ...]:
        conditions = (monitor.functional.condition for monitor in self.monitors)
        return tuple(dict.fromkeys(each for each in conditions if each is not None))

    @property
    def monitors(self) -> tuple[Monitor, ...]:
        """The accumulators, without repetition."""
        return tuple(dict.fromkeys(each for o in self.observables for each in o.monitors))

    @property
    def exercised(self) -> tuple[tuple[Observable, Exercise], ...]:
        """The observables with early exercise."""
        return tuple((o, o.exercise) for o in self.observables if o.exercise is not None)

    def init(self, problem, t, y):
        values, dtype = self._environment(problem, t, y)
        accumulators = tuple(monitor.initial(values, dtype) for monitor in self.monitors)
        zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
        return Accumulated(jnp.uint32(0), accumulators, tuple((one, zero) for _ in self.exercised))

    def update(self, problem, acc, k, t, y, dt):
        values, dtype = self._environment(problem, t, y)
        functionals = tuple(
            monitor.updated(before, k, values, dt, dtype)
            for monitor, before in zip(self.monitors, acc.functionals, strict=True)
        )
        acc = Accumulated(k, functionals, acc.decisions)
        if schedule_of(problem) is not None:  # decided in `changed`, after the problem has changed
            return acc
        return self._decided(acc, k, values, dtype)

    def driven(self, problem, acc, k, t, y, draw):
        if not draw.parts or not any(monitor.middles for monitor in self.monitors):
            return acc
        functionals = (
            monitor.driven(state, self._middle(monitor, problem, t, y, draw)) if monitor.middles else state
            for monitor, state in zip(self.monitors, acc.functionals, strict=True)
        )
        return acc._replace(functionals=tuple(functionals))

    def _middle(self, monitor: Monitor, problem, t, y, draw) -> jax.Array:
        """How far x is from its mean at half the time of a step, given its ends, in standard deviations.

        It is the part of the noise that moves x, with the derivatives of the beginning of the step.
        """

        def x(y):
            values, dtype = self._environment(problem, t, y)
            return value_of(monitor.functional.argument, values, dtype)

        one, zero = jnp.ones_like(y[0]), jnp.zeros_like(y[0])
        count = len(draw.W)
        units = [problem.Noise(*(one if i == j else zero for i in range(count))) for j in range(count)]
        slopes = [jax.jvp(x, (y,), (problem.noise(t, y, unit),))[1] for unit in units]
        size = jnp.sqrt(sum(slope**2 for slope in slopes))
        moves = size > 0
        first, second = draw.parts
        away = [(a - b).astype(one.dtype) / 2**0.5 for a, b in zip(first.W, second.W, strict=True)]
        total = sum(s * z for s, z in zip(slopes, away, strict=True)) / jnp.where(moves, size, 1.0)
        return jnp.where(moves, total, away[0])

    def with_middles(self) -> "Observer":
        """The observer whose Brownian bridges over a step go through its middle, if it has any."""
        return dataclasses.replace(self, observables=tuple(each.with_middles() for each in self.observables))

    def _decided(self, acc: Accumulated, k, values, dtype) -> Accumulated:
        """The accumulators after the decisions at step `k`."""
        if not self.exercised:
            return acc
        functionals = self._functionals(acc, values, dtype)
        decisions = tuple(
            self._decision(observable, exercise, before, k, _visible(observable, values, functionals), dtype)
            for (observable, exercise), before in zip(self.exercised, acc.decisions, strict=True)
        )
        return acc._replace(decisions=decisions)

    def _decision(self, observable: Observable, exercise: Exercise, before, k, visible, dtype) -> tuple:
        """Whether the option is held after step `k`, 1 or 0, and its payment."""
        if observable.name not in self.policies:
            raise ValueError(
                f"{observable.name}: early exercise takes a policy; run the ensemble, or use the "
                "observer of `simkit.ensemble.early_exercise.longstaff_schwartz.with_policies`"
            )
        policy = self.policies[observable.name]

        def decided(before):
            held, payment = before
            value = value_of(observable.expression, visible, dtype)
            date = jnp.maximum(jnp.sum(dates <= k), 1) - 1
            inside = visible | {name: jnp.asarray(x, dtype)[date] for name, x in policy.held.items()}
            basis = [value_of(x, inside, dtype) for x in exercise.basis]
            continuation = jax.lax.stop_gradient(policy.continuation(date, basis))
            # At the last date nothing is given up. A NaN is paid rather than passed over.
            more = (value_of(observable.expression, inside, dtype) < continuation) & (
                date + 1 < exercise.dates
            )
            now = (held > 0) & ~((value <= 0) | more)
            return jnp.where(now, 0.0, held), jnp.where(now, value, payment)

        # A branch, which steps between dates pass by: the number of the step is that of all paths.
        dates = jnp.asarray(exercise.when, jnp.uint32)
        return jax.lax.cond(jnp.any(dates == k), decided, lambda before: before, before)

    def changed(self, acc, k, t, before, after):
        changed = self._changed(acc, k, t, before, after)
        if not self.exercised:
            return changed
        problem, then = self.at_decision(acc, k, t, before, after)
        values, dtype = self._environment(problem, t, before[1])
        return changed._replace(decisions=self._decided(then, k, values, dtype).decisions)

    def at_decision(self, acc, k, t, before, after) -> tuple[Any, Accumulated]:
        """What a decision at `t` sees, before events and after jumps of parameters: problem, accumulators."""
        schedule = schedule_of(after[0])
        state = before[1] if schedule is not None and schedule.events else after[1]
        return after[0], self._changed(acc, k, t, before, (after[0], state))

    def _changed(self, acc: Accumulated, k, t, before, after) -> Accumulated:
        """The accumulated values with the path functionals after the change; decisions stay."""
        then, dtype = self._environment(before[0], t, before[1])
        now, _ = self._environment(after[0], t, after[1])
        functionals = (
            monitor.changed(state, k, then, now, dtype)
            for monitor, state in zip(self.monitors, acc.functionals, strict=True)
        )
        return acc._replace(functionals=tuple(functionals))

    def row(self, problem, acc, t, y):
        values, dtype = self._environment(problem, t, y)
        functionals = self._functionals(acc, values, dtype)
        paid = {
            observable.name: payment
            for (observable, _), (_, payment) in zip(self.exercised, acc.decisions, strict=True)
        }
        rows = y._asdict()
        for observable in self.observables:
            if observable.exercise is None:
                visible = _visible(observable, values, functionals)
                rows[observable.name] = value_of(observable.expression, visible, dtype)
            else:
                rows[observable.name] = paid[observable.name]
            if (monitor := observable.first_time) is not None:
                rows[waits(observable.name)] = acc.functionals[self.monitors.index(monitor)][0]
        return rows

    def environment(self, problem, acc, t, y, monitors: tuple[Monitor, ...]) -> dict[Any, Any]:
        """What expressions see, with the values so far of these functionals."""
        values, dtype = self._environment(problem, t, y)
        functionals = self._functionals(acc, values, dtype)
        return values | {monitor.functional: functionals[monitor] for monitor in monitors}

    def _functionals(self, acc, values, dtype) -> dict[Monitor, Any]:
        """The value of each path functional so far."""
        return {
            monitor: monitor.value(state, acc.step, values, dtype)
            for monitor, state in zip(self.monitors, acc.functionals, strict=True)
        }

    def only(self, names: Container[str]) -> "Observer":
        """The observer of the state variables and of these observables."""
        observables = tuple(each for each in self.observables if each.name in names)
        return dataclasses.replace(self, observables=observables)

    def coarsened(self, factor: int) -> "Observer | None":
        """The observer of the same quantities on a grid of `factor` times as long steps.

        `None` when a functional is monitored at steps that this grid does not have. An integral over each
        step approximates one over time, and so has no dates of its own.
        """
        return self._with(each.coarsened(factor) for each in self.observables)

    def refined(self, factor: int) -> "Observer":
        """The observer of the same quantities on a grid of `factor` times as short steps."""
        return dataclasses.replace(self, observables=tuple(each.refined(factor) for each in self.observables))

    def spaced(self, spacing: int) -> "Observer | None":
        """The observer whose functionals over time see every `spacing`-th step; all else stays.

        `None` where a decision to exercise would use one between those steps.
        """
        return self._with(each.spaced(spacing) for each in self.observables)

    def _with(self, observables: Iterable[Observable | None]) -> "Observer | None":
        """The observer of these observables; `None` where one is missing."""
        changed = [each for each in observables if each is not None]
        if len(changed) < len(self.observables):
            return None
        return dataclasses.replace(self, observables=tuple(changed))

    def _environment(self, problem, t, y) -> tuple[dict[Any, Any], Any]:
        """Values by name in the state's dtype."""
        dtype = jnp.result_type(*y)
        used = {name for observable in self.observables for name in observable.names}
        numbers = {name: value for name, value in self.constants.items() if name in used}
        numbers |= {name: value for name, value in parameters_at(problem, t).items() if name in used}
        values: dict[Any, Any] = {name: jnp.asarray(value, dtype) for name, value in numbers.items()}
        return {"t": t, **values, **y._asdict()}, dtype


def _visible(observable: Observable, values: dict, functionals: dict[Monitor, Any]) -> dict[Any, Any]:
    """The values by name, and those of the path functionals as the observable monitors them."""
    return {**values, **{each.functional: functionals[each] for each in observable.monitors}}
