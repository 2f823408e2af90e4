"""Rößler's stochastic Runge–Kutta method of strong order 1.5 for diagonal noise."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractOneStep, total
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time

# The tableau of SRIW1 without the drift stages that repeat the first. Rows of _B1 lead to a noise stage.
_A1 = (0.0, 0.25, 1.0, 0.25)
_B1 = ((), (0.5,), (-1.0,), (-5.0, 3.0, 0.5))
_C1 = (0.0, 0.25, 1.0, 0.25)


def _controls(w, a, i_11, i_111):
    r"""What each noise stage is multiplied by, of $I_1$, $H$, $I_{11} / \sqrt h$ and $I_{111} / h$.

    The tableau's weights of $I_1$, $I_{11} / \sqrt h$, $I_{10} / h$ and $I_{111} / h$ are (-1, -1, 2, -2),
    (4, 4, -4, 5) / 3, (2, -1, -2, -2) / 3 and (0, 0, 0, 1), and $I_{10} / h = I_1 / 2 + H$.
    """
    first = 2 * a - i_11 - 2 * i_111
    return (
        first,
        (2 / 3) * w + (4 / 3) * (i_11 - a) + (5 / 3) * i_111,
        (1 / 3) * w + (1 / 3) * first - (4 / 3) * a,
        i_111,
    )


class SRIW1(AbstractOneStep, diffrax.AbstractItoSolver):
    r"""Rößler's SRIW1 for Itô problems with diagonal, scalar or additive noise,

    $$y_{n+1} = y_n + \tfrac13 f(t, y_n)\,h + \tfrac23 f(t + \tfrac34 h, H_0)\,h + \sum_{i=1}^4
      g(t + c_i h, H_i) (\beta^1_i I_1 + \beta^2_i \tfrac{I_{11}}{\sqrt h} + \beta^3_i \tfrac{I_{10}}{h}
      + \beta^4_i \tfrac{I_{111}}{h})$$

    with $I_1 = \Delta W$, $I_{11} = \tfrac12(\Delta W^2 - h)$, $I_{111} = \tfrac16(\Delta W^3 - 3h\Delta W)$
    and $I_{10} = \int_0^h W_s\,ds = h(\tfrac12\Delta W + H)$ of each component. Strong order 1.5; weak
    order 2 for additive and scalar noise, 1.5 for diagonal noise in several variables, where a small error of
    that order remains. Two drift and four noise evaluations a step.
    Reference: Rößler (2010), Runge–Kutta methods for the strong approximation of solutions of stochastic
    differential equations, doi:10.1137/09076636X.
    """

    areas = 1

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        drift, noise = terms.terms
        h, increment = drift.contr(t0, t1), noise.contr(t0, t1, use_levy=True)
        root = jnp.sqrt(h)
        # Numbers that all paths share: a division for each path would cost more, and compilers do not agree
        # on its bits.
        per_root, half_root, per_step = 0.5 / root, 0.5 * root, 1 / (6 * h)
        controls = jax.tree.map(
            lambda w, a: _controls(w, a, w * w * per_root - half_root, w * (w * w * per_step - 0.5)),
            increment.W,
            increment.H,
        )
        # Weights go into the controls: of a stage's slopes only the product with a number is computed again.
        area = jax.tree.map(lambda w, a: 0.75 * w + 1.5 * a, increment.W, increment.H)
        middle = total(y0, drift.vf_prod(t0, y0, args, 0.75 * h), noise.vf_prod(t0, y0, args, area))
        f, f_middle = (
            drift.vf_prod(t0, y0, args, h / 3),
            drift.vf_prod(t0 + 0.75 * h, middle, args, 2 / 3 * h),
        )
        y1 = total(total(y0, f), f_middle)
        stages: list = []
        for i, (a, row, c) in enumerate(zip(_A1, _B1, _C1, strict=True)):
            stage = total(y0, drift.vf_prod(t0, y0, args, a * h)) if a else y0
            for b, (s, earlier) in zip(row, stages, strict=False):
                control = jax.tree.map(lambda w, b=b: b * root * jnp.ones_like(w), increment.W)
                stage = total(stage, noise.vf_prod(s, earlier, args, control))
            stages.append((t0 + c * h, stage))
            control = jax.tree.map(lambda _, parts, i=i: parts[i], increment.W, controls)
            y1 = total(y1, noise.vf_prod(*stages[-1], args, control))
        return y1


SRIW1_INFO = SolverInfo(
    SRIW1,
    "Rößler's stochastic Runge–Kutta method for diagonal or scalar noise, two drift and four noise "
    "evaluations a step.",
    calculus="ito",
    strong=Orders(1.5, diagonal=1.5),
    weak=Orders(2.0, diagonal=1.5, scalar=2.0),
)
