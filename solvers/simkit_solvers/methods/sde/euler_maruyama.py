"""The Euler–Maruyama method."""

import diffrax
import jax
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractOneStep
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time


class EulerMaruyama(AbstractOneStep, diffrax.AbstractItoSolver):
    r"""Euler–Maruyama, $y_{n+1} = y_n + f(t_n, y_n)\,h + g(t_n, y_n)\,\Delta W_n$, for Itô problems.

    Strong order 0.5 (1 for additive noise), weak order 1, for any kind of noise. One drift and one diffusion
    evaluation a step. On an ordinary differential equation it is Euler's method.
    Reference: Maruyama (1955), Continuous Markov processes and stochastic equations, doi:10.1007/BF02846028;
    Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, chapter 10.2.
    """

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        change = terms.vf_prod(t0, y0, args, terms.contr(t0, t1))
        return jax.tree.map(lambda y, dy: y + dy, y0, change)


EULER_MARUYAMA = SolverInfo(
    EulerMaruyama,
    "Euler–Maruyama method for Itô problems with any noise, one evaluation of each a step.",
    calculus="ito",
    strong=Orders(1.0, 0.5, 0.5),
    weak=Orders(1.0, 1.0, 1.0),
    order=1,
    one_to_one=True,
)
