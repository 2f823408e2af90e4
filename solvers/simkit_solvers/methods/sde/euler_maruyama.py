"""The Euler–Maruyama method."""

from typing import ClassVar

import diffrax
import jax
from jaxtyping import PyTree

from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Flag, Step, Terms, Time


class EulerMaruyama(diffrax.AbstractItoSolver):
    r"""Euler–Maruyama, $y_{n+1} = y_n + f(t_n, y_n)\,h + g(t_n, y_n)\,\Delta W_n$, for Itô problems.

    Strong order 0.5 (1 for additive noise), weak order 1, for any kind of noise. One drift and one diffusion
    evaluation a step. On an ordinary differential equation it is Euler's method.
    Reference: Maruyama (1955), Continuous Markov processes and stochastic equations, doi:10.1007/BF02846028;
    Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, chapter 10.2.
    """

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms):
        return 1

    def strong_order(self, terms):
        return 0.5

    def init(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        return None

    def step(
        self,
        terms: Terms,
        t0: Time,
        t1: Time,
        y0: PyTree,
        args: PyTree,
        solver_state: PyTree,
        made_jump: Flag,
    ) -> Step:
        change = terms.vf_prod(t0, y0, args, terms.contr(t0, t1))
        y1 = jax.tree.map(lambda y, dy: y + dy, y0, change)
        return y1, None, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms: Terms, t0: Time, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)


EULER_MARUYAMA = SolverInfo(
    name="EulerMaruyama",
    cls=EulerMaruyama,
    problem=("ode", "sde"),
    summary="Euler–Maruyama method for Itô problems with any noise, one evaluation of each a step.",
    reference="Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations, "
    "doi:10.1007/978-3-662-12616-5",
    calculus="ito",
    strong=Orders(1.0, 0.5, 0.5),
    weak=Orders(1.0, 1.0, 1.0),
    order=1,
    one_to_one=True,
    origin="simkit",
)
