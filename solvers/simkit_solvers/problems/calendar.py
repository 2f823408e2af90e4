"""What happens when: parameters change with time, and events change the state and trigger one another."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.event import Event
from simkit_solvers.problems.problem import AbstractODE

MOST_ROUNDS = 1000  # of events at one time that trigger one another
ENDLESS = -(2**28)  # what the count of an event gains that is one of those that do so without end


class Schedule(eqx.Module):
    """Parameters and other quantities by name, as functions of time or numbers, and events in their order.

    >>> import numpy as np
    >>> from simkit_solvers import Curve, Schedule
    >>> curve = Curve(np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    >>> schedule = Schedule(parameters={"k": curve}, quantities={}, events=())
    >>> bool(schedule.moved(0.5, 1.5))  # a node lies between
    True
    """

    parameters: dict[str, AbstractTimeFunction | Scalar]
    quantities: dict[str, AbstractTimeFunction | Scalar]
    events: tuple[Event, ...]

    @property
    def functions(self) -> tuple[AbstractTimeFunction, ...]:
        """The parameters and quantities that change with time."""
        every = (*self.parameters.values(), *self.quantities.values())
        return tuple(each for each in every if isinstance(each, AbstractTimeFunction))

    @property
    def triggered(self) -> tuple[int, ...]:
        """Which of the events are triggered."""
        return tuple(i for i, event in enumerate(self.events) if event.triggered)

    @property
    def counted(self) -> tuple[int, ...]:
        """Which of the events have a condition, so that only a run shows how often they happen."""
        return tuple(i for i, event in enumerate(self.events) if event.condition is not None)

    def conditions(self, problem: AbstractODE, t: Scalar, y: PyTree) -> tuple[jax.Array, ...]:
        """Whether the condition of each event holds that is triggered."""
        return tuple(self.events[i].holds(problem, t, y) for i in self.triggered)

    def after_events(
        self, due: Sequence, held: Sequence, problem: AbstractODE, t: Scalar, y: PyTree
    ) -> tuple[PyTree, "Happened"]:
        """The state after the events at one time, and how often each has happened.

        `due` says of each event whether it has to happen now; `held` whether the conditions of those that are
        triggered held just before. Those come first whose conditions have become true, then the events at
        given times, each followed by those that it triggers.
        """
        if self.triggered:
            self, problem, y = _without_derivative((self, problem, y))
        y, happened = self._after_triggered(due, held, problem, t, y, self.none_happened)
        none = [jnp.bool_(False)] * len(self.events)
        for i, event in enumerate(self.events):
            if i in self.triggered:
                continue
            held = self.conditions(problem, t, y)
            now = due[i] & event.holds(problem, t, y)
            y = event.applied(now, problem, t, y)
            y, happened = self._after_triggered(none, held, problem, t, y, self._also(happened, i, now))
        return y, happened

    def _after_triggered(
        self, due: Sequence, held: Sequence, problem: AbstractODE, t: Scalar, y: PyTree, happened: "Happened"
    ) -> tuple[PyTree, "Happened"]:
        """The state after all events whose conditions have become true, and those that they trigger in turn.

        All whose conditions hold at once happen, in their order, whatever those before them have changed. One
        alone does not trigger itself: its condition holds after it, or is false. Several may go on without
        end; after `MOST_ROUNDS` the state is NaN, and the counts of those that go on are negative.
        """
        if not self.triggered:
            return y, happened
        due = [jnp.asarray(due[i], bool) for i in self.triggered]
        begin = _Cascade(y, tuple(due), tuple(held), happened, jnp.int32(0))
        end = self._one_round(problem, t, begin)
        if len(self.triggered) > 1:
            end = jax.lax.while_loop(
                lambda cascade: cascade.goes_on(self.conditions(problem, t, cascade.y)),
                lambda cascade: self._one_round(problem, t, cascade),
                end,
            )
        endless = end.rounds > MOST_ROUNDS
        often = MOST_ROUNDS // (4 * len(self.triggered))  # no more than all take part in turn
        y = jax.tree.map(lambda x: jnp.where(endless, jnp.asarray(jnp.nan, x.dtype), x), end.y)
        pairs = zip(happened.counts, end.happened.counts, strict=True)
        marked = tuple(jnp.where(endless & (n > before + often), n + ENDLESS, n) for before, n in pairs)
        return y, end.happened._replace(counts=marked)

    def _one_round(self, problem: AbstractODE, t: Scalar, cascade: "_Cascade") -> "_Cascade":
        """The cascade after the events that are due, or whose conditions hold and did not before."""
        y, _, held, happened, rounds = cascade
        held, holds = list(held), self.conditions(problem, t, y)
        for place, i in enumerate(self.triggered):
            now = cascade.due[place] | (holds[place] & ~held[place])
            y = self.events[i].applied(now, problem, t, y)
            held[place] = jnp.where(now, self.events[i].holds(problem, t, y), holds[place])
            happened = self._also(happened, i, now)
        none = tuple(jnp.zeros_like(due) for due in cascade.due)
        return _Cascade(y, none, tuple(held), happened, rounds + 1)

    @property
    def none_happened(self) -> "Happened":
        """That no event has happened."""
        return Happened(jnp.bool_(False), tuple(jnp.int32(0) for _ in self.counted))

    def _also(self, happened: "Happened", i: int, now: jax.Array) -> "Happened":
        """What has happened, and event `i` once more where it did so `now`."""
        once, pairs = now.astype(jnp.int32), zip(self.counted, happened.counts, strict=True)
        return Happened(happened.any | now, tuple(n + once if j == i else n for j, n in pairs))

    @property
    def nodes(self) -> list[jax.Array | np.ndarray]:
        """The times at which something is not smooth."""
        return [nodes for each in self.functions for nodes in each.nodes]

    def within(self, t0: Scalar, t1: Scalar) -> "Schedule":
        """The schedule from `t0` to `t1`."""

        return self._with_each(lambda function: function.within(t0, t1))

    def between(self, t0: Scalar, t1: Scalar) -> "Schedule":
        """The schedule from `t0` to `t1`, with no node between them."""
        return self._with_each(lambda function: function.between(t0, t1))

    def at_stop(self, t: Scalar, passed: Sequence, tiny: Scalar) -> "Schedule":
        """The schedule's numbers at a time; `passed` says of each function if a node there lies behind."""
        behind = iter(passed)

        def value(function: AbstractTimeFunction) -> jax.Array:
            before, after = function.within(t - tiny, t), function.within(t, t + tiny)
            return jnp.where(next(behind), value_at(after, t), value_at(before, t))

        return self._with_each(value)

    def prepared(self) -> "Schedule":
        """This schedule, with everything that does not depend on time computed once."""
        return self._with_each(lambda function: function.prepared())

    def _with_each(self, change: Callable[[AbstractTimeFunction], Any]) -> "Schedule":
        def changed(given) -> dict[str, Any]:
            return {
                name: change(each) if isinstance(each, AbstractTimeFunction) else each
                for name, each in given.items()
            }

        return Schedule(changed(self.parameters), changed(self.quantities), self.events)

    def moved(self, before: Scalar, after: Scalar) -> jax.Array:
        """Whether a node lies between two times."""
        inside = jnp.bool_(False)
        for nodes in self.nodes:
            times = jnp.asarray(nodes, jnp.result_type(before))
            inside = inside | jnp.any((times > before) & (times <= after))
        return inside


class Happened(NamedTuple):
    """Whether any event has happened, and how often each of those that have a condition, `int32`.

    A count is negative where the event is one of those that trigger one another without end.
    """

    any: jax.Array
    counts: tuple[jax.Array, ...]


class _Cascade(NamedTuple):
    """Events at one time that trigger one another: the state, what is due and has held, what has happened."""

    y: Any
    due: tuple[jax.Array, ...]
    held: tuple[jax.Array, ...]
    happened: Happened
    rounds: jax.Array

    def goes_on(self, holds: Sequence) -> jax.Array:
        """Whether a condition holds that did not before, and there were not too many rounds."""
        new = jnp.bool_(False)
        for now, before in zip(holds, self.held, strict=True):
            new = new | (now & ~before)
        return new & (self.rounds <= MOST_ROUNDS)


def value_at(each: Any, t: Scalar) -> Any:
    """The value of a function at a time; a number as it is."""
    return each(t) if isinstance(each, AbstractTimeFunction) else each


def added(counts: tuple, more: tuple) -> tuple:
    """How often each event has happened, given how often before and since."""
    return tuple(a + b for a, b in zip(counts, more, strict=True))


def _without_derivative(tree: PyTree) -> Any:
    """The same numbers, of which no derivative may be taken."""
    moving, rest = eqx.partition(tree, eqx.is_inexact_array)
    return eqx.combine(_refusing(moving), rest)


@jax.custom_jvp
def _refusing(tree: PyTree) -> PyTree:
    return tree


@_refusing.defjvp
def _refuse(primals, tangents):
    raise ValueError(
        "Event: its condition decides when it happens, and a derivative along the path does not see how that "
        "time moves; use finite differences of paths with the same noise"
    )
