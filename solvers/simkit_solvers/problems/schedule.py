"""Problems with a calendar: parameters that change with time, and events that change the state.

A scheduled problem stands for the model it was made of. The loops ask for it over one step at a time
(`within`), so that a jump of a parameter at the end of a step is on the right side of it.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.calculus import Converted
from simkit_solvers.problems.curve import AbstractTimeFunction
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Calculus, NoiseKind, parameters_of
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork, ChemicalLangevin

ON_STEP = 1e-6  # of a step: an event as near to a step's end as this is there
ROW, NODE = -2, -1  # what a stop is, if it is not an event


class UnknownTimesError(ValueError):
    """The times of an event, or of the steps that meet it, are traced, and have no place among the steps."""


class AbstractChange(eqx.Module):
    """What an event does to the state."""

    @abc.abstractmethod
    def __call__(self, problem: Any, t: jax.Array, y: PyTree) -> Any:
        """The state after the event, given the one before it; `problem` has the parameters."""


class Event(eqx.Module):
    """A change of the state at given times, in increasing order.

    `steps` are the same times on a grid of `of` equal steps, where they were found on one (`on`).
    """

    change: AbstractChange
    times: jax.Array | np.ndarray
    steps: tuple[int, ...] | None = eqx.field(static=True, default=None)
    of: int = eqx.field(static=True, default=0)

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

    def applied(self, due: jax.Array, problem: Any, t: Scalar, y: PyTree) -> PyTree:
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
    """Parameters and other quantities by name, as functions of time or numbers, and events in their order."""

    parameters: dict[str, AbstractTimeFunction | Scalar]
    quantities: dict[str, AbstractTimeFunction | Scalar]
    events: tuple[Event, ...]

    @property
    def functions(self) -> tuple[AbstractTimeFunction, ...]:
        """What changes with time."""
        found = (*self.parameters.values(), *self.quantities.values())
        return tuple(each for each in found if isinstance(each, AbstractTimeFunction))

    @property
    def nodes(self) -> list[jax.Array | np.ndarray]:
        """The times at which something is not smooth."""
        return [nodes for each in self.functions for nodes in each.nodes]

    def within(self, t0: Scalar, t1: Scalar) -> "Schedule":
        """The same from `t0` to `t1`."""

        return self._with_each(lambda function: function.within(t0, t1))

    def prepared(self) -> "Schedule":
        """The same with all computed that does not depend on time."""
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
        found = jnp.bool_(False)
        for nodes in self.nodes:
            times = jnp.asarray(nodes, jnp.result_type(before))
            found = found | jnp.any((times > before) & (times <= after))
        return found


class ScheduledODE(AbstractODE):
    r"""$dy/dt = f(t, y; \theta(t))$: an ordinary equation whose parameters change, with events."""

    original: AbstractODE
    schedule: Schedule
    State: type = eqx.field(static=True)

    def drift(self, t, y):
        return _at(self, t).drift(t, y)


class ScheduledSDE(AbstractSDE):
    r"""$dy = f(t, y; \theta(t))\,dt + g(t, y; \theta(t))\,dW$, with events."""

    original: AbstractSDE
    schedule: Schedule
    State: type = eqx.field(static=True)
    Noise: type = eqx.field(static=True)
    calculus: Calculus = eqx.field(static=True)
    noise_kind: NoiseKind = eqx.field(static=True)

    @property
    def smooth(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the model."""
        return self.original.smooth

    def drift(self, t, y):
        return _at(self, t).drift(t, y)

    def noise(self, t, y, dW):
        return _at(self, t).noise(t, y, dW)


class ScheduledJumpDiffusion(ScheduledSDE, AbstractJumpDiffusion):
    """A jump diffusion whose parameters change, with events."""

    original: AbstractJumpDiffusion

    @property
    def jumps_commute(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether they do in the model."""
        return self.original.jumps_commute

    def intensity(self, t, y):
        return _at(self, t).intensity(t, y)

    def marks(self, t):
        return _at(self, t).marks(t)

    def jump(self, t, y, z):
        return _at(self, t).jump(t, y, z)


class ScheduledNetwork(AbstractReactionNetwork):
    """A reaction network whose rates change, with events."""

    original: AbstractReactionNetwork
    schedule: Schedule
    State: type = eqx.field(static=True)

    @property
    def reactions(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the model."""
        return self.original.reactions

    def rates(self, t, y):
        return _at(self, t).rates(t, y)

    def propensities(self, t, y):
        return _at(self, t).propensities(t, y)

    def drift(self, t, y):
        return _at(self, t).drift(t, y)


Scheduled = ScheduledODE | ScheduledSDE | ScheduledNetwork


def scheduled(
    problem: AbstractODE,
    parameters: Mapping[str, AbstractTimeFunction] | None = None,
    quantities: Mapping[str, AbstractTimeFunction] | None = None,
    events: tuple[Event, ...] = (),
) -> AbstractODE:
    """The problem with functions of time instead of some parameters, and with events.

    `quantities` are functions of time that observers may read. Events at the same time happen in the order in
    which they are given. Raises `ValueError` for an unknown parameter.
    """
    known = parameters_of(problem)
    for name in parameters or {}:
        if name not in known:
            raise ValueError(f"{type(problem).__name__} has no parameter {name!r}; it has {', '.join(known)}")
    schedule = Schedule(dict(parameters or {}), dict(quantities or {}), tuple(events))
    if isinstance(problem, AbstractSDE):
        kind: Any = ScheduledJumpDiffusion if isinstance(problem, AbstractJumpDiffusion) else ScheduledSDE
        return kind(
            original=problem,
            schedule=schedule,
            State=problem.State,
            Noise=problem.Noise,
            calculus=problem.calculus,
            noise_kind=problem.noise_kind,
        )
    if isinstance(problem, AbstractReactionNetwork):
        return ScheduledNetwork(original=problem, schedule=schedule, State=problem.State)
    return ScheduledODE(original=problem, schedule=schedule, State=problem.State)


def model_in(problem: AbstractODE) -> AbstractODE:
    """The problem without the calculus it is read in and the process it is seen as."""
    while isinstance(problem, Converted | ChemicalLangevin):
        problem = problem.original
    return problem


def model_of(problem: AbstractODE) -> AbstractODE:
    """The model that a problem was made of: it has the parameters and the name."""
    problem = model_in(problem)
    return problem.original if isinstance(problem, Scheduled) else problem


def schedule_of(problem: AbstractODE) -> Schedule | None:
    """The schedule of a problem, `None` where it has none."""
    model = model_in(problem)
    return model.schedule if isinstance(model, Scheduled) else None


def is_changed(problem: AbstractODE) -> bool:
    """Whether a problem does something else than its model: parameters change, or events happen."""
    schedule = schedule_of(problem)
    return schedule is not None and bool(schedule.parameters or schedule.events)


def parameters_at(problem: AbstractODE, t: Scalar) -> dict[str, Any]:
    """The parameters and the scheduled quantities at a time, by name."""
    model = model_in(problem)
    if not isinstance(model, Scheduled):
        return {name: getattr(model, name) for name in parameters_of(model)}
    own = {name: getattr(model.original, name) for name in parameters_of(model.original)}
    changing = {**model.schedule.quantities, **model.schedule.parameters}
    return own | {name: _value(each, t) for name, each in changing.items()}


def within(problem: AbstractODE, t0: Scalar, t1: Scalar) -> AbstractODE:
    """The problem over one step, or any time in which nodes at the ends lie outside."""
    if isinstance(problem, Scheduled):
        return dataclasses.replace(problem, schedule=problem.schedule.within(t0, t1))
    return _rebuilt(problem, lambda original: within(original, t0, t1))


def prepared(problem: AbstractODE) -> AbstractODE:
    """The problem for a loop over many times: what does not depend on time is computed once."""
    if isinstance(problem, Scheduled):
        return dataclasses.replace(problem, schedule=problem.schedule.prepared())
    return _rebuilt(problem, prepared)


def as_solved(problem: AbstractODE) -> AbstractODE:
    """What a solver sees: the model itself, if no parameter of a problem `within` a time changes there."""
    if not isinstance(problem, Scheduled):
        return _rebuilt(problem, as_solved)
    numbers = problem.schedule.parameters
    if any(isinstance(each, AbstractTimeFunction) for each in numbers.values()):
        return problem
    return _with(problem.original, numbers)


def _rebuilt(problem: AbstractODE, change: Callable[[Any], Any]) -> AbstractODE:
    """A problem read in a calculus or seen as a process, made of another one."""
    if not isinstance(problem, Converted | ChemicalLangevin):
        return problem
    inner = change(problem.original)
    if inner is problem.original:
        return problem
    return Converted(inner, problem.calculus) if isinstance(problem, Converted) else ChemicalLangevin(inner)


class Stops(NamedTuple):
    """Where a run with steps of its own stops, in order: saved times, nodes and events.

    `which` is the number of an event, or `NODE` or `ROW`; `rows` are the places of the saved times, each
    behind everything else at the same time.
    """

    times: jax.Array
    which: jax.Array
    rows: jax.Array


def stops_of(schedule: Schedule, start: Scalar, times: Float[Array, " times"]) -> Stops:
    """The stops of a run from `start`, of which the times since then are saved that are given."""
    dtype, span = times.dtype, times[-1]
    nodes = [jnp.clip(jnp.asarray(nodes, dtype) - start, 0.0, span) for nodes in schedule.nodes]
    found, kinds = [*nodes], [np.full(len(each), NODE) for each in nodes]
    for i, event in enumerate(schedule.events):
        found.append(jnp.asarray(event.times, dtype) - start)
        kinds.append(np.full(len(event.times), i))
    tolerance = 16 * jnp.finfo(dtype).eps * (jnp.abs(start) + span)

    def snapped(t):
        """The saved time that one is, but for rounding."""
        near = jnp.searchsorted(times, t - tolerance)
        row = times[jnp.clip(near, 0, len(times) - 1)]
        return jnp.where(jnp.abs(t - row) <= tolerance, row, t)

    everything = jnp.concatenate([*(snapped(each) for each in found), times])
    which = jnp.asarray(np.concatenate([*kinds, np.full(len(times), ROW)]), jnp.int32)
    order = jnp.argsort(everything, stable=True)
    places = jnp.argsort(order, stable=True)[-len(times) :]
    return Stops(everything[order], which[order], places)


def just_after(problem: AbstractODE, t: Scalar, start: Scalar, span: Scalar) -> AbstractODE:
    """The problem as it goes on after a time, also where rounding has put this before a node."""
    tiny = 16 * jnp.finfo(jnp.result_type(t)).eps * (jnp.abs(start) + span)
    return within(problem, t, t + tiny)


def _value(each, t):
    return each(t) if isinstance(each, AbstractTimeFunction) else each


def _at(problem: Scheduled, t) -> Any:
    """The model with its parameters at a time."""
    return _with(problem.original, {k: _value(each, t) for k, each in problem.schedule.parameters.items()})


def _with(model: Any, numbers: Mapping[str, Any]) -> Any:
    if not numbers:
        return model
    return eqx.tree_at(lambda m: [getattr(m, name) for name in numbers], model, list(numbers.values()))
