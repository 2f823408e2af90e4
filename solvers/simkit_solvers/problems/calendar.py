"""What happens when: parameters change with time, events change the state, and a run stops there."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.problem import AbstractODE

MOST_ROUNDS = 1000  # of events at one time that trigger one another
ENDLESS = -(2**28)  # what the count of an event gains that is one of those that do so without end
ON_STEP = 1e-6  # of a step: an event as near to a step's end as this is there
ROW, NODE = -2, -1  # what a stop is, if it is not an event
NO_FUNCTION = -1


class UnknownTimesError(ValueError):
    """The times of an event or of the grid are traced, so that their place among the steps is unknown."""


class AbstractChange(eqx.Module):
    """What an event does to the state.

    >>> from simkit_solvers import AbstractChange, Scalar
    >>> class Dose(AbstractChange):
    ...     amount: Scalar
    ...
    ...     def __call__(self, problem, t, y):
    ...         return y._replace(X=y.X + self.amount)
    >>> Dose(5.0)
    Dose(amount=5.0)
    """

    @abc.abstractmethod
    def __call__(self, problem: AbstractODE, t: jax.Array, y: PyTree) -> Any:
        """The state after the event, given the one before it; `problem` has the parameters."""


class AbstractCondition(eqx.Module):
    """A condition on which an event depends.

    >>> from simkit_solvers import AbstractChange, AbstractCondition, Event
    >>> class Many(AbstractCondition):
    ...     def __call__(self, problem, t, y):
    ...         return y.X >= 20
    >>> class Harvest(AbstractChange):
    ...     def __call__(self, problem, t, y):
    ...         return y._replace(X=0.0 * y.X)
    >>> Event(Harvest(), condition=Many()).triggered
    True
    """

    @abc.abstractmethod
    def __call__(self, problem: AbstractODE, t: jax.Array, y: PyTree) -> Any:
        """Whether it holds in a state, a boolean scalar; `problem` has the parameters."""


class Event(eqx.Module):
    """A change of the state: at given times, in increasing order, or whenever a condition becomes true.

    With a `condition` and `times` it happens at those times at which the condition holds. With a condition
    alone it is `triggered`: it happens whenever the condition holds and did not hold before. A condition that
    holds at first, or still holds after the event, has to become false in between.

    `times` is an array `(times,)`. `on` gives the event with `steps`, the numbers of the steps after which it
    happens on a grid of `of` equal steps.

    >>> import numpy as np
    >>> from simkit_solvers import AbstractChange, Event, Grid
    >>> class Halving(AbstractChange):
    ...     def __call__(self, problem, t, y):
    ...         return y._replace(X=y.X / 2)
    >>> event = Event(Halving(), times=np.array([1.0, 2.0]))
    >>> event.on(Grid(t0=0.0, dt=0.1, steps=40, every=1)).steps
    (10, 20)
    """

    change: AbstractChange
    times: jax.Array | np.ndarray | tuple[()] = ()
    steps: tuple[int, ...] | None = eqx.field(static=True, default=None)
    of: int = eqx.field(static=True, default=0)
    condition: AbstractCondition | None = None

    @property
    def triggered(self) -> bool:
        """Whether its condition decides when it happens."""
        return self.condition is not None and not len(self.times)

    def holds(self, problem: AbstractODE, t: Scalar, y: PyTree) -> jax.Array:
        """Whether its condition holds, true where it has none."""
        if self.condition is None:
            return jnp.bool_(True)
        return jnp.asarray(self.condition(problem, jnp.asarray(t), y), bool)

    def on(self, grid: Grid) -> "Event":
        """The event with its times as steps of a grid.

        Raises `ValueError` for a time that is not the end of a step, and `UnknownTimesError` for times that
        are not known yet.
        """
        if any(isinstance(x, Tracer) for x in (self.times, grid.t0, grid.dt)):
            raise UnknownTimesError("Event: its times and the grid must be numbers, or the steps be given")
        exact = (np.asarray(self.times, np.float64) - float(grid.t0)) / float(grid.dt)
        steps = np.rint(exact).astype(int)
        for time, wanted, step in zip(self.times, exact, steps, strict=True):
            if abs(wanted - step) > ON_STEP or not 0 <= step <= grid.steps:
                raise ValueError(
                    f"Event: the time {float(time):g} is not the end of one of the {grid.steps} steps; "
                    "choose steps that meet it"
                )
        return dataclasses.replace(self, steps=tuple(int(k) for k in steps), of=grid.steps)

    def steps_of(self, count: int) -> tuple[int, ...] | None:
        """The steps on a grid of another number of steps over the same time, `None` where it misses one."""
        scaled = [step * count for step in self.steps or ()]
        if self.steps is None or any(step % self.of for step in scaled):
            return None
        return tuple(step // self.of for step in scaled)

    def applied(self, due: jax.Array, problem: AbstractODE, t: Scalar, y: PyTree) -> PyTree:
        """The state after the event where it is `due`, else the state as it is."""
        # Where it is not due, no derivative goes into the change: it may be infinite, and zero times it NaN.
        gated = jax.tree.map(
            lambda x: jnp.where(due, x, jax.lax.stop_gradient(x)) if eqx.is_inexact_array(x) else x,
            (self.change, problem, t, y),
        )
        change, problem, t, before = gated
        new = change(problem, t, before)
        return jax.tree.map(lambda a, b: jnp.where(due, jnp.asarray(a, b.dtype), b), new, y)


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


class Stops(NamedTuple):
    """Where a run with steps of its own stops, in order: saved times, nodes and events.

    `which` is the number of an event, or `NODE` or `ROW`; `rows` are the places of the saved times, each
    behind everything else at the same time. `passed`, `(stops, functions)`, says which functions of time have
    a node at the time of a stop, there or at one of the stops before.
    """

    times: jax.Array
    which: jax.Array
    rows: jax.Array
    passed: jax.Array

    def around(self, span: Scalar) -> tuple[jax.Array, jax.Array]:
        """For each stop the times of the last node or event before it, and of the next, itself included.

        They are 0 and `span` where there is none.
        """
        changes = self.which != ROW
        last = jax.lax.cummax(jnp.where(changes, self.times, 0.0))
        following = jax.lax.cummin(jnp.where(changes, self.times, span), reverse=True)
        return jnp.concatenate([jnp.zeros_like(last[:1]), last[:-1]]), following


def stops_of(schedule: Schedule, start: Scalar, times: Float[Array, " times"]) -> Stops:
    """The stops of a run from `start`, of which the given times since then are saved.

    A stop at a saved time, but for rounding, is at the very same; how it moves remains its own.
    """
    dtype, span = times.dtype, times[-1]
    stops, kinds, owners = [], [], []

    def add(new, kind: int, owner: int) -> None:
        stops.append(new)
        kinds.append(np.full(len(new), kind))
        owners.append(np.full(len(new), owner))

    for i, function in enumerate(schedule.functions):
        for nodes in function.nodes:
            since = jnp.asarray(nodes, dtype) - start
            # Not jnp.clip, which halves the derivative at the ends.
            add(jnp.where(since < 0, 0.0, jnp.where(since > span, span, since)), NODE, i)
    for i, event in enumerate(schedule.events):
        add(jnp.asarray(event.times, dtype) - start, i, NO_FUNCTION)
    tolerance = 16 * jnp.finfo(dtype).eps * (jnp.abs(start) + span)

    def snapped(t):
        """The saved time to which `t` is equal up to rounding, else `t`."""
        near = jnp.searchsorted(times, t - tolerance)
        row = times[jnp.clip(near, 0, len(times) - 1)]
        at_row = jax.lax.stop_gradient(row) + (t - jax.lax.stop_gradient(t))
        return jnp.where(jnp.abs(t - row) <= tolerance, at_row, t)

    everything = jnp.concatenate([*(snapped(each) for each in stops), times])
    which, owner = (
        jnp.asarray(np.concatenate([*each, np.full(len(times), last)]), jnp.int32)
        for each, last in ((kinds, ROW), (owners, NO_FUNCTION))
    )
    order = jnp.argsort(everything, stable=True)
    places = jnp.argsort(order, stable=True)[-len(times) :]
    in_order = everything[order]
    own = owner[order][:, None] == np.arange(len(schedule.functions), dtype=np.int32)
    last = jax.lax.cummax(jnp.where(own, jax.lax.stop_gradient(in_order)[:, None], -jnp.inf))
    return Stops(in_order, which[order], places, last == in_order[:, None])
