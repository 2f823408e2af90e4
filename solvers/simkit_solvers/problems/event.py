"""Events: changes of the state at given times, or whenever a condition becomes true."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import AbstractODE

ON_STEP = 1e-6  # of a step: an event as near to a step's end as this is there


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
