r"""When the solution of an ordinary equation first meets a condition, with its derivatives.

At the time $t^*$ at which $g(t, y(t; \theta); \theta)$ becomes zero,

$$\frac{dt^*}{d\theta} = -\frac{\partial_y g \cdot \partial_\theta y + \partial_\theta g}{dg/dt},\qquad
\frac{dg}{dt} = \partial_t g + \partial_y g \cdot f.$$
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.adaptive import integrate_adaptive, solution
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import in_precision
from simkit_solvers.problems.observe import States
from simkit_solvers.problems.problem import AbstractODE

FINER = 1e-2  # of the run's tolerances: those of the crossing in the step's interpolant


class Crossing(NamedTuple):
    """Where a condition was met: the `time`, the `state` then, and whether it `occurred` before the end.

    If it did not, time and state are NaN and their derivatives 0, so that `jnp.where(occurred, …)` has
    one. `time` and `occurred` are scalars.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import Crossing
    >>> missed = Crossing(time=jnp.float32("nan"), state=None, occurred=jnp.asarray(False))
    >>> float(jnp.where(missed.occurred, missed.time, 5.0))
    5.0
    """

    time: Scalar
    state: Any
    occurred: jax.Array


def crossing(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0: PyTree,
    grid: AdaptiveGrid,
    condition: Callable[[Any, Any, Any], Any],
    upwards: bool | None = None,
) -> Crossing:
    """The first time in `grid` at which `condition(problem, t, y)` passes zero, and the state there.

    `upwards` says whether it must rise or fall through zero; by default either counts. A condition that
    starts at zero has not passed it. Two crossings within one step are not seen: give `first_step`, or
    tolerances that make steps short.

    Time and state have first derivatives in both modes, by the implicit function theorem at the crossing, in
    every number in the problem, in `y0`, in the grid's `t0` and in what `condition` reads of the problem. The
    time is polished by one Newton step on the solution itself, so it is as precise as the run. The cost is
    two runs. Derivatives are infinite where the solution only touches the condition.
    Raises `ValueError` as `solution` does.

    >>> import diffrax
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import AdaptiveGrid, Tolerances, crossing
    >>> model = HarmonicOscillator(m=1.0, k=1.0)
    >>> grid = AdaptiveGrid(0.0, 5.0, Tolerances(1e-5, 1e-5))
    >>> start = model.State(q=1.0, p=0.0)
    >>> met = crossing(model, diffrax.Heun(), start, grid, lambda problem, t, y: y.q)
    >>> round(float(met.time), 2)  # a quarter of the period
    1.57
    """
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    problem, y0, grid = in_precision((problem, y0, grid), dtype)
    elapsed, crossed = _first_time(problem, solver, y0, grid, condition, upwards)
    until = eqx.tree_at(
        lambda g: g.span,
        AdaptiveGrid(grid.t0, grid.t0 + 1.0, grid.tolerances, grid.first_step, 1, grid.max_steps),
        elapsed,
    )
    run = integrate_adaptive(problem, solver, y0, until, States())
    y = problem.State(**jax.tree.map(lambda x: x[-1], run.rows))

    t = grid.t0 + elapsed
    slope = jax.tree.map(lambda f, x: jnp.asarray(f, x.dtype), problem.drift(t, y), y)
    value = jnp.asarray(condition(problem, t, y), dtype)
    _, rate = jax.jvp(
        lambda t, y: jnp.asarray(condition(problem, t, y), dtype), (t, y), (jnp.ones_like(t), slope)
    )
    after = -value / jax.lax.stop_gradient(rate)
    time = jnp.where(crossed, t + after, jnp.nan)
    state = jax.tree.map(
        lambda x, f: jnp.where(crossed, x + jax.lax.stop_gradient(f) * after, jnp.nan), y, slope
    )
    return Crossing(time, state, crossed)


def _first_time(problem, solver, y0, grid, condition, upwards) -> tuple[Any, jax.Array]:
    """The time since t0 at which the condition passes zero, else the end, and whether it does.

    It has no derivatives.
    """
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    problem, y0, grid = jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, (problem, y0, grid)
    )

    def passes(t, y, args, **rest):
        return jnp.asarray(condition(problem, grid.t0 + t, y), dtype)

    finder = optx.Newton(FINER * grid.tolerances.rtol, FINER * grid.tolerances.atol)
    run = solution(
        problem,
        solver,
        y0,
        grid,
        saveat=diffrax.SaveAt(t1=True),
        event=diffrax.Event(passes, finder, upwards),
        adjoint=diffrax.ForwardMode(),
    )
    crossed = run.result == diffrax.RESULTS.event_occurred
    if run.ts is None:
        raise RuntimeError("a solution saved at its end has a time")
    return jax.lax.stop_gradient(jnp.where(crossed, run.ts[-1], grid.span)), crossed
