r"""Steps that lose nothing where increments are small: what rounding takes is brought back by the next step.

In float32 $y + \Delta$ loses what of $\Delta$ lies below the last digit of $y$: half a unit in the last place
at most, at each step, and always of the same sign where the increments are alike. Here a step is solved for
the difference $u$ from its beginning, which starts with what the steps before have lost,

$$u_0 = c,\qquad y_1 = y + u_1,\qquad c_1 = u_1 - (y_1 - y),$$

so that $y + c$ carries about twice the digits.
Reference: Kahan (1965), Pracniques: further remarks on reducing truncation errors, doi:10.1145/363707.363723.
"""

import diffrax
import jax
import jax.numpy as jnp

from simkit_solvers.model_solver import AbstractModelSolver
from simkit_solvers.origin import seen_from
from simkit_solvers.step import LANGEVIN_SOLVERS, AbstractStepper, DiffraxStep, SwitchedStep

TAKE_STATES = (AbstractModelSolver, *LANGEVIN_SOLVERS, diffrax.ReversibleHeun)


class CompensatedStep(AbstractStepper):
    """The step of another stepper, for the difference from its beginning."""

    stepper: AbstractStepper

    @property
    def areas(self):
        return self.stepper.areas

    @property
    def unrolled(self):
        return self.stepper.unrolled

    @property
    def variates(self):
        return self.stepper.variates

    def init(self, problem, t, dt, y):
        zero = jax.tree.map(jnp.zeros_like, y)
        return zero, self.stepper.init(seen_from(problem, y), t, dt, zero)

    def step(self, problem, t, dt, y, draw, state):
        lost, own = state
        u, own = self.stepper.step(seen_from(problem, y), t, dt, lost, draw, own)
        y1 = jax.tree.map(jnp.add, y, u)
        return y1, (jax.tree.map(lambda u, y1, y: u - (y1 - y), u, y1, y), own)


def compensated(stepper: AbstractStepper) -> AbstractStepper:
    """The stepper with compensated sums, or as it is where its solver takes states as such.

    Those are the solvers of particular models, which step by laws, those of Langevin problems, which multiply
    velocities by a factor, and reversible Heun, which carries a state of its own.
    """
    if isinstance(stepper, SwitchedStep):
        return SwitchedStep(tuple(map(compensated, stepper.steppers)), stepper.switched)
    takes_states = isinstance(stepper, DiffraxStep) and isinstance(stepper.solver, TAKE_STATES)
    return stepper if takes_states else CompensatedStep(stepper)
