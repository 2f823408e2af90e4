"""Milstein's method for Itô problems, with derivatives and without."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractOneStep, directions, total
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time

_ORDERS = Orders(1.0, 1.0)


class Milstein(AbstractOneStep, diffrax.AbstractItoSolver):
    r"""Milstein's method for Itô problems,

    $$y_{n+1} = y_n + f h + g\,\Delta W + \tfrac12 \sum_{jk} (g_j\cdot\nabla) g_k\,
      (\Delta W_j\,\Delta W_k - \delta_{jk} h).$$

    Strong and weak order 1 for scalar, diagonal and commutative noise. Of other noise it leaves out the Lévy
    areas of pairs of Brownian motions, which are zero on average: the strong order is 0.5 then, and the error
    of order 0.5 is the opposite on a path whose increments come in the other order, so that levels of
    multilevel runs take both (Giles & Szpruch 2014, doi:10.1214/13-AAP957). One drift evaluation a step and
    one derivative of the noise, by `jax.jvp`, for each component (one in all for diagonal noise).
    Reference: Milstein (1975), Approximate integration of stochastic differential equations,
    doi:10.1137/1119062; Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, section 10.3.
    """

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        drift, noise = terms.terms
        dW = noise.contr(t0, t1)
        change = [drift.vf_prod(t0, y0, args, drift.contr(t0, t1)), noise.vf_prod(t0, y0, args, dW)]
        return total(y0, *change, *iterated(noise, t0, t1, y0, args, dW))


class DerivativeFreeMilstein(AbstractOneStep, diffrax.AbstractItoSolver):
    r"""Platen's explicit scheme of strong order 1 for Itô problems with commutative noise,

    $$y_{n+1} = y_n + f h + g\,\Delta W + \frac{1}{2\sqrt h} \sum_{jk}
      \bigl(g_k(t_n, z_j) - g_k(t_n, y_n)\bigr)(\Delta W_j\,\Delta W_k - \delta_{jk} h),\qquad
      z_j = y_n + f h + g_j \sqrt h.$$

    Milstein's method with differences in place of derivatives, for noise that has none or dear ones. Strong
    and weak order 1 for scalar, diagonal and commutative noise.
    Reference: Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, section 11.1.
    """

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        drift, noise = terms.terms
        h, dW = drift.contr(t0, t1), noise.contr(t0, t1)
        f = drift.vf_prod(t0, y0, args, h)
        root = jnp.sqrt(h)
        differences = []
        for unit, weight in directions(noise, dW, h):
            support = total(total(y0, f), noise.vf_prod(t0, y0, args, unit), scale=root)
            there, here = (noise.vf_prod(t0, y, args, weight) for y in (support, y0))
            differences.append(jax.tree.map(lambda u, v: (u - v) / (2 * root), there, here))
        return total(y0, f, noise.vf_prod(t0, y0, args, dW), *differences)


def iterated(noise: diffrax.AbstractTerm, t0: Time, t1: Time, y0: PyTree, args: PyTree, dW: PyTree) -> PyTree:
    r"""The terms of $\sum_{jk} (g_j\cdot\nabla) g_k\,I_{jk}$ at `y0`, by derivatives."""
    terms = []
    for unit, weight in directions(noise, dW, t1 - t0):
        along = noise.vf_prod(t0, y0, args, unit)
        _, change = jax.jvp(lambda y, w=weight: noise.vf_prod(t0, y, args, w), (y0,), (along,))
        terms.append(jax.tree.map(lambda x: 0.5 * x, change))
    return terms


MILSTEIN = SolverInfo(
    Milstein,
    "Milstein's method for Itô problems, without Lévy areas, derivatives of the noise by jvp.",
    calculus="ito",
    strong=Orders(1.0, 1.0, general=0.5),
    weak=Orders(1.0, 1.0, general=1.0),
    unbiased_area=True,
    reads_slopes=True,
)

DERIVATIVE_FREE_MILSTEIN = SolverInfo(
    DerivativeFreeMilstein,
    "Platen's explicit scheme of order 1 for Itô problems with commutative noise, no derivatives.",
    calculus="ito",
    strong=_ORDERS,
    weak=_ORDERS,
)
