"""Rosenbrock methods: linearly implicit steps for stiff problems, without an iteration."""

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jax.flatten_util import ravel_pytree

from simkit_solvers.elimination import factorise, solve

UNROLLED = 8  # variables up to which the elimination is written out


class RosenbrockTableau(NamedTuple):
    r"""A Rosenbrock method in the form without products by the Jacobian (Hairer & Wanner, IV.7).

    With $F(t, y) = h f(t, y)$, all derivatives taken at the start of the step,
    $$\left(\frac{1}{\gamma} - F_y\right) u_i = F\left(t + \alpha_i h,\ y + \sum_{j<i} a_{ij} u_j\right)
    + \sum_{j<i} c_{ij} u_j + \gamma_i h F_t, \qquad y_1 = y + \sum_i m_i u_i.$$
    `e` gives the error estimate $\sum e_i u_i$, and `d` the dense output
    $y(t + \theta h) = (1-\theta) y + \theta y_1 + \theta(1-\theta)(D_1 + \theta(D_2 + \dots))$ with
    $D_k = \sum_i d_{ki} u_i$.
    """

    gamma: float
    a: tuple[tuple[float, ...], ...]
    c: tuple[tuple[float, ...], ...]
    m: tuple[float, ...]
    e: tuple[float, ...]
    alpha: tuple[float, ...]
    gammas: tuple[float, ...]
    d: tuple[tuple[float, ...], ...]


class RosenbrockInterpolation(diffrax.AbstractLocalInterpolation):
    """The dense output of a Rosenbrock method within one step; `D` as in `RosenbrockTableau`."""

    t0: Any
    t1: Any
    y0: Any
    y1: Any
    D: tuple

    def evaluate(self, t0, t1=None, left=True):
        if t1 is not None:
            early, late = self.evaluate(t0), self.evaluate(t1)
            return jax.tree.map(jnp.subtract, late, early)
        length = jnp.asarray(self.t1 - self.t0)
        theta = (t0 - self.t0) / jnp.where(length == 0, jnp.ones_like(length), length)

        def at(y0, y1, *D):
            x = theta.astype(y0.dtype)
            bulge = D[-1]
            for coefficient in reversed(D[:-1]):
                bulge = coefficient + x * bulge
            return (1 - x) * y0 + x * (y1 + (1 - x) * bulge)

        return jax.tree.map(at, self.y0, self.y1, *self.D)


class AbstractRosenbrock(diffrax.AbstractAdaptiveSolver):
    """A Rosenbrock method, which is its tableau and nothing else.

    Takes one term with an ordinary control, such as `diffrax.ODETerm`, which it differentiates by the state
    and by time. The matrix is factorised once a step: by an elimination written out over scalars for a state
    of up to eight scalars, else densely, n by n for n numbers in the state. A singular matrix gives an error
    estimate of infinity, on which an adaptive step is tried again shorter, and values that are not finite.
    """

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar = RosenbrockInterpolation

    tableau: eqx.AbstractClassVar[RosenbrockTableau]

    def init(self, terms, t0, t1, y0, args):
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        tableau, t0 = self.tableau, jnp.asarray(t0)
        h, control = t1 - t0, terms.contr(t0, t1)

        def change(t, y):
            return terms.vf_prod(t, y, args, control)

        f0, slope = jax.jvp(lambda t: change(t, y0), (t0,), (jnp.ones_like(t0),))
        drift = jax.tree.map(lambda s: s * h.astype(s.dtype), slope)
        inverse = _inverse(lambda y: change(t0, y), y0, tableau.gamma)
        u: list[Any] = []
        for alpha, gamma, a, c in zip(tableau.alpha, tableau.gammas, tableau.a, tableau.c, strict=True):
            f = change(t0 + alpha * h, _sum(a, u, y0)) if a else f0
            stage = inverse(_sum((*c, gamma), [*u, drift], f))
            # XLA's CPU compiler would compute all earlier stages again for each variable of each later one.
            u.append(_barrier(stage))
        y1 = _sum(tableau.m, u, y0)
        error = _sum(tableau.e, u)
        finite = jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves((y1, error))]).all()
        error = jax.tree.map(lambda x: jnp.where(finite, x, jnp.inf), error)
        dense = {"y0": y0, "y1": y1, "D": tuple(_sum(row, u) for row in tableau.d)}
        return y1, error, dense, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


@jax.custom_jvp
def _barrier(tree):
    """The same values, each computed once; tangents pass, since jax 0.12 fails to transpose some barriers."""
    return jax.lax.optimization_barrier(tree)


@_barrier.defjvp
def _(primals, tangents):
    return _barrier(*primals), tangents[0]


def _sum(weights, trees, start=None):
    """`start` + the sum of weight * tree over the weights that are not zero."""
    pairs = [(w, tree) for w, tree in zip(weights, trees, strict=True) if w != 0]
    if start is None:
        (w, tree), *pairs = pairs
        start = jax.tree.map(lambda x: w * x, tree)
    for w, tree in pairs:
        start = jax.tree.map(lambda x, u, w=w: x + w * u, start, tree)
    return start


def _inverse(F, y, gamma):
    """The map from b to the solution of $(1/\\gamma - F_y) x = b$, all of them of y's structure."""
    leaves, tree = jax.tree.flatten(y)
    if len(leaves) <= UNROLLED and all(jnp.shape(leaf) == () for leaf in leaves):
        factors = _barrier(factorise(_scalar_rows(F, leaves, tree, gamma)))
        return lambda b: jax.tree.unflatten(tree, solve(factors, jax.tree.leaves(b)))
    flat, unravel = ravel_pytree(y)
    jacobian = jax.jacfwd(lambda x: ravel_pytree(F(unravel(x)))[0])(flat)
    operator = lx.MatrixLinearOperator(jnp.eye(flat.size, dtype=flat.dtype) / gamma - jacobian)
    solver = lx.LU()
    state = solver.init(operator, {})
    return lambda b: unravel(
        lx.linear_solve(operator, ravel_pytree(b)[0], solver, state=state, throw=False).value
    )


def _scalar_rows(F, leaves, tree, gamma):
    """$1/\\gamma - F_y$ by one derivative for each scalar, so that no array over the variables arises."""
    columns = []
    for j, leaf in enumerate(leaves):

        def along(x, j=j):
            return jax.tree.leaves(F(jax.tree.unflatten(tree, [*leaves[:j], x, *leaves[j + 1 :]])))

        column = jax.jvp(along, (leaf,), (jnp.ones_like(leaf),))[1]
        columns.append([1 / gamma - x if i == j else -x for i, x in enumerate(column)])
    return [list(row) for row in zip(*columns, strict=True)]
