"""One path as the fixed-grid loop steps through it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from simkit_solvers.loops.step import AbstractStepper
from simkit_solvers.numerics.traced import traced_once
from simkit_solvers.problems.jump_diffusion import jumps_of_step
from simkit_solvers.problems.observe import AbstractObserver
from simkit_solvers.problems.schedule import Schedule, as_solved, schedule_of, within
from simkit_solvers.random.noise import AbstractNoise


class PathRun(NamedTuple):
    """What a step reads beside the carry."""

    problem: Any
    stepper: AbstractStepper
    observer: AbstractObserver
    noise: AbstractNoise | None
    t0: jax.Array
    dt: jax.Array

    def start(self, y0, tables):
        """State, solver's state and accumulators at step 0, after events."""
        begin, schedule = self.after(jnp.uint32(0)), schedule_of(self.problem)
        if schedule is not None:
            due = [jnp.bool_(0 in table) for table in tables]
            y0 = _with_events(schedule, due, begin, self.t0, y0)
        state = self.stepper.init(as_solved(begin), self.t0, self.dt, y0)
        return y0, state, self.observer.init(begin, self.t0, y0)

    def step(self, carry, k, draw, words, tables):
        """The same after step `k`; `words` are of its jumps, `tables` the steps after which events happen."""
        y, state, acc = carry
        acc = self.observer.driven(acc, k, draw)
        return self.finished(*self.advanced(y, state, k, draw), acc, k, words, tables)

    def advanced(self, y, state, k, draw):
        """State and solver's state at the end of the solver's step."""
        return self.stepper.step(as_solved(self.after(k)), self.time(k), self.dt, y, draw, state)

    def finished(self, y, state, acc, k, words, tables):
        """State, solver's state and accumulators after jumps, a look at the path, and events."""
        during: Any = self.after(k)
        if words is not None:
            y, marks = jumps_of_step(during, self.time(k), self.dt, y, words)
            acc = self.observer.jumped(acc, k, marks)
        k = k + jnp.uint32(1)
        acc = self.observer.update(during, acc, k, self.time(k), y, self.dt)
        if schedule_of(self.problem) is not None:
            due = [_is_in(k, table) for table in tables]
            y, state, acc = _turned(self, k, due, during, y, state, acc)
        return y, state, acc

    def row(self, carry, k):
        """What the observer keeps at step `k`."""
        y, _, acc = carry
        return self.observer.row(self.after(k), acc, self.time(k), y)

    def stepping(self):
        """What a step reads of it."""
        return self._replace(noise=None)

    def per_path(self):
        """The same for a reverse pass."""
        return self._replace(problem=_per_path(self.problem, self.noise))

    def time(self, k):
        return self.t0 + k.astype(self.t0.dtype) * self.dt

    def after(self, k):
        """The problem over the step that begins at step `k`."""
        if schedule_of(self.problem) is None:
            return self.problem
        return within(self.problem, self.time(k), self.time(k) + self.dt)


def stepped_once(run, carry, k, draw, words, tables):
    """`run.step`, traced once for all steps and all runs that step alike."""
    return traced_once(_step, run.stepping(), carry, k, draw, words, tables)


def advanced_once(run: PathRun, y, state, k, draw):
    """`run.advanced`, the same."""
    return traced_once(_advanced, run.stepping(), y, state, k, draw)


def row_once(run, carry, k):
    """`run.row`, the same."""
    return traced_once(_row, run.stepping(), carry, k)


def _row(run, carry, k):
    return run.row(carry, k)


def _step(run, carry, k, draw, words, tables):
    return run.step(carry, k, draw, words, tables)


def _advanced(run, y, state, k, draw):
    return run.advanced(y, state, k, draw)


def event_steps(schedule: Schedule, grid: Any) -> list[np.ndarray]:
    """The steps after which each event happens."""
    tables = []
    for event in schedule.events:
        steps = (event if event.steps is not None else event.on(grid)).steps_of(grid.steps)
        if steps is None:
            raise ValueError(
                f"steps: {grid.steps} do not meet all times of an event, as {event.of} did; choose a multiple"
            )
        tables.append(np.asarray(steps, np.uint32))
    return tables


def _is_in(k, table: np.ndarray):
    return jnp.any(k == jnp.asarray(table))


def _with_events(schedule: Schedule, due, problem, t, y):
    """The state after the events that are due, one after the other."""
    for event, now in zip(schedule.events, due, strict=True):
        y = event.applied(now, problem, t, y)
    return y


def _turned(run: PathRun, k, due, before, y, state, acc):
    """State, solver's state and accumulators as the step from `k` on finds them.

    `before` is the problem over the step that ended. A solver that carries something starts afresh where a
    parameter jumps or an event happens.
    """
    t, after = run.time(k), run.after(k)
    schedule: Any = schedule_of(run.problem)
    new = _with_events(schedule, due, after, t, y)
    acc = run.observer.changed(acc, k, t, (before, y), (after, new))
    if jax.tree.leaves(state):
        afresh = schedule.moved(t - 0.5 * run.dt, t + 0.5 * run.dt)
        for now in due:
            afresh = afresh | now
        begun = run.stepper.init(as_solved(after), t, run.dt, new)
        state = jax.tree.map(
            lambda b, s: jnp.where(afresh, jnp.asarray(b, s.dtype), s) if eqx.is_array(s) else s, begun, state
        )
    return new, state, acc


def _per_path(problem, noise):
    """The same problem, each parameter a number of this path's own, which `vmap` turns into a vector.

    In reverse mode a parameter shared by all paths would cost a reduction over the paths at every use; a
    path's own accumulates along the path, and the paths are summed once.
    """
    words = [leaf for leaf in jax.tree.leaves(noise) if eqx.is_array(leaf)]
    if not words:
        return problem
    word = jnp.ravel(words[0])[0]
    same = word == word
    return jax.tree.map(
        lambda p: jax.lax.select(same, p, p) if eqx.is_inexact_array(p) and p.shape == () else p, problem
    )
