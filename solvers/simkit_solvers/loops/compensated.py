r"""Steps with compensated sums: what rounding loses is added by the next step.

In float32 $y + \Delta$ loses what of $\Delta$ lies below the last digit of $y$: half a unit in the last place
at most, at each step, and always of the same sign where the increments are alike. Here a step is solved for
the difference $u$ from its beginning, which starts with what the steps before have lost,

$$u_0 = c,\qquad y_1 = y + u_1,\qquad c_1 = u_1 - (y_1 - y),$$

so that $y + c$ carries about twice the digits.
Reference: Kahan (1965), Pracniques: further remarks on reducing truncation errors, doi:10.1145/363707.363723.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import PyTree

from simkit_solvers.grids.grid import LONG
from simkit_solvers.loops.step import DiffraxStep, SwitchedStep
from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.methods.registry import info_or_default
from simkit_solvers.methods.switched import Solver, SwitchedSolver
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.problems.origin import LangevinFrom, seen_from
from simkit_solvers.problems.problem import halves
from simkit_solvers.problems.terms import takes_langevin
from simkit_solvers.random.draws import Draw


class AbstractCompensatedStep(AbstractStepper):
    """The step of another stepper, for the difference from its beginning."""

    stepper: eqx.AbstractVar[AbstractStepper]

    areas = delegated("stepper")
    unrolled = delegated("stepper")
    variates = delegated("stepper")

    @abc.abstractmethod
    def difference(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, lost: PyTree, draw: Draw, own: PyTree
    ) -> tuple[Any, Any]:
        """How far the step goes from `y`, given what was lost there, and the solver's own state after it."""

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        lost, own = state
        u, own = self.difference(problem, t, dt, y, lost, draw, own)
        y1 = jax.tree.map(jnp.add, y, u)
        return y1, (jax.tree.map(lambda u, y1, y: u - (y1 - y), u, y1, y), own)


class CompensatedStep(AbstractCompensatedStep):
    """The step of a solver that sees a problem through drift and noise alone."""

    stepper: AbstractStepper

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        zero = jax.tree.map(jnp.zeros_like, y)
        return zero, self.stepper.init(seen_from(problem, y), t, dt, zero)

    def restarted(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, state: PyTree) -> PyTree:
        zero = jax.tree.map(jnp.zeros_like, y)
        return zero, self.stepper.restarted(seen_from(problem, y), t, dt, zero, state[1])

    def difference(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, lost: PyTree, draw: Draw, own: PyTree
    ) -> tuple[PyTree, PyTree]:
        return self.stepper.step(seen_from(problem, y), t, dt, lost, draw, own)


class CompensatedLangevinStep(AbstractCompensatedStep):
    r"""The step of a solver of underdamped Langevin problems, which multiplies velocities by a factor.

    All of them leave the velocity $p$ of a free particle at $e^{-\gamma h} p$; what the step adds to the rest
    is small, as is $(e^{-\gamma h} - 1)\,p$.
    """

    stepper: AbstractStepper

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        zero = jax.tree.map(jnp.zeros_like, y)
        there = LangevinFrom.of(problem, halves(y)[0])
        return zero, self.stepper.init(there, t, dt, there.State(*zero, *zero))

    def difference(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, lost: PyTree, draw: Draw, own: PyTree
    ) -> tuple[PyTree, PyTree]:
        (q, p), (q_lost, p_lost) = halves(y), halves(lost)
        there, at_rest = LangevinFrom.of(problem, q), tuple(jnp.zeros_like(x) for x in q)
        begin = there.State(*q_lost, *at_rest, *p_lost, *p)
        both = draw._replace(
            **{
                name: (*part, *(jnp.zeros_like(z) for z in part))
                for name, part in draw._asdict().items()
                if name in "WHK"
            }
        )
        end, own = self.stepper.step(there, t, dt, begin, both, own)
        n = len(q)
        rest, free, kicked = end[:n], end[n : 2 * n], end[2 * n : 3 * n]
        slowed = jnp.expm1(-problem.gamma * dt)
        moved = [x + f for x, f in zip(rest, free, strict=True)]
        return type(y)(*moved, *(v + slowed * x for v, x in zip(kicked, p, strict=True))), own


def can_compensate(solver: Solver) -> bool:
    """Whether the sums of its steps can be compensated."""
    return all(info_or_default(each).compensable for each in _each(solver))


def _each(solver: Solver) -> tuple:
    return solver.solvers if isinstance(solver, SwitchedSolver) else (solver,)


def loses_float32(solver: Solver, dtype: DTypeLike, steps: int) -> bool:
    """Whether float32 loses the state over this number of steps."""
    return steps > LONG and jnp.dtype(dtype) == jnp.float32 and not can_compensate(solver)


def check_float32(solver: Solver) -> None:
    """Raise `ValueError` for a solver that loses the state where float32 takes more than `LONG` steps."""
    if not can_compensate(solver):
        names = " and ".join(type(x).__name__ for x in _each(solver) if not can_compensate(x))
        raise ValueError(
            f"over more than {LONG} steps float32 loses the state under {names}, whose sums are not "
            f"compensated; use precision: float64, or at most {LONG} steps"
        )


def compensated(stepper: AbstractStepper) -> AbstractStepper:
    """The stepper with compensated sums, or as it is where its solver has none."""
    if isinstance(stepper, SwitchedStep):
        return SwitchedStep(tuple(map(compensated, stepper.steppers)), stepper.switched)
    if isinstance(stepper, DiffraxStep) and not can_compensate(stepper.solver):
        return stepper
    langevin = isinstance(stepper, DiffraxStep) and takes_langevin(stepper.solver)
    return CompensatedLangevinStep(stepper) if langevin else CompensatedStep(stepper)
