"""The BAOAB splitting of underdamped Langevin dynamics."""

from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractCarryingStep
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time
from simkit_solvers.problems.terms import LANGEVIN_TERMS


class BAOAB(AbstractCarryingStep, diffrax.AbstractItoSolver):
    r"""BAOAB splitting for underdamped Langevin problems, with $R = \Delta W/\sqrt h$ standard normal:

    $$p' = p - \tfrac h2 u\nabla f(q),\quad q' = q + \tfrac h2 p',\quad
    p'' = e^{-\gamma h} p' + \sqrt{u\,(1 - e^{-2\gamma h})}\,R,\quad
    q_1 = q' + \tfrac h2 p'',\quad p_1 = p'' - \tfrac h2 u\nabla f(q_1).$$

    Weak order 2, strong order 1, for `AbstractUnderdampedLangevin` problems. One gradient a step, which is
    carried to the next. Averages over the stationary positions are of order 2 in general, of order 4 in the
    limit of strong friction, and exact in a harmonic potential. Without friction it is the leapfrog. Stable
    on $f = q^2/2$ for $h\sqrt u < 2$, at any friction.
    Reference: Leimkuhler & Matthews (2013), Rational construction of stochastic numerical methods for
    molecular sampling, doi:10.1093/amrx/abs010.
    """

    term_structure: ClassVar = LANGEVIN_TERMS

    def init(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        return _force_and_friction(terms.terms[0], t0, y0, args)[0]

    def advance_with(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, carried: PyTree
    ) -> tuple[PyTree, PyTree]:
        drift, diffusion = terms.terms
        h = drift.contr(t0, t1)
        (q, p), push = y0, carried
        _, friction = _force_and_friction(drift, t0, y0, args)
        _, kick = diffusion.vf_prod(t0, y0, args, diffusion.contr(t0, t1))
        p = jax.tree.map(lambda v, f: v + 0.5 * h * f, p, push)
        q = jax.tree.map(lambda x, v: x + 0.5 * h * v, q, p)
        p = jax.tree.map(
            # The kick is that of an increment: sqrt(2 gamma u) dW.
            lambda v, g, k: jnp.exp(-g * h) * v + jnp.sqrt(-jnp.expm1(-2 * g * h) / (2 * g * h)) * k,
            p,
            friction,
            kick,
        )
        q = jax.tree.map(lambda x, v: x + 0.5 * h * v, q, p)
        push, _ = _force_and_friction(drift, t1, (q, p), args)
        p = jax.tree.map(lambda v, f: v + 0.5 * h * f, p, push)
        return (q, p), push

    def func(self, terms: Terms, t0: Time, y0: PyTree, args: PyTree) -> PyTree:
        return terms.vf(t0, y0, args)


def _force_and_friction(drift, t, y, args):
    r"""$-u\nabla f(q)$, and $\gamma$ in the shape of $p$: value and slope of the rate of $p$ at $p = 0$."""
    q, p = y

    def rate(v):
        return drift.vf(t, (q, v), args)[1]

    zeros, ones = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.ones_like, p)
    force, slope = jax.jvp(rate, (zeros,), (ones,))
    return force, jax.tree.map(jnp.negative, slope)


BAOAB_INFO = SolverInfo(
    BAOAB,
    "Leapfrog with an exact Ornstein–Uhlenbeck step inside, for underdamped Langevin problems, one "
    "gradient a step.",
    calculus="any",
    strong=Orders(1.0),
    weak=Orders(2.0),
    langevin=True,
)
