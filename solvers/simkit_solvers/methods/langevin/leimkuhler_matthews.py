"""The Leimkuhler–Matthews method."""

from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractCarryingStep
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time


class LeimkuhlerMatthews(AbstractCarryingStep, diffrax.AbstractItoSolver):
    r"""Leimkuhler–Matthews method, the limit of BAOAB for strong friction, for additive noise:

    $$y_{n+1} = y_n + f(t_n, y_n)\,h + \tfrac12 (g\,\Delta W_{n-1} + g\,\Delta W_n).$$

    One drift and one noise evaluation a step; the noise is carried to the next, and the first step's
    predecessor is zero. For overdamped Langevin problems (`AbstractOverdampedLangevin`, or any drift that is
    a gradient under noise of one constant size) averages over the stationary distribution are of order 2,
    where those of `EulerMaruyama` are of order 1; on the way there the order is 1. The path itself has strong
    order 0.5 only: half of the newest increment is still missing from it.
    Reference: Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for
    molecular sampling, doi:10.1093/amrx/abs010; Leimkuhler, Matthews & Tretyakov (2014), On the long-time
    integration of stochastic gradient systems, doi:10.1098/rspa.2014.0120.
    """

    carries_noise: ClassVar = True  # of which half is still to come, whatever changes the state meanwhile
    term_structure: ClassVar = diffrax.MultiTerm[tuple[diffrax.AbstractTerm, diffrax.AbstractTerm]]

    def init(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        return jax.tree.map(jnp.zeros_like, y0)

    def advance_with(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, carried: PyTree
    ) -> tuple[PyTree, PyTree]:
        drift, noise = terms.terms
        change = drift.vf_prod(t0, y0, args, drift.contr(t0, t1))
        spread = noise.vf_prod(t0, y0, args, noise.contr(t0, t1))
        return jax.tree.map(lambda y, f, a, b: y + f + 0.5 * (a + b), y0, change, carried, spread), spread

    def func(self, terms: Terms, t0: Time, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)


LEIMKUHLER_MATTHEWS = SolverInfo(
    LeimkuhlerMatthews,
    "Euler's method with the mean of two successive noises, second order in the stationary averages "
    "of overdamped Langevin problems.",
    calculus="any",
    strong=Orders(0.5),
    weak=Orders(1.0),
    carries=True,
    overdamped=True,
)
