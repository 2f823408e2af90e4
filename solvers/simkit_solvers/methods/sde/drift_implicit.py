"""Drift-implicit methods for stiff stochastic problems."""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import optimistix as optx
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractMemoryless, total
from simkit_solvers.methods.root_finder import no_finer_than
from simkit_solvers.methods.sde.milstein import iterated
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Flag, Step, Terms, Time
from simkit_solvers.problems.terms import NoiseTerm


class AbstractDriftImplicit(AbstractMemoryless, diffrax.AbstractImplicitSolver, diffrax.AbstractItoSolver):
    r"""$y_{n+1} = y_n + f(t_{n+1}, y_{n+1})\,h + $ an explicit step of the noise.

    The equation for the change of the state is solved by `root_finder`; a step whose iteration does not
    arrive within `root_find_max_steps` fails.
    """

    root_finder: optx.AbstractRootFinder = diffrax.with_stepsize_controller_tols(optx.Newton)()
    root_find_max_steps: int = 50

    interpolation_cls: ClassVar[Callable] = diffrax.LocalLinearInterpolation

    def explicit(self, noise: NoiseTerm, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> list:
        """The parts of the step that come from the noise."""
        return [noise.vf_prod(t0, y0, args, noise.contr(t0, t1))]

    def step(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, solver_state: Any, made_jump: Flag
    ) -> Step:
        drift, noise = terms.terms
        h = drift.contr(t0, t1)
        moved = total(y0, *self.explicit(noise, t0, t1, y0, args))

        def residual(change, args):
            implied = drift.vf_prod(t1, total(moved, change), args, h)
            return jax.tree.map(lambda a, b: a - b, change, implied)

        guess = drift.vf_prod(t0, y0, args, h)
        finder = no_finer_than(self.root_finder, moved)
        root = optx.root_find(residual, finder, guess, args, throw=False, max_steps=self.root_find_max_steps)
        y1 = total(moved, root.value)
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.promote(root.result)


class DriftImplicitEuler(AbstractDriftImplicit):
    r"""Drift-implicit Euler, $y_{n+1} = y_n + f(t_{n+1}, y_{n+1})\,h + g(t_n, y_n)\,\Delta W$, for stiff Itô
    problems.

    Strong order 0.5 (1 for additive noise), weak order 1; A-stable in the drift. One Newton iteration a step.
    Reference: Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, section 12.2.
    """


class ImplicitMilstein(AbstractDriftImplicit):
    r"""Drift-implicit Milstein method for stiff Itô problems with commutative noise,

    $$y_{n+1} = y_n + f(t_{n+1}, y_{n+1})\,h + g\,\Delta W + \tfrac12 \sum_{jk} (g_j\cdot\nabla) g_k\,
      (\Delta W_j\,\Delta W_k - \delta_{jk} h).$$

    Strong and weak order 1; A-stable in the drift. One Newton iteration a step.
    Reference: Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, section 12.2.
    """

    def explicit(self, noise: NoiseTerm, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> list[PyTree]:
        dW = noise.contr(t0, t1)
        return [noise.vf_prod(t0, y0, args, dW), *iterated(noise, t0, t1, y0, args, dW)]


DRIFT_IMPLICIT = (
    SolverInfo(
        DriftImplicitEuler,
        "Drift-implicit Euler method for stiff Itô problems with any noise.",
        calculus="ito",
        strong=Orders(1.0, 0.5, 0.5),
        weak=Orders(1.0, 1.0, 1.0),
    ),
    SolverInfo(
        ImplicitMilstein,
        "Drift-implicit Milstein method for stiff Itô problems with commutative noise.",
        calculus="ito",
        strong=Orders(1.0, 1.0),
        weak=Orders(1.0, 1.0),
        reads_slopes=True,
    ),
)
