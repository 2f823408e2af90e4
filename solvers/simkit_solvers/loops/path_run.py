"""One path as the fixed-grid loop steps through it."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit_solvers.grids.grid import Grid, TracedGrid
from simkit_solvers.loops.blocks import Method
from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.numerics.kernels import own_number
from simkit_solvers.numerics.traced import traced_once
from simkit_solvers.problems.calendar import Schedule, added
from simkit_solvers.problems.jump_diffusion import jumps_of_step
from simkit_solvers.problems.observe import AbstractObserver, happened_rows
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import as_solved, prepared, schedule_of, within
from simkit_solvers.random.draws import Draw
from simkit_solvers.random.noise import AbstractNoise, StepWords

JumpWords = tuple[StepWords, ...]  # of the jumps of a step


class AbstractRun(eqx.Module):
    """What the fixed-grid loop steps through: a path, alone or with derivatives that are carried along.

    It holds what a step reads in addition to the carry. Steps count from 0; `words` are of a step's jumps.
    """

    noise: eqx.AbstractVar[AbstractNoise | None]
    dt: eqx.AbstractVar[jax.Array]
    problem: eqx.AbstractVar[Any]
    # Such steps are long: each is traced once for all, and normals are drawn into memory.
    carries_derivatives: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def with_problem(self, problem: Any) -> "AbstractRun":
        """This run with another form of the problem."""

    @abc.abstractmethod
    def start(self, y0: PyTree) -> PyTree:
        """What is carried at step 0, after events."""

    @abc.abstractmethod
    def prepared(self, start: PyTree, draw: Draw, words: JumpWords | None) -> tuple["AbstractRun", PyTree]:
        """The run and its carry, ready for a loop; `draw` and `words` of a step may be mere shapes."""

    @abc.abstractmethod
    def step(self, carry: PyTree, k: jax.Array, draw: Draw, words: JumpWords | None) -> PyTree:
        """What is carried after step `k`."""

    @abc.abstractmethod
    def row(self, carry: PyTree, k: jax.Array) -> PyTree:
        """The values saved at step `k`."""

    @abc.abstractmethod
    def stepping(self) -> "AbstractRun":
        """The part of it that a step reads."""

    @abc.abstractmethod
    def per_path(self) -> "AbstractRun":
        """This run for a reverse pass, where each path has its own copy of each parameter."""


class Followed(NamedTuple):
    """What is accumulated along a path: by the observer, and how often events with a condition happened."""

    acc: PyTree
    happened: tuple[jax.Array, ...]


class PathRun(AbstractRun):
    """One path; it carries the state, the solver's own state and what is `Followed`.

    `events` are for each event the steps after which it happens.
    """

    problem: Any
    stepper: AbstractStepper
    observer: AbstractObserver
    noise: AbstractNoise | None
    t0: jax.Array
    dt: jax.Array
    events: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    carries_derivatives = False

    def with_problem(self, problem):
        return dataclasses.replace(self, problem=problem)

    def start(self, y0):
        begin, schedule, counts = self.after(jnp.uint32(0)), schedule_of(self.problem), ()
        if schedule is not None:
            due = [jnp.bool_(0 in steps) for steps in self.events]
            held = schedule.conditions(begin, self.t0, y0)
            y0, happened = schedule.after_events(due, held, begin, self.t0, y0)
            counts = happened.counts
        state = self.stepper.init(as_solved(begin), self.t0, self.dt, y0)
        return y0, state, Followed(self.observer.init(begin, self.t0, y0), counts)

    def prepared(self, start, draw, words):
        return self, start

    def step(self, carry: PyTree, k: jax.Array, draw: Draw, words: JumpWords | None) -> PyTree:
        y, state, followed = carry
        followed = self.driven(y, followed, k, draw)
        return self.finished(*self.advanced(y, state, k, draw), followed, k, words, self.held(k, y))

    def driven(self, y: PyTree, followed: Followed, k: jax.Array, draw: Draw) -> Followed:
        """What is followed with what the observer keeps of the draws of step `k`, before it."""
        acc = self.observer.driven(self.after(k), followed.acc, k, self.time(k), y, draw)
        return followed._replace(acc=acc)

    def advanced(self, y: PyTree, state: PyTree, k: jax.Array, draw: Draw) -> tuple[PyTree, PyTree]:
        """State and solver's state at the end of the solver's step."""
        return self.stepper.step(as_solved(self.after(k)), self.time(k), self.dt, y, draw, state)

    def held(self, k: jax.Array, y: PyTree) -> tuple:
        """Whether the condition of each event that is triggered holds at step `k`, before it."""
        schedule = schedule_of(self.problem)
        return () if schedule is None else schedule.conditions(self.after(k), self.time(k), y)

    def finished(
        self, y: PyTree, state: PyTree, followed: Followed, k: jax.Array, words: JumpWords | None, held: tuple
    ) -> tuple[PyTree, PyTree, Followed]:
        """State, solver's state and what is followed after jumps, the observer's update, and events.

        `held` are the conditions of events before the step.
        """
        during: Any = self.after(k)
        acc = followed.acc
        if words is not None:
            y, marks = jumps_of_step(during, self.time(k), self.dt, y, words)
            acc = self.observer.jumped(acc, k, marks)
        k = k + jnp.uint32(1)
        followed = followed._replace(acc=self.observer.update(during, acc, k, self.time(k), y, self.dt))
        if schedule_of(self.problem) is not None:
            due = [_is_in(k, steps) for steps in self.events]
            y, state, followed = _after_events(self, k, due, held, during, y, state, followed)
        return y, state, followed

    def row(self, carry, k):
        y, _, (acc, happened) = carry
        rows = self.observer.row(self.after(k), acc, self.time(k), y)
        return rows | happened_rows(self.observer, happened, self.dt.dtype)

    def stepping(self):
        return dataclasses.replace(self, noise=None)

    def per_path(self):
        def own(x):
            return own_number(x, self.noise) if eqx.is_inexact_array(x) and x.shape == () else x

        return self.with_problem(jax.tree.map(own, self.problem))

    def time(self, k: jax.Array) -> jax.Array:
        """When step `k` begins."""
        return self.t0 + k.astype(self.t0.dtype) * self.dt

    def after(self, k: jax.Array) -> AbstractODE:
        """The problem over the step that begins at step `k`."""
        if schedule_of(self.problem) is None:
            return self.problem
        return within(self.problem, self.time(k), self.time(k) + self.dt)


def path_run(
    problem: AbstractODE,
    method: Method,
    grid: Grid | TracedGrid,
    noise: AbstractNoise | None,
    observer: AbstractObserver,
) -> PathRun:
    """The run of a problem over a grid."""
    t0, dt = jnp.asarray(grid.t0, method.dtype), jnp.asarray(grid.dt, method.dtype)
    schedule = schedule_of(problem)
    events = () if schedule is None else event_steps(schedule, grid)
    driver = noise if method.components else None
    return PathRun(prepared(problem), method.stepper, observer, driver, t0, dt, events)


def once(method: Callable, run: AbstractRun, *arguments) -> Any:
    """`method(run, *arguments)`, traced once for all steps and all runs that step alike."""
    return traced_once(method, run.stepping(), *arguments)


def event_steps(schedule: Schedule, grid: Any) -> tuple[tuple[int, ...], ...]:
    """The steps after which each event happens."""
    steps_of_events = []
    for event in schedule.events:
        steps = (event if event.steps is not None else event.on(grid)).steps_of(grid.steps)
        if steps is None:
            raise ValueError(
                f"steps: {grid.steps} do not meet all times of an event, as {event.of} did; choose a multiple"
            )
        steps_of_events.append(steps)
    return tuple(steps_of_events)


def _is_in(k, steps: tuple[int, ...]):
    return jnp.any(k == jnp.asarray(_as_array(steps)))


@functools.lru_cache(maxsize=64)
def _as_array(steps: tuple[int, ...]) -> np.ndarray:
    """The steps as an array: always one object for equal steps, so that a program has it once."""
    return np.asarray(steps, np.uint32)


def _after_events(run: PathRun, k, due, held, before, y, state, followed: Followed):
    """State, solver's state and what is followed after the events at the end of a step, before step `k`.

    `before` is the problem over the step that ended. A solver that carries something starts afresh where a
    parameter jumps or an event happens.
    """
    t, after = run.time(k), run.after(k)
    schedule: Any = schedule_of(run.problem)
    new, happened = schedule.after_events(due, held, after, t, y)
    acc = run.observer.changed(followed.acc, k, t, (before, y), (after, new))
    if jax.tree.leaves(state):
        afresh = schedule.moved(t - 0.5 * run.dt, t + 0.5 * run.dt) | happened.any
        initial = run.stepper.restarted(as_solved(after), t, run.dt, new, state)
        state = jax.tree.map(
            lambda b, s: jnp.where(afresh, jnp.asarray(b, s.dtype), s) if eqx.is_array(s) else s,
            initial,
            state,
        )
    return new, state, Followed(acc, added(followed.happened, happened.counts))
