"""Rößler's stochastic Runge–Kutta method of strong order 1.5 for diagonal noise."""

import diffrax
import jax
import jax.numpy as jnp

from simkit_solvers.one_step import AbstractOneStep, total
from simkit_solvers.solver_info import Orders, SolverInfo

# The tableau of SRIW1 without the drift stages that repeat the first. Rows of _B1 lead to a noise stage.
_A1 = (0.0, 0.25, 1.0, 0.25)
_B1 = ((), (0.5,), (-1.0,), (-5.0, 3.0, 0.5))
_C1 = (0.0, 0.25, 1.0, 0.25)
_WEIGHTS = (  # of each noise stage for I_1, I_11 / sqrt(h), I_10 / h, I_111 / h
    (-1.0, -1.0, 2.0, -2.0),
    (4 / 3, 4 / 3, -4 / 3, 5 / 3),
    (2 / 3, -1 / 3, -2 / 3, -2 / 3),
    (0.0, 0.0, 0.0, 1.0),
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

    def order(self, terms):
        return 2

    def strong_order(self, terms):
        return 1.5

    def advance(self, terms, t0, t1, y0, args):
        drift, noise = terms.terms
        h, increment = drift.contr(t0, t1), noise.contr(t0, t1, use_levy=True)
        root = jnp.sqrt(h)
        # Reciprocals of numbers that all paths share: a division for each path would cost more, and compilers
        # do not agree on its bits.
        per_root, per_step = 1 / root, 1 / (6 * h)
        area = jax.tree.map(lambda w, a: 0.5 * w + a, increment.W, increment.H)
        integrals = (
            increment.W,
            jax.tree.map(lambda w: 0.5 * (w * w - h) * per_root, increment.W),
            area,
            jax.tree.map(lambda w: w * (w * w - 3 * h) * per_step, increment.W),
        )
        f = drift.vf_prod(t0, y0, args, h)
        middle = total(total(y0, f, scale=0.75), noise.vf_prod(t0, y0, args, area), scale=1.5)
        f_middle = drift.vf_prod(t0 + 0.75 * h, middle, args, h)
        y1 = jax.tree.map(lambda y, a, b: y + (1 / 3) * a + (2 / 3) * b, y0, f, f_middle)
        ones = jax.tree.map(lambda w: root * jnp.ones_like(w), increment.W)
        slopes: list = []
        for a, row, c, weights in zip(_A1, _B1, _C1, _WEIGHTS, strict=True):
            stage = jax.tree.map(lambda y, k, a=a: y + a * k, y0, f) if a else y0
            for b, slope in zip(row, slopes, strict=False):
                stage = total(stage, slope, scale=b)
            control = jax.tree.map(
                lambda *parts, weights=weights: sum(w * x for w, x in zip(weights, parts, strict=True) if w),
                *integrals,
            )
            y1 = total(y1, noise.vf_prod(t0 + c * h, stage, args, control))
            if len(slopes) < len(_B1) - 1:
                slopes.append(noise.vf_prod(t0 + c * h, stage, args, ones))
        return y1


SRIW1_INFO = SolverInfo(
    name="SRIW1",
    cls=SRIW1,
    problem=("sde",),
    summary="Rößler's stochastic Runge–Kutta method for diagonal or scalar noise, two drift and four noise "
    "evaluations a step.",
    reference="Rößler (2010), Runge–Kutta methods for the strong approximation of solutions of stochastic "
    "differential equations, doi:10.1137/09076636X",
    calculus="ito",
    strong=Orders(1.5, diagonal=1.5),
    weak=Orders(2.0, diagonal=1.5, scalar=2.0),
    origin="simkit",
)
