"""Observations along a path that is not stored."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.draws import Draw


class AbstractObserver(eqx.Module):
    """What accumulates along one path, and the values recorded at each saved row.

    Everything is a scalar per path; `vmap` makes vectors of them. `problem` is passed in rather than held, so
    that a derivative with respect to a parameter reaches dynamics and observables alike.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import GBM
    >>> from simkit_solvers import AbstractObserver, CounterNoise, EulerMaruyama, Grid, integrate, seed_key
    >>> class Largest(AbstractObserver):
    ...     def init(self, problem, t, y):
    ...         return y.S
    ...
    ...     def update(self, problem, acc, k, t, y, dt):
    ...         return jnp.maximum(acc, y.S)
    ...
    ...     def row(self, problem, acc, t, y):
    ...         return {"largest": acc}
    ...
    ...     def coarsened(self, factor):
    ...         return self
    ...
    ...     def refined(self, factor):
    ...         return self
    >>> grid, noise = Grid(t0=0.0, dt=0.1, steps=10, every=5), CounterNoise.of(seed_key(1), 0)
    >>> start = GBM.State(S=100.0)
    >>> rows = integrate(GBM(mu=0.0, sigma=0.2), EulerMaruyama(), start, grid, noise, Largest())
    >>> bool(rows["largest"][0] <= rows["largest"][1])
    True
    """

    counts_events: ClassVar[bool] = False  # rows `event 0`, … of how often those with a condition happened

    @abc.abstractmethod
    def init(self, problem: AbstractODE, t: Scalar, y: PyTree) -> PyTree:
        """The accumulators at `t0`, any pytree of scalars of the state's dtype."""

    @abc.abstractmethod
    def update(
        self,
        problem: AbstractODE,
        acc: PyTree,
        k: UInt32[Array, ""],
        t: Scalar,
        y: PyTree,
        dt: Float[Array, ""],
    ) -> PyTree:
        """The accumulators after step `k` = 1, 2, … (a `uint32` scalar), which ended at `t` in `y`."""

    @property
    def stops(self) -> tuple[float, ...] | None:
        """Fractions of the run at which it has to see paths without common steps, in addition to saved times.

        `None` if it needs nothing of a path between its rows. Otherwise such a loop calls `update` and
        `changed` as a path goes on, with the number of stops before that time as `k`.
        """
        return None

    def conditions(self, problem: AbstractODE, t: Scalar, y: PyTree) -> tuple:
        """Conditions whose first times it has to be shown, where it has `stops`: booleans."""
        return ()

    def held(self, problem: AbstractODE, acc: PyTree, which: int, t: Scalar, y: PyTree) -> PyTree:
        """The accumulators when condition number `which` first holds, at `t` in `y`, both up to rounding."""
        return acc

    def driven(
        self,
        problem: AbstractODE,
        acc: PyTree,
        k: UInt32[Array, ""],
        t: Scalar,
        y: PyTree,
        draw: Draw,
    ) -> PyTree:
        """The accumulators once the normals of the step that begins at step `k`, at `t` in `y`, are drawn.

        Called along a path of values alone, not where derivatives are carried with them.
        """
        return acc

    def jumped(self, acc: PyTree, k: UInt32[Array, ""], marks: Float[Array, ""]) -> PyTree:
        """The accumulators once the sum of the marks of the step that begins at step `k` is known.

        Called as `driven` is, before `update`.
        """
        return acc

    def changed(self, acc: PyTree, k: UInt32[Array, ""], t: Scalar, before: tuple, after: tuple) -> PyTree:
        """The accumulators after problem and state changed at once at `t`, the end of step `k`.

        `before` and `after` are pairs of problem and state; the accumulators are those after the step. Called
        at each step of a scheduled problem. An observer that accumulates anything has to say what it sees.
        """
        if jax.tree.leaves(acc):
            raise ValueError(
                f"{type(self).__name__} does not say what it sees of events and jumps of parameters; give it "
                "a method `changed`"
            )
        return acc

    @abc.abstractmethod
    def row(self, problem: AbstractODE, acc: PyTree, t: Scalar, y: PyTree) -> dict[str, Any]:
        """What is recorded at a saved row, by name."""

    @abc.abstractmethod
    def coarsened(self, factor: int) -> "AbstractObserver | None":
        """The observer that sees the same times on a grid `factor` times coarser, `None` where it cannot."""

    @abc.abstractmethod
    def refined(self, factor: int) -> "AbstractObserver":
        """The observer that sees the same times on a grid `factor` times finer."""


def happened_name(i: int) -> str:
    """The name in rows of how often event `i` has happened; a space is in no name of a quantity."""
    return f"event {i}"


def happened_rows(
    observer: AbstractObserver, happened: tuple[jax.Array, ...], dtype: DTypeLike
) -> dict[str, jax.Array]:
    """How often each event with a condition has happened, by its name in rows; empty unless they count."""
    counts = happened if observer.counts_events else ()
    return {happened_name(i): n.astype(dtype) for i, n in enumerate(counts)}


def stops_before(observer: AbstractObserver, since: jax.Array, span: jax.Array) -> jax.Array:
    """How many of an observer's stops are before a time since t0, of a run over `span`."""
    stops = jnp.asarray(observer.stops or (), span.dtype) * span
    rounding = 16 * jnp.finfo(span.dtype).eps * span
    return jnp.sum(stops < since - rounding, dtype=jnp.uint32)


def with_stops(observer: AbstractObserver, times: Float[Array, " times"]) -> tuple[jax.Array, Any]:
    """The saved times since t0 and an observer's stops in their order, and where the saved ones are."""
    inside = [fraction for fraction in observer.stops or () if 0 < fraction < 1]
    if not inside:
        return times, slice(None)
    everything = jnp.sort(jnp.concatenate([times, jnp.asarray(inside, times.dtype) * times[-1]]))
    return everything, jnp.searchsorted(everything, times, side="right") - 1


class States(AbstractObserver):
    """Keeps every state variable under its own name and accumulates nothing.

    >>> from simkit_physics import GBM
    >>> from simkit_solvers import States
    >>> States().row(GBM(mu=0.05, sigma=0.2), (), 0.0, GBM.State(S=100.0))
    {'S': 100.0}
    """

    def init(self, problem: AbstractODE, t: Scalar, y: PyTree) -> PyTree:
        return ()

    def update(
        self,
        problem: AbstractODE,
        acc: PyTree,
        k: UInt32[Array, ""],
        t: Scalar,
        y: PyTree,
        dt: Float[Array, ""],
    ) -> PyTree:
        return ()

    def row(self, problem: AbstractODE, acc: PyTree, t: Scalar, y: PyTree) -> dict[str, Any]:
        return y._asdict()

    def coarsened(self, factor: int) -> "States":
        return self

    def refined(self, factor: int) -> "States":
        return self
