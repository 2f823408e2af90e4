r"""Gradients of ordinary equations in reverse: checkpointed, or by solving the adjoint equation backwards.

`checkpointed` runs back through the steps of the solution, of which it keeps a few and computes the others
again: the derivative of the computed solution, for any problem. `backsolve` forgets them, and solves

$$\frac{da}{dt} = -a\,\frac{\partial f}{\partial y}, \qquad
\frac{d}{d\theta} = \int a\,\frac{\partial f}{\partial\theta}\,dt$$

from the end to the start together with the equation itself, in constant memory. Where the equation cannot be
run backwards, since it is stiff, dissipative or chaotic, that is another solution, and the gradient is wrong
without a sign. So it is run back first, and refused unless it returns to where it began.

References: Chen, Rubanova, Bettencourt & Duvenaud (2018), Neural ordinary differential equations,
doi:10.48550/arXiv.1806.07366; Stumm & Walther (2010), New algorithms for optimal online checkpointing,
doi:10.1137/080742439.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid
from simkit_solvers.loops.adaptive import integrate_adaptive, solution
from simkit_solvers.numerics.tangents import in_precision, is_real
from simkit_solvers.problems.observe import States
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import schedule_of

Adjoint = Literal["checkpointed", "backsolve"]
RETURNS_WITHIN = 100.0  # tolerances: errors add up over steps both ways, and much more is another solution


class OdeGradient(NamedTuple):
    """A loss and its gradients by the numbers in the problem and in its initial state, of their structure.

    `returned` is how far from its start the run backwards ended, in tolerances, zero for `checkpointed`. The
    gradients are NaN where it is more than `RETURNS_WITHIN`, and where a run has failed.
    """

    loss: jax.Array
    problem: Any
    y0: Any
    returned: jax.Array


class Backwards(AbstractODE):
    """An equation with time running back from `end`."""

    original: AbstractODE
    end: Any
    State: type = eqx.field(static=True)

    def drift(self, t, y):
        return jax.tree.map(jnp.negative, self.original.drift(self.end - t, y))


def ode_gradient(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0: PyTree,
    grid: AdaptiveGrid,
    loss: Callable[[Any], Any],
    adjoint: Adjoint = "checkpointed",
) -> OdeGradient:
    """`loss(states)` and its gradients, in reverse: one run back for any number of parameters.

    `states` is a `State` of arrays over the saved times of `grid`, `loss` a function of it alone. The cost is
    that of a few runs, and of one more for the check of `backsolve`.
    Raises `ValueError` for a scheduled problem, for a solver without error estimate, for a run that fails,
    and with `backsolve` for an equation that does not lead back to its start; in compiled code the gradients
    are NaN in place of the last two.

    >>> import diffrax
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import AdaptiveGrid, Tolerances, ode_gradient
    >>> model, grid = HarmonicOscillator(m=1.0, k=1.0), AdaptiveGrid(0.0, 3.0, Tolerances(1e-5, 1e-5))
    >>> start = model.State(q=1.0, p=0.0)
    >>> result = ode_gradient(model, diffrax.Heun(), start, grid, lambda states: states.q[-1])
    >>> round(float(result.y0.q), 2)  # of cos(3) by the initial position
    -0.99
    """
    if schedule_of(problem) is not None:
        raise ValueError("ode_gradient: the problem is scheduled; use jax.grad of integrate_adaptive")
    if adjoint not in ("checkpointed", "backsolve"):
        raise ValueError(f"ode_gradient: adjoint must be checkpointed or backsolve, got {adjoint!r}")
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    numbers, others = eqx.partition(in_precision((problem, y0), dtype), is_real)
    times = grid.elapsed(dtype)
    kind = diffrax.RecursiveCheckpointAdjoint() if adjoint == "checkpointed" else diffrax.BacksolveAdjoint()

    def of(numbers):
        problem, y0 = eqx.combine(numbers, others)
        run = solution(problem, solver, y0, grid, saveat=diffrax.SaveAt(ts=times), adjoint=kind)
        ended = run.result == diffrax.RESULTS.successful
        states = jax.tree.map(lambda x: jnp.where(ended, x, jnp.nan), run.ys)
        return loss(states), (jax.tree.map(lambda x: x[-1], states), ended)

    (value, (last, ended)), slopes = jax.value_and_grad(of, has_aux=True)(numbers)
    returned = jnp.zeros((), dtype)
    if adjoint == "backsolve":
        returned = _distance_on_return(problem, solver, y0, grid, last)
    sound = ended & (returned <= RETURNS_WITHIN)
    if not isinstance(sound, Tracer) and not sound:
        _refuse(problem, bool(ended), float(returned))
    by_problem, by_y0 = jax.tree.map(lambda x: jnp.where(sound, x, jnp.nan), slopes)
    return OdeGradient(value, by_problem, by_y0, returned)


def _distance_on_return(problem: AbstractODE, solver, y0, grid: AdaptiveGrid, last):
    """How far from `y0` the run back from the `last` state ends, in tolerances of the largest variable."""
    dtype = jnp.result_type(*jax.tree.leaves(y0))
    start, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    back = Backwards(original=problem, end=start + span, State=problem.State)
    whole = AdaptiveGrid(jnp.zeros_like(span), span, grid.tolerances, grid.first_step, 1, grid.max_steps)
    run = integrate_adaptive(back, solver, last, whole, States())
    far = jnp.zeros((), dtype)
    for name, x in y0._asdict().items():
        allowed = grid.tolerances.atol + grid.tolerances.rtol * jnp.abs(x)
        there = jnp.max(jnp.abs(run.rows[name][-1] - x) / allowed)
        far = jnp.maximum(far, jnp.where(jnp.isnan(there), jnp.inf, there))
    return far


def _refuse(problem, ended: bool, returned: float) -> None:
    name = type(problem).__name__
    if not ended:
        raise ValueError(f"ode_gradient: the run of {name} failed; raise max_steps, or use a stiff solver")
    raise ValueError(
        f"ode_gradient: run backwards, {name} ends {returned:.3g} tolerances from where it began, more than "
        f"{RETURNS_WITHIN:g}: it is stiff, dissipative or chaotic, and backsolve would give a wrong "
        "gradient; use adjoint='checkpointed'"
    )
