"""When a condition first holds along the adaptive steps of an ordinary equation, by dense output.

A step is examined at its end and at points between, and where a condition holds at one and not at the one
before, the interpolant of the step is stored; the time is then the end of an interval that bisection has made
as short as the precision allows. What holds for less than the time between two points is not seen.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from simkit_solvers.methods.step_types import Flag, Step, Terms, Time
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.observe import AbstractObserver, stops_before
from simkit_solvers.problems.problem import AbstractODE

POINTS = 8  # of a step: they cost evaluations of a polynomial


class Hold(NamedTuple):
    """Whether a condition has held, and the time and the state when it first did; else those of the end."""

    held: jax.Array
    time: jax.Array
    y: Any


class _Holding(NamedTuple):
    """For each condition: whether it has held, the ends of the step in which it first did, at which of the
    points there, and what interpolates the step."""

    held: jax.Array
    t0: jax.Array
    t1: jax.Array
    point: jax.Array
    dense: Any


class Examined(diffrax.AbstractWrappedSolver):
    """A solver that finds the first accepted step in which each condition holds.

    `conditions` gives booleans `(conditions,)` of a time since t0 and a state. The last
    `triggers` of them have to become true: one that holds at first has to become false before. The solution
    ends behind the step in which one of them does.
    """

    solver: diffrax.AbstractSolver
    conditions: Callable
    triggers: int = eqx.field(static=True, default=0)

    term_structure = delegated("solver")
    interpolation_cls = delegated("solver")
    term_compatible_contr_kwargs = delegated("solver")
    scan_kind = delegated("solver")  # of a Runge-Kutta method, which diffrax sets by `tree_at`
    root_finder = delegated("solver")  # of an implicit method, of which diffrax reads the tolerances
    order = delegated("solver")
    strong_order = delegated("solver")
    error_order = delegated("solver")
    func = delegated("solver")

    def init(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        state = self.solver.init(terms, t0, t1, y0, args)
        step = eqx.filter_eval_shape(self.solver.step, terms, t0, t1, y0, args, state, False)
        holds = self.conditions(t0, y0)
        count, dtype = len(holds), jnp.result_type(t0)

        def none(like):
            return jnp.zeros((count, *like.shape), like.dtype)

        zero = jnp.zeros(count, dtype)
        first_step = _Holding(jnp.zeros(count, bool), zero, zero, zero, jax.tree.map(none, step[2]))
        return state, first_step, holds[count - self.triggers :]

    def step(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, solver_state: Any, made_jump: Flag
    ) -> Step:
        state, first_step, last = solver_state
        y1, error, dense, state, result = self.solver.step(terms, t0, t1, y0, args, state, made_jump)
        inside = self.interpolation_cls(t0=t0, t1=t1, **dense)
        points = jnp.arange(1, POINTS + 1, dtype=jnp.result_type(t0))
        times = jnp.where(points < POINTS, t0 + points / POINTS * (t1 - t0), t1)
        holds = jax.vmap(lambda t: self.conditions(t, inside.evaluate(t)))(times)
        if self.triggers:
            before = jnp.concatenate([last[None], holds[:-1, -self.triggers :]])
            last = holds[-1, -self.triggers :]
            holds = holds.at[:, -self.triggers :].set(holds[:, -self.triggers :] & ~before)
            stop = jnp.any(first_step.held[-self.triggers :])
            result = diffrax.RESULTS.where(stop, diffrax.RESULTS.event_occurred, result)
        first = points[jnp.argmax(holds, axis=0)]
        now = _Holding(
            jnp.any(holds, axis=0),
            jnp.broadcast_to(t0, first.shape),
            jnp.broadcast_to(t1, first.shape),
            first,
            jax.tree.map(lambda x: jnp.broadcast_to(x, (*first.shape, *jnp.shape(x))), dense),
        )
        first_step = jax.tree.map(
            lambda new, old: _where(now.held & ~first_step.held, new, old), now, first_step
        )
        return y1, error, dense, (state, first_step, last), result


def first_holds(solver: Examined, first_step: _Holding, end: jax.Array, y_end: PyTree) -> tuple[Hold, ...]:
    """When each condition first held, from what such a solver carries at `end`, in the state `y_end`."""
    return tuple(
        _bisected(solver, i, jax.tree.map(lambda x, i=i: x[i], first_step), end, y_end)
        for i in range(len(first_step.held))
    )


def _bisected(solver: Examined, i: int, first_step: _Holding, end, y_end) -> Hold:
    inside = solver.interpolation_cls(
        t0=first_step.t0, t1=jnp.where(first_step.held, first_step.t1, first_step.t0 + 1), **first_step.dense
    )
    length = (first_step.t1 - first_step.t0) / POINTS
    low = first_step.t0 + (first_step.point - 1) * length
    high = jnp.where(first_step.point < POINTS, low + length, first_step.t1)

    def halved(_, ends):
        low, high = ends
        middle = low + 0.5 * (high - low)
        holds = solver.conditions(middle, inside.evaluate(middle))[i]
        return jnp.where(holds, low, middle), jnp.where(holds, middle, high)

    _, time = jax.lax.fori_loop(0, jnp.finfo(high.dtype).nmant + 1, halved, (low, high))
    y = jax.tree.map(lambda x, last: _where(first_step.held, x, last), inside.evaluate(time), y_end)
    return Hold(first_step.held, jnp.where(first_step.held, time, end), y)


def none_holds(
    observer: AbstractObserver, problem: AbstractODE, t: Scalar, y: PyTree, end: jax.Array
) -> tuple[Hold, ...]:
    """The conditions of an observer before a run: none has held."""
    count = len(observer.conditions(problem, t, y))
    return tuple(Hold(jnp.bool_(False), end, y) for _ in range(count))


def earlier(one: Hold, other: Hold) -> Hold:
    """The first of two holds that has held, `one` where both have."""
    return jax.tree.map(lambda a, b: _where(one.held, a, b), one, other)


def earliest(holds: tuple[Hold, ...]) -> Hold:
    """The hold with the earliest time among those that have held; any if none has."""

    def first(one: Hold, other: Hold) -> Hold:
        sooner = one.held & ~(other.held & (other.time < one.time))
        return jax.tree.map(lambda a, b: _where(sooner, a, b), one, other)

    return functools.reduce(first, holds)


def rows_along(
    observer: AbstractObserver,
    problem_at: Callable,
    start: jax.Array,
    times: Float[Array, " times"],
    states: PyTree,
    holds: tuple[Hold, ...],
    saved: Any,
) -> dict[str, Any]:
    """What an observer keeps at the `saved` ones of `times` since t0; it sees only these and the first holds.

    `problem_at` gives the problem after a time since t0. An observer without `stops` is shown nothing.
    """
    if observer.stops is None:
        times, states = jax.tree.map(lambda x: x[saved], (times, states))
        acc = observer.init(problem_at(jnp.zeros_like(times[0])), start, jax.tree.map(lambda x: x[0], states))
        return jax.vmap(lambda t, y: observer.row(problem_at(t), acc, start + t, y))(times, states)
    everything = jnp.concatenate([*(each.time[None] for each in holds), times])
    order = jnp.argsort(everything, stable=True)
    places = jnp.argsort(order, stable=True)[len(holds) :]
    states = jax.tree.map(
        lambda y, *first: jnp.concatenate([*(x[None] for x in first), y])[order],
        states,
        *(each.y for each in holds),
    )
    numbers = [jnp.where(each.held, i, -1) for i, each in enumerate(holds)]
    which = jnp.concatenate([*(x[None] for x in numbers), jnp.full(times.shape, -1)])[order]
    times, span = everything[order], times[-1]
    first = jax.tree.map(lambda x: x[places[0]], states)
    acc = observer.init(problem_at(times[places[0]]), start, first)

    def one(acc, seen):
        time, y, which = seen
        problem = problem_at(time)
        acc = observer.update(problem, acc, stops_before(observer, time, span), start + time, y, 0.0 * time)
        for i in range(len(holds)):
            held = observer.held(problem, acc, i, start + time, y)
            acc = jax.tree.map(lambda a, b, i=i: jnp.where(which == i, a, b), held, acc)
        return acc, observer.row(problem, acc, start + time, y)

    _, rows = jax.lax.scan(one, acc, (times, states, which))
    return jax.tree.map(lambda x: x[places][saved], rows)


def _where(condition, a, b):
    condition = jnp.reshape(condition, (*jnp.shape(condition), *(1 for _ in a.shape[jnp.ndim(condition) :])))
    return jnp.where(condition, a, b)
