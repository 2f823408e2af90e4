"""Platen's explicit method of weak order 2 for any noise."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.methods.one_step import AbstractOneStep, components, groups, total
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time


class PlatenWeak2(AbstractOneStep, diffrax.AbstractItoSolver):
    r"""Platen's explicit scheme of weak order 2 for Itô problems with any noise,

    $$y_{n+1} = y_n + \tfrac12(f(z) + f) h
      + \tfrac14 \sum_j (g_j(R_j^+) + g_j(R_j^-) + 2 g_j) \Delta W_j
      + \tfrac14 \sum_j (g_j(R_j^+) - g_j(R_j^-)) \frac{\Delta W_j^2 - h}{\sqrt h}$$
    $$\qquad + \tfrac14 \sum_{j\ne r} (g_j(U_r^+) + g_j(U_r^-) - 2 g_j) \Delta W_j
      + \tfrac14 \sum_{j\ne r} (g_j(U_r^+) - g_j(U_r^-)) \frac{\Delta W_j\,\Delta W_r + V_{rj}}{\sqrt h}$$

    with $z = y_n + f h + g\,\Delta W$ and $R_j^\pm = y_n + f h \pm g_j\sqrt h$ at time $t + h$,
    $U_r^\pm = y_n \pm g_r\sqrt h$ at time $t$, and $V_{rj} = -V_{jr} = \pm h$ with equal probability. Here
    $V_{rj} = h\,s_r s_j$ for $r < j$ with the signs $s$ of the space-time Lévy areas, which are independent
    of the increments; that three of them are dependent enters at order $h^3$ only.

    Weak order 2. Strong order 1 for commutative noise, 0.5 for other. Two drift evaluations a step and four
    of the noise for each component.
    Reference: Kloeden & Platen (1992), Numerical Solution of Stochastic Differential Equations,
    doi:10.1007/978-3-662-12616-5, section 15.1.
    """

    areas = 1

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        drift, noise = terms.terms
        h, increment = drift.contr(t0, t1), noise.contr(t0, t1, use_levy=True)
        root, (w, control) = jnp.sqrt(h), components(increment.W)
        signs = [jnp.where(a < 0, -jnp.ones_like(a), jnp.ones_like(a)) for a in components(increment.H)[0]]
        one, zero = jnp.ones_like(w[0]), jnp.zeros_like(w[0])
        everyone = range(len(w))
        f = drift.vf_prod(t0, y0, args, h)
        euler = total(y0, f)
        support = total(euler, noise.vf_prod(t0, y0, args, increment.W))
        f_support = drift.vf_prod(t0 + h, support, args, h)
        change = [jax.tree.map(lambda a, b: 0.5 * (a + b), f, f_support)]
        centre = [zero for _ in w]
        for group in groups(noise, len(w)):
            others = [j for j in everyone if j not in group]
            unit = control([one if j in group else zero for j in everyone])
            column = jax.tree.map(lambda x: root * x, noise.vf_prod(t0, y0, args, unit))
            centre = [c + (0.5 if j in group else -0.5) * w[j] for j, c in enumerate(centre)]
            r = group[0]
            for sign in (1.0, -1.0):
                ahead = total(euler, column, scale=sign)
                own = [
                    0.25 * (x + sign * (x * x - h) / root) if j in group else zero for j, x in enumerate(w)
                ]
                change.append(noise.vf_prod(t0 + h, ahead, args, control(own)))
                if others:
                    aside = total(y0, column, scale=sign)
                    areas = [(h if r < j else -h) * signs[r] * s for j, s in enumerate(signs)]
                    cross = [(x * w[r] + v) / root for x, v in zip(w, areas, strict=True)]
                    rest = [0.25 * (w[j] + sign * cross[j]) if j in others else zero for j in everyone]
                    change.append(noise.vf_prod(t0, aside, args, control(rest)))
        return total(y0, *change, noise.vf_prod(t0, y0, args, control(centre)))


PLATEN_WEAK_2 = SolverInfo(
    PlatenWeak2,
    "Platen's explicit scheme of weak order 2 for Itô problems with any noise, two drift and four "
    "noise evaluations per component a step.",
    calculus="ito",
    strong=Orders(1.0, 1.0, 0.5),
    weak=Orders(2.0, 2.0, 2.0),
)
