"""Steps of the length that the tolerances allow, by diffrax.

The solver's clock counts from the beginning of a solution, so that a late start takes no digits from the
steps. Towards the end of a long span it is as coarse as the precision: in float32 a clock at $10^7$ cannot
distinguish times closer than 1.
"""

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from simkit_solvers.grids.adaptive_grid import AdaptiveGrid, Tolerances
from simkit_solvers.loops.first_hold import Examined
from simkit_solvers.methods.registry import info_or_default
from simkit_solvers.methods.root_finder import for_adaptive_steps
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.scopes import STEPS_WITHIN
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.terms import DriftTerm, ordinary_terms


class Advancing(diffrax.AbstractAdaptiveStepSizeController):
    """A step-size controller that gives up where the clock is too coarse for the next step.

    That is where a step would not move it, or one that failed cannot be made shorter.

    Without it a run towards a singularity, or from a state without a slope, makes no progress until
    `max_steps`.
    """

    controller: diffrax.AbstractAdaptiveStepSizeController

    rtol = delegated("controller")
    atol = delegated("controller")
    norm = delegated("controller")
    init = delegated("controller")

    def wrap(self, direction):
        return Advancing(self.controller.wrap(direction))

    def adapt_step_size(self, t0, t1, *args):  # pyright: ignore[reportIncompatibleMethodOverride]
        tried = t1
        keep, t0, t1, jump, state, result = self.controller.adapt_step_size(t0, t1, *args)
        stuck = ~(t1 > t0) | ~(keep | (t1 < tried))  # NaN among them
        failed = diffrax.RESULTS.where(stuck, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful)
        result = diffrax.RESULTS.where(result == diffrax.RESULTS.successful, failed, result)
        return keep, t0, t1, jump, state, result


@jax.named_scope(STEPS_WITHIN)
def solved(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver,
    y0: PyTree,
    grid: AdaptiveGrid,
    start: jax.Array,
    span: jax.Array,
    conditions: Callable | None = None,
    triggers: int = 0,
    **options: Any,
) -> diffrax.Solution:
    """diffrax's solution from `start`, over local time (0, span); its steps are examined for conditions.

    It ends behind a step in which one of the last conditions, the `triggers`, becomes true.
    """
    stepping = for_adaptive_steps(solver, grid.tolerances)
    return diffrax.diffeqsolve(
        ordinary_terms(solver, DriftTerm(problem, start)),
        stepping if conditions is None else Examined(stepping, conditions, triggers),
        jnp.zeros_like(span),
        span,
        None if grid.first_step is None else jnp.asarray(grid.first_step, span.dtype),
        y0,
        max_steps=grid.max_steps,
        throw=False,
        **options,
    )


def step_control(
    solver: diffrax.AbstractSolver,
    tolerances: Tolerances,
    times: jax.Array,
    longest: Scalar | None = None,
    pcoeff: Scalar = 0.2,
    icoeff: Scalar = 0.65,
    dcoeff: Scalar = 0.0,
) -> Advancing:
    r"""The controller of a solver's steps: $h_{n+1} = 0.9\,h_n\,e_n^{-(p+i+d)/q}\,e_{n-1}^{(p+2d)/q}\,
    e_{n-2}^{-d/q}$ with $e$ the error over the tolerance and q the order.

    `times` are the saved ones; a solver whose dense output is of lower order steps to each. No step is longer
    than `longest`. The coefficients are those of Hairer & Wanner's PI controller unless given: fewer rejected
    steps than by the integral part alone, and about as many in all. References: Hairer & Wanner (1996),
    Solving Ordinary Differential Equations II, section IV.2, doi:10.1007/978-3-642-05221-7; Gustafsson
    (1991), Control theoretic techniques for stepsize selection in explicit Runge–Kutta methods,
    doi:10.1145/210232.210242.
    """
    controller = diffrax.PIDController(
        rtol=tolerances.rtol, atol=tolerances.atol, pcoeff=pcoeff, icoeff=icoeff, dcoeff=dcoeff, dtmax=longest
    )
    if not info_or_default(solver).interpolates and len(times) > 2:
        controller = diffrax.ClipStepSizeController(controller, step_ts=times[1:-1])
    return Advancing(controller)


def same_precision(dtype: DTypeLike) -> Callable:
    """A saved state in the precision of the run: the dense output of KenCarp3, 4 and 5 is in float64."""
    return lambda t, y, args: jax.tree.map(lambda x: x.astype(dtype), y)
