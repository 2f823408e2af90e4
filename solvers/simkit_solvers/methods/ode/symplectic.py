r"""Symplectic solvers of high order for separable problems: symmetric compositions of the leapfrog.

With $\Phi_h$ the leapfrog's step, of order 2 and symmetric, $\Phi_{w_m h} \circ \dots \circ \Phi_{w_1 h}$
with weights $w_i = w_{m+1-i}$ that sum to one is symmetric and symplectic, and of higher order for the right
ones.
"""

import itertools
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractCarryingStep
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.methods.step_types import Terms, Time


def _symmetric(*half: float) -> tuple[float, ...]:
    """The weights of a symmetric composition from its first half; the middle one makes the sum one."""
    return (*half, 1 - 2 * sum(half), *reversed(half))


class AbstractLeapfrogComposition(AbstractCarryingStep):
    r"""For $w$ in the weights: $p \mathrel{+}= \tfrac12 w h f_p(q)$, $q \mathrel{+}= w h f_q(p)$,
    $p \mathrel{+}= \tfrac12 w h f_p(q)$, where neighbouring kicks of $p$ are one.

    Takes two terms, as `diffrax.SemiImplicitEuler` does: the rate of the first half of the state, given the
    second, and the other way round. The last $f_p$ of a step is the first of the next and is carried as the
    solver's state, so a step costs as many evaluations of each as there are weights. On a problem that
    depends on time, the rates of $p$ are those at the time that $q$ has reached and those of $q$ at the time
    that $p$ has, which keeps the order.
    """

    term_structure: ClassVar = (diffrax.AbstractTerm, diffrax.AbstractTerm)
    weights: eqx.AbstractClassVar[tuple[float, ...]]

    def init(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        return terms[1].vf(t0, y0[0], args)

    def advance_with(
        self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree, carried: PyTree
    ) -> tuple[PyTree, PyTree]:
        drift, kick = terms
        (q, p), push = y0, carried
        whole_drift, whole_kick = drift.contr(t0, t1), kick.contr(t0, t1)
        reached_q, reached_p = 0.0, 0.0
        for before, w in itertools.pairwise((0.0, *self.weights)):
            p = _moved(p, kick.prod(push, _part(whole_kick, (before + w) / 2)))
            reached_p += (before + w) / 2
            q = _moved(q, drift.vf_prod(t0 + reached_p * (t1 - t0), p, args, _part(whole_drift, w)))
            reached_q += w
            push = kick.vf(t0 + reached_q * (t1 - t0), q, args)
        p = _moved(p, kick.prod(push, _part(whole_kick, self.weights[-1] / 2)))
        return (q, p), push

    def func(self, terms: Terms, t0: Time, y0: PyTree, args: PyTree) -> PyTree:
        q, p = y0
        return terms[0].vf(t0, p, args), terms[1].vf(t0, q, args)


class Leapfrog(AbstractLeapfrogComposition):
    r"""Leapfrog, also called velocity Verlet or Störmer–Verlet, kick, drift, kick:

    $$p_{1/2} = p + \tfrac h2 f_p(q),\; q_1 = q + h f_q(p_{1/2}),\; p_1 = p_{1/2} + \tfrac h2 f_p(q_1).$$

    Order 2, symmetric and symplectic, for separable problems: positions first, then momenta. One evaluation
    of the force a step, which is carried to the next. The error of the energy stays bounded, of the order of
    $h^2$, for times exponentially long in $1/h$. Stable on an oscillator of frequency $\omega$ for
    $h\omega < 2$.
    Reference: Verlet (1967), Computer experiments on classical fluids I, doi:10.1103/PhysRev.159.98; Hairer,
    Lubich & Wanner (2003), Geometric numerical integration illustrated by the Störmer–Verlet method,
    doi:10.1017/S0962492902000144.
    """

    weights = (1.0,)


class Yoshida4(AbstractLeapfrogComposition):
    r"""Yoshida's method of order 4, also called Forest–Ruth: $\Phi_{w h}\circ\Phi_{(1-2w)h}\circ\Phi_{w h}$,

    with $\Phi_h$ the leapfrog's step and $w = 1/(2 - 2^{1/3})$. Symmetric and symplectic, for separable
    problems: positions first, then momenta. Three evaluations of the force a step; the middle substep goes
    back in time by $1.70\,h$.
    Reference: Yoshida (1990), Construction of higher order symplectic integrators,
    doi:10.1016/0375-9601(90)90092-3; Forest & Ruth (1990), Fourth-order symplectic integration,
    doi:10.1016/0167-2789(90)90019-L.
    """

    weights = _symmetric(1 / (2 - 2 ** (1 / 3)))


class Yoshida6(AbstractLeapfrogComposition):
    r"""Yoshida's method of order 6, solution A: seven leapfrog steps $\Phi_{w_i h}$ with

    $w = (0.7845\ldots, 0.2355\ldots, -1.1776\ldots, 1.3151\ldots)$ and back. Symmetric and symplectic, for
    separable problems: positions first, then momenta. Seven evaluations of the force a step.
    Reference: Yoshida (1990), Construction of higher order symplectic integrators,
    doi:10.1016/0375-9601(90)90092-3; the weights to all digits of float64 are those of Hairer, Lubich &
    Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8, chapter V.3.
    """

    weights = _symmetric(0.78451361047755726382, 0.23557321335935813368, -1.17767998417887100695)


def _part(control, weight: float):
    return jax.tree.map(lambda c: weight * c, control)


def _moved(y, change):
    return jax.tree.map(lambda u, du: u + du, y, change)


SYMPLECTIC_SOLVERS: tuple[SolverInfo, ...] = (
    SolverInfo(
        Leapfrog,
        "Leapfrog or velocity Verlet for separable problems, symplectic, one force a step.",
        order=2,
        reversible=True,
    ),
    SolverInfo(
        Yoshida4,
        "Symplectic composition of order 4 for separable problems, three forces a step.",
        order=4,
        reversible=True,
    ),
    SolverInfo(
        Yoshida6,
        "Symplectic composition of order 6 for separable problems, seven forces a step.",
        order=6,
        reversible=True,
    ),
)
